"""Pipelines saved by Alink: an .ak file with the columns id, p0, p1 and so on.

The row with id -1 describes a tree of nodes as JSON, whose leaves are the stages. Rows with id n
are the model table of node n.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from bridge.exceptions import ConfigurationError
from operators.alink.ak_file import read_rows

_DELIMITER = "__ALINK_META_ROW_DELIMITER__"
SAVED_MODEL = "TFSavedModelPredictor"
_KINDS = ("TFTableModelPredictor", SAVED_MODEL)
_PARENTS = ("PipelineModel", "Pipeline")


class AlinkStage(NamedTuple):
    """Stage of a pipeline; `model` holds the rows of its model table, (model_id, model_info)."""

    kind: str
    params: dict[str, Any]
    model: list[tuple[int, str]]


def read_alink_pipeline(
    path: str, files: Collection[str], known: Collection[str]
) -> list[AlinkStage]:
    """Read the stages of a pipeline that Alink has saved.

    Args:
        path: Where the pipeline is, for errors.
        files: Its .ak files, which hold the rows in any order.
        known: Names of parameters to read; all other ones that Alink has saved are ignored.

    Raises:
        ConfigurationError: The file isn't a pipeline, or has a stage that akdl does not support.
    """
    rows = [row for file in files for row in read_rows(file)]
    try:
        (text,) = [row[1] for row in rows if row[0] == -1]
        # Alink writes the list of nodes as a JSON text inside of a JSON object.
        nodes = json.loads(json.loads(text.split(_DELIMITER)[0])["stages"])
        stages = [
            each
            for each in enumerate(nodes)
            if each[1]["identifier"] is not None and _class_of(each[1]) not in _PARENTS
        ]
        return [_stage(path, number, node, rows, known) for number, node in stages]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise ConfigurationError(
            f"{path} is not an Alink pipeline; read it as a table with AkSourceBatchOp"
        ) from None


def _class_of(node: dict[str, object]) -> str:
    return str(node["identifier"]).rpartition(".")[2]


def _stage(
    path: str,
    number: int,
    node: dict[str, Any],
    rows: list[tuple[Any, ...]],
    known: Collection[str],
) -> AlinkStage:
    kind = _class_of(node)
    if kind not in _KINDS:
        raise ConfigurationError(
            f"{path}: the stage {kind} is not supported; akdl reads {' and '.join(_KINDS)}"
        )
    texts = node["params"]["params"]
    params = {
        name: json.loads(text) for name, text in texts.items() if name in known and text is not None
    }
    if kind == SAVED_MODEL:
        return AlinkStage(kind, params, [])
    # The first column of the file is the id of the node, so the columns of its model table are one
    # further right.
    id_place, text_place = (place + 1 for place in node["schemaIndices"])
    return AlinkStage(
        kind, params, [(row[id_place], row[text_place]) for row in rows if row[0] == number]
    )
