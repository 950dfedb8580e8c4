"""Paths, requests and answers of TensorFlow Serving's REST API. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from akdl.serving.signature import Signature, TensorDescription
from akdl.wire.cells import Array
from akdl.wire.columns import Values

_PATH = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?(/metadata|:predict|:classify|:regress)?", re.IGNORECASE
)
_DT = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
_PLAIN = {str, int, float, bool, type(None)}
_MANY_INPUTS = "multiple input tensors required as per tensorinfo_map"


class RefusedRequest(Exception):
    """An answer with an error."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Target(NamedTuple):
    """Name and version of the served model, its signatures, and the one that predicts."""

    name: str
    version: str
    signature: Signature
    signatures: Mapping[str, Signature]

    def action(self, method: str, path: str) -> str:
        """Match a request: "predict", "metadata" or "status"."""
        found = _PATH.fullmatch(path)
        if found is None or method != ("POST" if ":" in (found[4] or "") else "GET"):
            raise RefusedRequest(f"Malformed request: {method} {path}", 400 if path.startswith("/v1/") else 404)
        name, version, label, action = found.groups()
        if label:
            raise RefusedRequest(f"Unrecognized servable version label: {label}")
        if name != self.name or int(version or self.version) != int(self.version):
            wanted = f"Specific({name}, {version})" if version else f"Latest({name})"
            versions = f"version {version}" if version else "any versions"
            unknown = f"Servable not found for request: {wanted}" if action else f"Could not find {versions} of model {name}"
            raise RefusedRequest(unknown, 404)
        if action in (":classify", ":regress"):
            raise RefusedRequest(f"akdl-serve has no {action}: send the inputs to :predict", 501)
        return (action or "/status")[1:].lower()

    def status(self) -> object:
        """Answer for the state of the model."""
        status = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": self.version, "state": "AVAILABLE", "status": status}]}

    def metadata(self) -> object:
        """Answer for the signatures of the model."""
        definitions = {
            key: {
                "inputs": {tensor.key: _tensor_info(tensor) for tensor in each.inputs},
                "outputs": {tensor.key: _tensor_info(tensor) for tensor in each.outputs},
                "method_name": "tensorflow/serving/predict",
                "defaults": {},
            }
            for key, each in self.signatures.items()
        }
        spec = {"name": self.name, "signature_name": "", "version": self.version}
        return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": definitions}}}

    def columns(self, body: bytes) -> tuple[dict[str, list[object]], bool]:
        """Read a predict request: columns, and if it has the row format."""
        request = _parsed(body)
        key = request.get("signature_name", self.signature.key)
        if key != self.signature.key:
            raise RefusedRequest(f'Serving signature name: "{key}" not found in signature def, see --signature of akdl-serve')
        if ("instances" in request) == ("inputs" in request):
            both = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist"
            raise RefusedRequest(both if "inputs" in request else "Missing 'inputs' or 'instances' key")
        names, is_rows = [tensor.key for tensor in self.signature.inputs], "instances" in request
        columns = dict((_of_instances if is_rows else _of_inputs)(request["instances" if is_rows else "inputs"], names))
        if len({len(column) for column in columns.values()}) > 1:
            sizes = {name: len(column) for name, column in columns.items()}
            raise RefusedRequest(f"expected inputs with the same number of rows, got {sizes}")
        return columns, is_rows


def answer_of(results: Mapping[str, Values], is_rows: bool) -> object:
    """Answer of a predict request: one output without its name, several by name."""
    columns = {name: _plain(column, name.endswith("_bytes")) for name, column in results.items()}
    if len(columns) == 1:
        return {"predictions" if is_rows else "outputs": next(iter(columns.values()))}
    if is_rows:
        return {"predictions": [dict(zip(columns, cells)) for cells in zip(*columns.values())]}
    return {"outputs": columns}


def _parsed(body: bytes) -> dict[str, object]:
    try:
        request = json.loads(body, object_hook=_decoded)
    except (ValueError, RecursionError) as error:
        raise RefusedRequest(
            f"JSON Parse error: {error}" if body.strip() else "JSON Parse error: The document is empty"
        ) from None
    if not isinstance(request, dict):
        raise RefusedRequest(f"JSON Value: {_shown(request)} Is not object")
    return request


def _decoded(found: dict[str, object]) -> object:
    text = found.get("b64")
    return base64.b64decode(text, validate=True) if len(found) == 1 and isinstance(text, str) else found


def _of_instances(rows: object, names: list[str]) -> Iterator[tuple[str, list[object]]]:
    if not isinstance(rows, list) or not rows:
        raise RefusedRequest("No values in 'instances' array" if rows == [] else "Expecting 'instances' to be an list/array")
    if not isinstance(rows[0], dict):
        if len(names) > 1:
            raise RefusedRequest(f"instances is a plain list, but expecting list of objects as {_MANY_INPUTS}")
        rows = [{names[0]: row} if not isinstance(row, dict) else row for row in rows]
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RefusedRequest(f"Expecting object but got list at item {number} of input list")
        if row.keys() != set(names):
            where = f"Failed to process element: {number} of 'instances' list. JSON object: {_shown(row)}"
            raise RefusedRequest(f"{where} keys must be equal to: {','.join(names)}")
    yield from ((name, [row[name] for row in rows]) for name in names)


def _of_inputs(inputs: object, names: list[str]) -> Iterator[tuple[str, list[object]]]:
    if not isinstance(inputs, dict):
        if len(names) > 1:
            raise RefusedRequest(f"inputs is a plain value/list, but expecting an object as {_MANY_INPUTS}")
        inputs = {names[0]: inputs}
    for name in names:
        if name not in inputs:
            raise RefusedRequest(f"Missing named input: {name} in 'inputs' object.")
        column: object = inputs[name]
        if not isinstance(column, list):
            raise RefusedRequest(f"input {name}: expected a list with a value for each row, got {_shown(column)}")
        yield name, column


def _shown(value: object) -> str:
    return json.dumps(value, default=repr)[:256]


def _tensor_info(tensor: TensorDescription) -> object:
    shape = {"dim": [{"size": str(size), "name": ""} for size in tensor.shape or ()], "unknown_rank": tensor.shape is None}
    return {"dtype": f"DT_{_DT.get(tensor.dtype, tensor.dtype.upper())}", "tensor_shape": shape, "name": tensor.tensor}


def _plain(cells: Array, is_binary: bool) -> Array:
    """Cells as JSON has them; a float32 has as few digits as it needs."""
    if isinstance(cells, (np.ndarray, np.generic)):
        is_short = cells.dtype.kind == "f" and cells.dtype.itemsize < 8
        return _plain((cells.astype(str).astype(float) if is_short else cells).tolist(), is_binary)
    if isinstance(cells, list):
        return cells if set(map(type, cells)) <= _PLAIN else [_plain(cell, is_binary) for cell in cells]
    if not isinstance(cells, bytes):
        return cells
    with suppress(UnicodeDecodeError):
        if not is_binary:
            return cells.decode()
    return {"b64": base64.b64encode(cells).decode()}
