"""What the KerasSequential operators refuse, and what they tell the operators beneath; training
itself is in tests/models.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pytest
from pyflink.table import StreamTableEnvironment

from akdl.storage.training_folders import STOP
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import (
    KerasSequentialClassifierPredictBatchOp,
    KerasSequentialClassifierTrainBatchOp,
    KerasSequentialRegressorPredictBatchOp,
    KerasSequentialRegressorTrainBatchOp,
    TableSourceBatchOp,
)
from operators.keras_sequential import FACTS, prediction_values
from operators.prepare.plan import plan

TRAIN = {"tensorCol": "t", "labelCol": "label", "layers": ["Dense(3)"]}


@pytest.mark.flink
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"layers": ["Dense(3)", "__import__('os').remove('x')"]}, "layers: .*expected a name"),
        ({"optimizer": "eval('1')(2)"}, "optimizer: .*expected a name before the brackets"),
        ({"saveBestOnly": True}, "saveBestOnly needs rows for evaluation: set validationSplit"),
        ({"validationSplit": 0.5, "numWorkers": 2}, "validationSplit needs numWorkers=1, got 2"),
    ],
)
def test_wrong_layers_and_settings_are_refused_when_linked(
    changes: dict[str, Any], match: str, table_env: StreamTableEnvironment
) -> None:
    source = source_of(table_env)
    with pytest.raises(ConfigurationError, match=f"KerasSequentialClassifierTrainBatchOp: {match}"):
        source.link(KerasSequentialClassifierTrainBatchOp(**{**TRAIN, **changes}))


@pytest.mark.flink
def test_columns_of_wrong_types_are_refused_when_linked(table_env: StreamTableEnvironment) -> None:
    source = source_of(table_env)
    with pytest.raises(
        ConfigurationError,
        match="tensorCol: expected an ARRAY column of numbers, got s STRING NOT NULL",
    ):
        source.link(KerasSequentialRegressorTrainBatchOp(**{**TRAIN, "tensorCol": "s"}))
    with pytest.raises(
        ConfigurationError,
        match="labelCol: expected a column of type TINYINT, .*, got s STRING NOT NULL: CAST it in SQL",
    ):
        source.link(KerasSequentialRegressorTrainBatchOp(**{**TRAIN, "labelCol": "s"}))
    trained = source.link(KerasSequentialClassifierTrainBatchOp(**{**TRAIN, "labelCol": "s"}))
    assert trained.getColNames() == ["model_id", "model_info"]


@pytest.mark.parametrize(
    "wrong", [{"validationSplit": 1.0}, {"numPSs": 1}, {"learningRate": 0}, {"numEpochs": 0}]
)
def test_wrong_values_are_refused_when_set(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=f"parameter '{next(iter(wrong))}': expected"):
        KerasSequentialClassifierTrainBatchOp(**wrong)


def test_doubles_of_a_classifier_are_exact_as_they_may_be_labels() -> None:
    values = KerasSequentialClassifierTrainBatchOp(**TRAIN)._values_of_all()
    assert values["exactDoubles"] is True


def test_relative_folder_of_checkpoints_is_one_of_this_program(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script works in a folder that is removed after the job."""
    monkeypatch.chdir(tmp_path)
    op = KerasSequentialRegressorTrainBatchOp(**TRAIN, checkpointFilePath="kept")
    schema = Schema.parse("t ARRAY<DOUBLE>, label DOUBLE")
    settings = plan(
        "Op", "train", op._values_of_all(), schema, [], 1, "AKDL_TEST_ENV", False, elsewhere=True
    )
    assert settings.checkpoint_dir == str(tmp_path / "kept")
    op.stop()
    assert (tmp_path / "kept" / STOP).exists()


def model_file(tmp_path: pathlib.Path, facts: dict[Any, Any] | None) -> str:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("saved_model.pb", b"")
        if facts is not None:
            file.writestr(FACTS, json.dumps(facts))
    return str(path)


def test_prediction_follows_the_facts_of_the_model(tmp_path: pathlib.Path) -> None:
    op = KerasSequentialClassifierPredictBatchOp(
        predictionCol="p", predictionDetailCol="d", reservedCols=["id"]
    )
    model = model_file(tmp_path, {"tensorCol": "t", "labels": True, "prediction": "INT"})
    values = prediction_values("Op", {param.name: op._get(param) for param in op.params}, model)
    assert (values["outputSchemaStr"], values["outputSignatureDefs"]) == (
        "`p` INT, `d` STRING",
        ["prediction", "detail"],
    )
    assert (values["selectedCols"], values["inputSignatureDefs"], values["reservedCols"]) == (
        ["t"],
        ["tensor"],
        ["id"],
    )


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        (None, "the model was not trained by a KerasSequential operator"),
        (
            {"tensorCol": "t", "labels": False, "prediction": "DOUBLE"},
            "predictionDetailCol requires a classifier",
        ),
    ],
)
def test_models_that_do_not_fit_the_predictor_are_refused(
    tmp_path: pathlib.Path, facts: dict[str, Any] | None, match: str
) -> None:
    op = KerasSequentialRegressorPredictBatchOp(predictionCol="p", predictionDetailCol="d")
    with pytest.raises(ConfigurationError, match=f"Op: {match}"):
        prediction_values(
            "Op", {param.name: op._get(param) for param in op.params}, model_file(tmp_path, facts)
        )


def source_of(table_env: StreamTableEnvironment) -> TableSourceBatchOp:
    from operators import BatchOperator

    return BatchOperator.fromTable(
        table_env.sql_query(
            "SELECT ARRAY[CAST(1 AS DOUBLE), 2] AS t, CAST(0.5 AS DOUBLE) AS label, CAST('a' AS STRING) AS s"
        )
    )
