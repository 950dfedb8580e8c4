"""Stages in a row: what fitting plans, what is saved and what comes back. Their jobs run in
tests/e2e.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import zipfile
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    MemSourceBatchOp,
    MLEnv,
    Pipeline,
    PipelineModel,
    StreamOperator,
    TF2TableModelTrainer,
    TFSavedModelPredictor,
    TFTableModelPredictor,
    TFTableModelTrainer,
)
from tests.support.http import served


@pytest.fixture(scope="module")
def rows(env: MLEnv) -> MemSourceBatchOp:
    return MemSourceBatchOp([(1.0, 2.0)], "x0 FLOAT, x1 FLOAT")


@pytest.fixture
def exported(tmp_path: pathlib.Path) -> str:
    """A model without a graph: nothing here loads it."""
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "saved_model.pb").write_text(str(tmp_path))
    return str(folder)


@pytest.fixture
def trainer(tmp_path: pathlib.Path) -> TF2TableModelTrainer:
    script = tmp_path / "train.py"
    script.write_text("def main(config): pass\n")
    return TF2TableModelTrainer(
        userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0, outputSchemaStr="y FLOAT",
        selectedCols=["x0"], inferSelectedCols=["x0", "x1"], inferBatchSize=7,
    )  # fmt: skip


def saved_parts(path: str | pathlib.Path) -> tuple[list[str], Any]:
    with zipfile.ZipFile(path) as file:
        return sorted(file.namelist()), json.loads(file.read("pipeline.json"))


def test_missing_parameters_are_refused_before_the_training() -> None:
    with pytest.raises(
        ConfigurationError, match="TFTableModelTrainer: set 'mainScriptFile', 'outputSchemaStr'"
    ):
        TFTableModelTrainer().fit(None)


def test_predictor_without_a_model_is_refused() -> None:
    with pytest.raises(
        ConfigurationError,
        match="has no model: call setModelData or setModelFilePath, or fit a trainer",
    ):
        TFTableModelPredictor(outputSchemaStr="y FLOAT").transform(None)


def test_saved_pipeline_has_models_and_settings_without_local_paths(
    exported: str, tmp_path: pathlib.Path
) -> None:
    stage = TFSavedModelPredictor(
        modelPath=exported,
        outputSchemaStr="y FLOAT",
        inferBatchSize=7,
        pythonEnv="/mine",
        envVars=["TOKEN=secret"],
    )
    model = PipelineModel(
        stage, TFSavedModelPredictor(modelPath=exported, outputSchemaStr="z FLOAT")
    )
    path = str(tmp_path / "saved")
    assert model.save(path) is model
    names, description = saved_parts(path)
    assert names == ["model_0.zip", "model_1.zip", "pipeline.json"]
    assert [each["params"]["outputSchemaStr"] for each in description["stages"]] == [
        "y FLOAT",
        "z FLOAT",
    ]
    assert description["stages"][0]["params"]["inferBatchSize"] == 7
    assert "secret" not in json.dumps(description) and "/mine" not in json.dumps(description)
    assert exported not in json.dumps(description)


def test_a_loaded_pipeline_can_be_saved_again(exported: str, tmp_path: pathlib.Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    stage = TFSavedModelPredictor(
        modelPath=exported, outputSchemaStr="y FLOAT", selectedCols=["a"], reservedCols=[]
    )
    PipelineModel(stage).save(first)
    loaded = PipelineModel.load(first)
    os.remove(first)
    loaded.save(second)
    (saved,) = saved_parts(second)[1]["stages"]
    assert (saved["type"], saved["params"]["selectedCols"], saved["params"]["reservedCols"]) == (
        "TFTableModelPredictor", ["a"], [],
    )  # fmt: skip


@pytest.mark.fault("data", "A used or loaded stage predicts with the model that was set last")
def test_model_that_was_set_last_counts(
    rows: MemSourceBatchOp, exported: str, tmp_path: pathlib.Path
) -> None:
    path, other = str(tmp_path / "saved"), tmp_path / "other"
    PipelineModel(TFSavedModelPredictor(modelPath=exported, outputSchemaStr="y FLOAT")).save(path)
    (stage,) = PipelineModel.load(path).getTransformers()
    assert isinstance(stage, TFTableModelPredictor)
    loaded = stage._model_file()
    for name in ("first", "second"):
        model = rows.select("*")
        # A job would pack it.
        model._packed = name
        assert stage.setModelData(model).setModelFilePath(None)._model_file() == name
    assert stage.setModelFilePath(exported)._model_file() == loaded
    with pytest.raises(ConfigurationError, match="the model is from a file, not from a table"):
        stage.getModelData()
    other.mkdir()
    (other / "saved_model.pb").write_text("other")
    assert stage.setModelFilePath(str(other))._model_file() not in ("second", loaded)


@pytest.mark.fault("security", "A pipeline file runs no code unless it is trusted")
def test_untrusted_file_runs_nothing_of_its_author(exported: str, tmp_path: pathlib.Path) -> None:
    """The interpreter and the variables of a hostile file are refused before anything of them is
    looked at.
    """
    path = str(tmp_path / "saved")
    PipelineModel(TFSavedModelPredictor(modelPath=exported, outputSchemaStr="y FLOAT")).save(path)
    _names, description = saved_parts(path)
    description["stages"][0]["params"].update(
        pythonEnv=str(tmp_path / "evil"), envVars=["LD_PRELOAD=/tmp/evil.so"]
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model_0.zip", b"")
        file.writestr("pipeline.json", json.dumps(description))
    with pytest.raises(
        ConfigurationError,
        match="saved, stage 0: the file sets 'envVars', 'pythonEnv'.*pass trusted=True",
    ):
        PipelineModel.load(path)
    (stage,) = PipelineModel.load(path, trusted=True).getTransformers()
    assert stage.getPythonEnv() == str(tmp_path / "evil") and stage.getEnvVars() == [
        "LD_PRELOAD=/tmp/evil.so"
    ]


def test_saving_that_fails_leaves_the_file_that_was_there(
    exported: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "saved"
    path.write_text("the one before")
    with pytest.raises(ConfigurationError, match="TFSavedModelPredictor: modelPath: .*/nowhere"):
        PipelineModel(TFSavedModelPredictor(modelPath="/nowhere", outputSchemaStr="y FLOAT")).save(
            str(path)
        )
    assert path.read_text() == "the one before"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s3://key:hunter2@bucket/p", r"s3://\S*bucket/p: only files on this host can be written"),
        ("file://host/p", "file://host/p: file:// needs three slashes"),
        ("{folder}/missing/p", "{folder}/missing/p cannot be written: .*No such file or directory"),
        ("file://{folder}/old", "file://{folder}/old exists already; overwrite=True replaces"),
        ("{folder}", "{folder} exists already"),
    ],
)
def test_pipeline_is_not_saved_at_other_places(
    place: str, message: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(ConfigurationError) as caught:
        PipelineModel().save(place.format(folder=tmp_path), overwrite=False)
    expected = f"PipelineModel.save: {message.format(folder=tmp_path)}"
    assert re.match(expected, str(caught.value)) and "hunter2" not in str(caught.value)
    assert os.listdir(tmp_path) == ["old"]


def test_pipeline_is_saved_at_the_path_of_a_file_address(tmp_path: pathlib.Path) -> None:
    PipelineModel().save(f"file://{tmp_path}/saved")
    assert saved_parts(tmp_path / "saved")[0] == ["pipeline.json"]


def test_file_without_a_pipeline_model_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"PK nothing")
    with pytest.raises(ConfigurationError, match="no.zip is not a saved pipeline model"):
        PipelineModel.load(str(tmp_path / "no.zip"))


def test_pipeline_is_loaded_from_an_address(exported: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "saved"
    PipelineModel(TFSavedModelPredictor(modelPath=exported, outputSchemaStr="y FLOAT")).save(
        str(path)
    )
    with served(files={"/saved": path.read_bytes()}) as site:
        loaded = PipelineModel.load(f"{site.url}/saved")
        with pytest.raises(
            ConfigurationError, match="the saved pipeline model cannot be read: .*/nope: HTTP 404"
        ):
            PipelineModel.load(f"{site.url}/nope")
    loaded.save(str(tmp_path / "again"))
    assert saved_parts(tmp_path / "again")[0] == ["model_0.zip", "pipeline.json"]


@pytest.mark.flink
def test_a_fitted_trainer_predicts_with_its_own_parameters(
    rows: MemSourceBatchOp, trainer: TF2TableModelTrainer
) -> None:
    fitted = trainer.fit(rows)
    assert isinstance(fitted, TFTableModelPredictor)
    assert (fitted.getOutputSchemaStr(), fitted.getInferBatchSize()) == ("y FLOAT", 7)
    assert fitted.getSelectedCols() == ["x0", "x1"], (
        "those of the prediction and not of the training"
    )


@pytest.mark.flink
def test_stages_predict_the_output_of_earlier_ones(rows: MemSourceBatchOp, exported: str) -> None:
    first = TFSavedModelPredictor(
        modelPath=exported, outputSchemaStr="y FLOAT", reservedCols=["x1"]
    )
    second = (
        TFSavedModelPredictor()
        .setModelPath(exported)
        .setOutputSchemaStr("z FLOAT")
        .setSelectedCols(["y"])
    )
    model = Pipeline(first).add(second).fit(rows)
    assert isinstance(model, PipelineModel)
    assert model.transform(rows).getColNames() == ["x1", "y", "z"]


@pytest.mark.flink
def test_stage_is_trained_on_the_output_of_earlier_ones(
    rows: MemSourceBatchOp, exported: str, trainer: TF2TableModelTrainer
) -> None:
    before = TFSavedModelPredictor(modelPath=exported, outputSchemaStr="w FLOAT", reservedCols=[])
    with pytest.raises(
        ConfigurationError,
        match="TF2TableModelTrainBatchOp: .*'selectedCols' names 'x0'; the input has 'w'",
    ):
        Pipeline(before, trainer).fit(rows)
    Pipeline(before, trainer.setSelectedCols(["w"])).fit(rows)


@pytest.mark.flink
def test_a_stream_becomes_a_stream(env: MLEnv, exported: str, tmp_path: pathlib.Path) -> None:
    stage = TFSavedModelPredictor(modelPath=exported, outputSchemaStr="y FLOAT")
    PipelineModel(stage).save(str(tmp_path / "saved"))
    stream = StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS a"))
    for model in (PipelineModel(stage), PipelineModel.load(str(tmp_path / "saved"))):
        found = model.transform(stream)
        assert isinstance(found, StreamOperator) and found.getColNames() == ["a", "y"]


def test_pipeline_without_stages_returns_its_rows() -> None:
    with PipelineModel().collectLocalPredictor("x INT") as predictor:
        assert predictor.map((1,)) == (1,)
