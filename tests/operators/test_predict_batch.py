"""Predict operators: what linking refuses and the columns of the result. Their jobs run in
tests/e2e.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError, SchemaError
from operators import (
    BatchOperator,
    MLEnv,
    StreamOperator,
    TableSourceBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictBatchOp,
)

pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def rows(env: MLEnv) -> TableSourceBatchOp:
    return BatchOperator.fromTable(
        env.btenv.sql_query("SELECT CAST(1 AS FLOAT) AS x0, CAST(2 AS FLOAT) AS x1, 'a' AS label")
    )


@pytest.fixture
def predictor(tmp_path: pathlib.Path) -> Callable[..., TFSavedModelPredictBatchOp]:
    """Make an operator; local jobs read the model where it lies, and none runs here."""
    (tmp_path / "saved_model.pb").touch()

    def make(**params: Any) -> TFSavedModelPredictBatchOp:
        return TFSavedModelPredictBatchOp(
            **{
                "modelPath": str(tmp_path),
                "outputSchemaStr": "y DOUBLE",
                "selectedCols": ["x0", "x1"],
                **params,
            }
        )

    return make


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({}, ["x0", "x1", "label", "y"]),
        ({"reservedCols": []}, ["y"]),
        ({"reservedCols": ["label", "x0"]}, ["x0", "label", "y"]),
        ({"reservedCols": ["label"], "errorCol": "why"}, ["label", "y", "why"]),
        ({"outputSchemaStr": "z STRING, x1 DOUBLE"}, ["x0", "x1", "label", "z"]),
    ],
)
def test_result_has_kept_columns_and_outputs(
    rows: TableSourceBatchOp,
    predictor: Callable[..., TFSavedModelPredictBatchOp],
    params: dict[str, Any],
    names: list[str],
) -> None:
    op = predictor(**params)
    assert rows.link(op) is op
    assert op.getColNames() == names


def test_job_releases_the_processes_of_all_copies(
    rows: TableSourceBatchOp, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    op = rows.link(predictor(inferProcesses=3))
    (group,) = op._shown
    assert op._models == {group, f"{group}_1", f"{group}_2"}


def test_an_output_takes_the_place_and_the_type_of_a_column_of_its_name(
    rows: TableSourceBatchOp, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    op = rows.link(predictor(outputSchemaStr="x1 STRING, both ARRAY<FLOAT>", errorCol="why"))
    types = [name.replace(" NOT NULL", "") for name in op.getColTypes()]
    assert dict(zip(op.getColNames(), types)) == {
        "x0": "FLOAT", "x1": "STRING", "label": "CHAR(1)", "both": "ARRAY<FLOAT>", "why": "STRING",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"modelPath": "/nowhere"}, "modelPath: there is no /nowhere"),
        (
            {"modelPath": "/proc/cmdline"},
            "modelPath: /proc/cmdline: expected the folder of a SavedModel or of MLflow, .*, a zip or tar file of",
        ),
        ({"candidatePath": "/nowhere"}, "candidatePath: there is no /nowhere"),
        ({"candidatePath": "/proc/self/fd"}, "candidatePath: expected a SavedModel"),
        ({"selectedCols": ["x9"]}, "selectedCols' names 'x9'; the input has 'x0', 'x1', 'label'"),
        (
            {
                "outputSchemaStr": "label FLOAT",
                "outputSignatureDefs": ["y"],
                "reservedCols": ["x0", "label"],
            },
            "reservedCols and outputSchemaStr both name 'label': give the output another name in outputSchemaStr",
        ),
        ({"reservedCols": ["x9"]}, "reservedCols' names 'x9'; the input has 'x0', 'x1', 'label'"),
        (
            {"defaults": {"label": "a"}},
            "parameter 'defaults' names 'label'; the input has 'x0', 'x1'",
        ),
        (
            {"inputSignatureDefs": ["a"]},
            "inputSignatureDefs: expected 2 names for the columns of selectedCols \\(x0, x1\\), got 1",
        ),
        (
            {"outputSignatureDefs": ["a", "b"]},
            "outputSignatureDefs: expected 1 names for the columns of outputSchemaStr \\(y\\), got 2",
        ),
        ({"errorCol": "y"}, "errorCol 'y' is also another column"),
        (
            {"outputSchemaStr": "t TIMESTAMP_LTZ(3)"},
            "column 't' is TIMESTAMP_LTZ: use TIMESTAMP or BIGINT",
        ),
        ({"pythonEnv": "/nowhere"}, "pythonEnv '/nowhere': expected a folder with bin/python"),
    ],
)
@pytest.mark.fault("data", "An output with the name of a reserved column is refused")
def test_wrong_parameters_are_refused_without_a_model(
    rows: TableSourceBatchOp,
    predictor: Callable[..., TFSavedModelPredictBatchOp],
    params: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ConfigurationError, match=f"TFSavedModelPredictBatchOp: .*{message}"):
        rows.link(predictor(**params))


def test_the_environment_variable_is_the_default_of_python_env(
    rows: TableSourceBatchOp,
    predictor: Callable[..., TFSavedModelPredictBatchOp],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match="pythonEnv '/nowhere'"):
        rows.link(predictor())


@pytest.mark.parametrize("parameter", ["modelPath", "candidatePath"])
def test_a_file_that_would_be_unpickled_is_refused_unless_it_is_trusted(
    rows: TableSourceBatchOp,
    predictor: Callable[..., TFSavedModelPredictBatchOp],
    tmp_path: pathlib.Path,
    parameter: str,
) -> None:
    (tmp_path / "m.pt2").touch()
    with pytest.raises(
        ConfigurationError, match=rf"{parameter}: .*m.pt2: PyTorch unpickles .*set trusted=True"
    ):
        rows.link(predictor(**{parameter: str(tmp_path / "m.pt2")}))


def test_parameters_are_fixed_once_linked(
    rows: TableSourceBatchOp, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    op = rows.link(predictor())
    with pytest.raises(ConfigurationError, match="'inferBatchSize' is set too late"):
        op.setInferBatchSize(2)


def test_first_input_without_a_model_table_is_refused(rows: TableSourceBatchOp) -> None:
    with pytest.raises(
        ConfigurationError,
        match="the first input: expected a model table with the columns .*, got x0, x1, label",
    ):
        TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE").linkFrom(rows, rows)


def test_missing_parameters_are_refused_before_the_model_is_trained(
    env: MLEnv, rows: TableSourceBatchOp
) -> None:
    table = "SELECT CAST(1 / 0 AS BIGINT) AS model_id, 'a' AS model_info"  # its job would fail
    with pytest.raises(
        ConfigurationError, match="TFTableModelPredictBatchOp: set 'outputSchemaStr' before"
    ):
        TFTableModelPredictBatchOp().linkFrom(
            BatchOperator.fromTable(env.btenv.sql_query(table)), rows
        )


def test_inputs_of_a_wrong_kind_or_number_are_refused(
    env: MLEnv, rows: TableSourceBatchOp, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    stream = StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS x0"))
    with pytest.raises(
        ConfigurationError, match="TFSavedModelPredictBatchOp takes one BatchOperator, got none"
    ):
        predictor().linkFrom()
    with pytest.raises(
        ConfigurationError, match="takes one BatchOperator, got TableSourceStreamOp"
    ):
        predictor().linkFrom(stream)
    op = TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE")
    with pytest.raises(
        ConfigurationError, match="takes a model table and the table to predict, got .*StreamOp"
    ):
        op.linkFrom(rows, stream)
    with pytest.raises(
        ConfigurationError,
        match="takes a model table and the table to predict, got TableSourceBatchOp;",
    ):
        op.linkFrom(rows)


def test_columns_of_unsupported_types_are_refused_unless_dropped(
    env: MLEnv, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    table = env.btenv.sql_query("SELECT INTERVAL '1' DAY AS i, CAST(1 AS FLOAT) AS x0")
    rows = BatchOperator.fromTable(table)
    with pytest.raises(SchemaError, match=r"the column 'i' has the type INTERVAL.*does not have"):
        rows.link(predictor(selectedCols=["x0"], reservedCols=["i"]))
    assert rows.link(predictor(selectedCols=["x0"], reservedCols=[])).getColNames() == ["y"]
    with pytest.raises(
        SchemaError,
        match="the column 'i' has the type .*; select the columns that feed the model with selectedCols",
    ):
        rows.link(predictor(selectedCols=["i"]))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"modelKeyCol": "x9"}, "parameter 'modelKeyCol' names 'x9'"),
        (
            {"modelKeyCol": "x0"},
            "modelKeyCol: expected a column of integers or texts, got 'x0', FLOAT",
        ),
        ({"modelCol": "label"}, "modelCol 'label' is also another column: rename it"),
    ],
)
def test_wrong_settings_of_keyed_models_are_refused(
    rows: TableSourceBatchOp,
    predictor: Callable[..., TFSavedModelPredictBatchOp],
    params: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ConfigurationError, match=f"TFSavedModelPredictBatchOp: {message}"):
        rows.link(predictor(**params))


def test_column_of_keys_feeds_no_model(
    rows: TableSourceBatchOp, predictor: Callable[..., TFSavedModelPredictBatchOp]
) -> None:
    op = rows.link(
        predictor(
            selectedCols=None,
            modelKeyCol="label",
            inputSignatureDefs=["a", "b"],
            modelCol="version",
        )
    )
    assert op.getColNames() == ["x0", "x1", "label", "y", "version"]
    with pytest.raises(
        ConfigurationError,
        match="modelKeyCol chooses among models in a folder, and the first input is one",
    ):
        TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE", modelKeyCol="label").linkFrom(
            rows, rows
        )
