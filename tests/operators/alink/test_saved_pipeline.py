"""Pipelines that Alink has saved, in the form that its source code gives."""

from __future__ import annotations

import json
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import pytest

from akdl.storage.model_archive import pack
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import LocalPredictor, PipelineModel, TFTableModelPredictor
from operators.alink.ak_file import AkWriter
from operators.local_predictor import read_pipeline

COLUMNS = Schema.parse("id BIGINT, p0 STRING, p1 BIGINT")
PREDICTOR = "com.alibaba.alink.pipeline.tensorflow.TFTableModelPredictor"
PARAMS = {
    "outputSchemaStr": '"y FLOAT"',
    "selectedCols": '["a","b"]',
    "lazyPrintTransformDataEnabled": "false",
    "reservedCols": None,
}


def saved(path: pathlib.Path, nodes: list[Any], rows: Sequence[Any] = ()) -> str:
    """Write a pipeline: the columns of model tables follow p0, a column of strings that
    they share.
    """
    with open(path, "wb") as file:
        writer = AkWriter(file, COLUMNS)
        meta = {
            "stages": json.dumps(
                [
                    {"identifier": None, "params": None, "parent": -1, "schemaIndices": [1, 0]},
                    *nodes,
                ]
            )
        }
        writer.write((-1, f"{json.dumps(meta)}__ALINK_META_ROW_DELIMITER__{{}}", None))
        for row in rows:
            writer.write(row)
        writer.close()
    return str(path)


@pytest.fixture
def model(tmp_path: pathlib.Path) -> list[Any]:
    """The rows of a model table; nothing here loads the model."""
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("the model")
    return list(pack(str(folder)))


def node(
    identifier: str = PREDICTOR, params: dict[Any, Any] = PARAMS, **others: Any
) -> dict[Any, Any]:
    return {
        "identifier": identifier,
        "params": {"params": params},
        "schemaIndices": [1, 0],
        "parent": 0,
        **others,
    }


def test_stages_have_their_params_and_models(tmp_path: pathlib.Path, model: list[Any]) -> None:
    scaler = node("com.alibaba.alink.pipeline.PipelineModel", {}, schemaIndices=None)
    path = saved(
        tmp_path / "p.ak",
        [scaler, node(parent=1)],
        [(2, text, number) for number, text in model[::-1]],
    )
    (stage,) = read_pipeline(path, str(tmp_path), trusted=False)
    assert (stage["type"], stage["params"]) == (
        "TFTableModelPredictor",
        {"outputSchemaStr": "y FLOAT", "selectedCols": ["a", "b"]},
    )
    with zipfile.ZipFile(stage["model"]) as file:
        assert file.read("saved_model.pb") == b"the model"
    (loaded,) = PipelineModel.load(path).getTransformers()
    assert isinstance(loaded, TFTableModelPredictor) and loaded.getSelectedCols() == ["a", "b"]


def test_a_pipeline_may_have_several_files(tmp_path: pathlib.Path, model: list[Any]) -> None:
    """Alink writes a folder of them with numFiles, and deals the rows among them."""
    folder = tmp_path / "p.ak"
    folder.mkdir()
    saved(folder / "2", [node()])
    with open(folder / "1", "wb") as file:
        writer = AkWriter(file, COLUMNS)
        for number, text in model:
            writer.write((1, text, number))
        writer.close()
    (stage,) = read_pipeline(str(folder), str(tmp_path), trusted=False)
    with zipfile.ZipFile(stage["model"]) as packed:
        assert packed.read("saved_model.pb") == b"the model"


def test_a_stage_with_a_saved_model_has_cells_with_batches(
    tmp_path: pathlib.Path, model: list[Any]
) -> None:
    params = {**PARAMS, "modelPath": json.dumps(str(tmp_path / "exported"))}
    identifier = PREDICTOR.replace("Table", "Saved")
    path = saved(tmp_path / "p.ak", [node(identifier, params, schemaIndices=None)])
    (stage,) = read_pipeline(path, str(tmp_path), trusted=True)
    assert stage["params"]["cellsHoldBatches"] is True and "modelPath" not in stage["params"]


@pytest.mark.parametrize("kind", ["TFTableModelPredictor", "TFSavedModelPredictor"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pythonEnv", "http://127.0.0.1:9/env.zip"),
        ("envVars", ["LD_PRELOAD=/tmp/x.so"]),
        ("modelPath", "/etc"),
        ("modelFilePath", "http://127.0.0.1:9/model.ak"),
        ("modelStreamFilePath", "/tmp/models"),
    ],
)
@pytest.mark.fault("security", "A pipeline file of Alink chooses neither code nor files")
def test_pipeline_of_alink_may_not_choose_code_or_files(
    tmp_path: pathlib.Path, kind: str, name: str, value: Any
) -> None:
    path = saved(
        tmp_path / "p.ak",
        [
            node(
                PREDICTOR.replace("TFTableModelPredictor", kind),
                {**PARAMS, name: json.dumps(value)},
            )
        ],
    )
    for load in (PipelineModel.load, lambda path: LocalPredictor(path, "a FLOAT")):
        with pytest.raises(
            ConfigurationError, match=f"p.ak, stage {kind}: the file sets '{name}'.*trusted=True"
        ):
            load(path)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [node("com.alibaba.alink.pipeline.dataproc.StandardScalerModel")],
            "the stage StandardScalerModel is not supported",
        ),
        (
            [node(params={**PARAMS, "modelFilePath": '"/m.ak"'})],
            "the model of the stage TFTableModelPredictor is in another file: create",
        ),
        ([node()], "p.ak: expected the rows of a model, got no rows"),
        (
            [{"identifier": PREDICTOR}],
            "p.ak is not an Alink pipeline; read it as a table with AkSourceBatchOp",
        ),
    ],
)
def test_unsupported_pipelines_of_alink_are_refused(
    tmp_path: pathlib.Path, nodes: list[dict[Any, Any]], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_pipeline(saved(tmp_path / "p.ak", nodes), str(tmp_path), trusted=True)


def test_pipelines_written_by_alink_are_read(tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(__file__).parents[2] / "data" / "alink"
    (stage,) = read_pipeline(str(folder / "tf_pipeline.ak"), str(tmp_path), trusted=True)
    assert (stage["type"], stage["params"]["outputSchemaStr"]) == (
        "TFTableModelPredictor",
        "y float",
    )
    with zipfile.ZipFile(stage["model"]) as file:
        assert "saved_model.pb" in file.namelist()
    with pytest.raises(ConfigurationError, match="the stage VectorAssembler is not supported"):
        read_pipeline(str(folder / "pipeline_lr.ak"), str(tmp_path), trusted=False)
