"""Predict operators of streams: what linking refuses before anything runs. Their jobs run in
tests/e2e.
"""

from __future__ import annotations

import pathlib

import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    BatchOperator,
    MLEnv,
    StreamOperator,
    TableSourceBatchOp,
    TableSourceStreamOp,
    TFSavedModelPredictStreamOp,
    TFTableModelPredictStreamOp,
    useLocalEnv,
)

pytestmark = pytest.mark.flink
# whoever ran its job would see it fail
MODELS = "SELECT CAST(1 / 0 AS BIGINT) AS model_id, 'a' AS model_info"


@pytest.fixture(scope="module")
def data(env: MLEnv) -> TableSourceStreamOp:
    return StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id, CAST(1 AS FLOAT) AS x"))


@pytest.fixture(scope="module")
def models_as_stream(env: MLEnv) -> TableSourceStreamOp:
    return StreamOperator.fromTable(env.stenv.sql_query(MODELS))


@pytest.fixture(scope="module")
def model_table(env: MLEnv) -> TableSourceBatchOp:
    return BatchOperator.fromTable(env.btenv.sql_query(MODELS))


@pytest.fixture
def op(tmp_path: pathlib.Path) -> TFSavedModelPredictStreamOp:
    (tmp_path / "saved_model.pb").touch()
    return TFSavedModelPredictStreamOp(
        modelPath=str(tmp_path), outputSchemaStr="p DOUBLE", reservedCols=["id"]
    )


def test_the_result_is_a_stream(data: TableSourceStreamOp, op: TFSavedModelPredictStreamOp) -> None:
    assert data.link(op) is op and isinstance(op, StreamOperator)
    assert op.getColNames() == ["id", "p"]
    with pytest.raises(ConfigurationError, match="'chunkWait' is set too late"):
        op.setChunkWait(1)


def test_a_second_stream_of_models_adds_no_column(
    data: TableSourceStreamOp,
    models_as_stream: TableSourceStreamOp,
    op: TFSavedModelPredictStreamOp,
) -> None:
    assert op.linkFrom(data, models_as_stream).getColNames() == ["id", "p"]


@pytest.mark.parametrize(("chained", "interval"), [("true", "200"), ("false", "150")])
def test_flinks_interval_of_bundles_matters_only_between_tasks(
    op: TFSavedModelPredictStreamOp, chained: str, interval: str
) -> None:
    table_env = useLocalEnv(1, config={"pipeline.operator-chaining.enabled": chained}).stenv
    StreamOperator.fromTable(table_env.sql_query("SELECT 1 AS id")).link(op.setChunkWait(0.15))
    assert table_env.get_config().get("python.fn-execution.bundle.time", "") == interval


@pytest.mark.parametrize("given", [None, "stream", "text"])
def test_the_first_model_is_a_batch_operator(data: TableSourceStreamOp, given: str | None) -> None:
    model, got = {
        None: (None, "none"),
        "stream": (data, "a TableSourceStreamOp"),
        "text": ("m", "a str"),
    }[given]
    with pytest.raises(
        ConfigurationError, match=f"expected a BatchOperator with the first model, .*, got {got}$"
    ):
        TFTableModelPredictStreamOp(model, outputSchemaStr="p DOUBLE").linkFrom(data)


def test_the_first_model_is_a_model_table(env: MLEnv, data: TableSourceStreamOp) -> None:
    other = BatchOperator.fromTable(env.btenv.sql_query("SELECT 1 AS a"))
    with pytest.raises(
        ConfigurationError,
        match="TFTableModelPredictStreamOp: the model: expected a model table with the columns model_id, model_info, got a",
    ):
        TFTableModelPredictStreamOp(other, outputSchemaStr="p DOUBLE").linkFrom(data)


def test_wrong_inputs_and_parameters_are_refused_before_the_training(
    data: TableSourceStreamOp, model_table: TableSourceBatchOp
) -> None:
    with pytest.raises(
        ConfigurationError,
        match="takes the stream to predict, and optionally .*got TableSourceBatchOp",
    ):
        TFTableModelPredictStreamOp(model_table, outputSchemaStr="p DOUBLE").linkFrom(model_table)
    with pytest.raises(ConfigurationError, match="set 'outputSchemaStr' before"):
        TFTableModelPredictStreamOp(model_table).linkFrom(data)


def test_wrong_numbers_of_inputs_are_refused(
    data: TableSourceStreamOp, op: TFSavedModelPredictStreamOp
) -> None:
    with pytest.raises(ConfigurationError, match="PredictStreamOp takes .*, got none"):
        op.linkFrom()
    with pytest.raises(
        ConfigurationError,
        match="PredictStreamOp takes .*, got TableSourceStreamOp, TableSourceStreamOp, Table",
    ):
        op.linkFrom(data, data, data)


def test_models_of_a_second_stream_have_the_columns_of_a_model_table(
    data: TableSourceStreamOp, op: TFSavedModelPredictStreamOp
) -> None:
    with pytest.raises(
        ConfigurationError,
        match="the stream of models has the columns id, x; expected model_id and",
    ):
        op.linkFrom(data, data)


def test_both_streams_are_of_one_environment(
    data: TableSourceStreamOp, op: TFSavedModelPredictStreamOp
) -> None:
    elsewhere = StreamOperator.fromTable(useLocalEnv(1).stenv.sql_query(MODELS))
    with pytest.raises(
        ConfigurationError,
        match="TFSavedModelPredictStreamOp: all inputs must belong to one environment",
    ):
        op.linkFrom(data, elsewhere)


def test_environment_in_batch_mode_is_refused(env: MLEnv, op: TFSavedModelPredictStreamOp) -> None:
    with pytest.raises(ConfigurationError, match="this environment is in batch mode"):
        StreamOperator.fromTable(env.btenv.sql_query("SELECT 1 AS id")).link(op)


def test_wrong_settings_of_newer_models_are_refused(
    data: TableSourceStreamOp, op: TFSavedModelPredictStreamOp
) -> None:
    with pytest.raises(
        ConfigurationError, match="'modelStreamStartTime': expected a date and time"
    ):
        op.setModelStreamStartTime("yesterday")
    with pytest.raises(
        ConfigurationError,
        match="modelStreamFilePath 's3://b/m': expected a path that all hosts can read",
    ):
        op.setModelStreamFilePath("s3://b/m").linkFrom(data)
