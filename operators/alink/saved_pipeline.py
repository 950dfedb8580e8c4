"""Pipelines that Alink has saved: an .ak file of the columns id, p0, p1 and so on.

The row of id -1 describes a tree of nodes as JSON, whose leaves are the stages. The rows of id n are the model table of node n,
in some of the columns p0, p1 and so on.
"""

from __future__ import annotations

import json
from typing import Any

from akdl.storage.files import FileError
from akdl.storage.model_archive import ModelError
from bridge.exceptions import ConfigurationError
from operators.alink.ak_file import read_rows
from operators.params.saved import KNOWN, saved_params
from operators.prepare.model_file import packed_model, packed_rows

_DELIMITER = "__ALINK_META_ROW_DELIMITER__"
_TABLE, _SAVED_MODEL = "TFTableModelPredictor", "TFSavedModelPredictor"
_PARENTS = ("PipelineModel", "Pipeline")


def read_alink_pipeline(path: str, trusted: bool) -> list[dict[str, Any]]:
    """Return the stages of a pipeline: type, params, and `model`, the path of a file of its SavedModel.

    Raises:
        ConfigurationError: The file is no such pipeline, or has a stage of another kind.
    """
    rows = list(read_rows(path))
    described = [row[1] for row in rows if row[0] == -1]
    try:
        (text,) = described
        nodes = json.loads(json.loads(text.split(_DELIMITER)[0])["stages"])
        return [_stage(path, number, node, rows, trusted) for number, node in enumerate(nodes) if _is_stage(node)]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        if isinstance(error, (ModelError, FileError)):
            raise ConfigurationError(f"{path}: {error}") from None
        raise ConfigurationError(f"{path} is no pipeline of Alink; an AkSourceBatchOp reads it as a table") from None


def _is_stage(node: dict[str, Any]) -> bool:
    return node["identifier"] is not None and _class_of(node) not in _PARENTS


def _class_of(node: dict[str, Any]) -> str:
    return str(node["identifier"]).rpartition(".")[2]


def _stage(path: str, number: int, node: dict[str, Any], rows: list[tuple[Any, ...]], trusted: bool) -> dict[str, Any]:
    kind = _class_of(node)
    if kind not in (_TABLE, _SAVED_MODEL):
        raise ConfigurationError(f"{path}: the stage {kind} has no counterpart here: only {_TABLE} and {_SAVED_MODEL} do")
    given = {name: json.loads(value) for name, value in node["params"]["params"].items() if name in KNOWN and value is not None}
    params = saved_params(f"{path}, stage {kind}", given, trusted)
    model_path, model_file = params.pop("modelPath", None), params.pop("modelFilePath", None)
    if kind == _SAVED_MODEL:
        if model_path is None:
            raise ConfigurationError(f"{path}: the stage {kind} has no modelPath")
        model, params["cellsHoldBatches"] = packed_model(model_path), True
    elif model_file is not None:
        raise ConfigurationError(f"{path}: the model of a stage is in another file: set it as modelFilePath of a {_TABLE}")
    else:
        id_place, text_place = (place + 1 for place in node["schemaIndices"])
        model = packed_rows((row[id_place], row[text_place]) for row in rows if row[0] == number)
    return {"type": kind, "params": params, "model": model}
