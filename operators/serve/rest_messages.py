"""Paths, requests and answers of TensorFlow Serving's REST API. Pure.

The texts of errors are TensorFlow Serving's for the same mistakes of a client.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from akdl.serving.loaded_model import Signature, TensorDescription
from akdl.wire.cells import Array
from akdl.wire.columns import Values

_PATH = re.compile(
    r"/v1/models/([^/]+?)(?:/versions/([0-9]+)|/labels/([^/:]+))?(/metadata|:predict|:classify|:regress)?",
    re.IGNORECASE,
)
# TensorFlow names these dtypes differently from numpy. Its name of any other dtype is numpy's in
# capitals.
_DT = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
# `json` writes cells of these types as they are, so a list of them is not copied cell by cell.
_PLAIN = {str, int, float, bool, type(None)}
# Values are converted in blocks of this size, because the interpreter's lock is held during a
# conversion and no other thread runs until it ends.
_BLOCK = 1 << 15
_MANY_INPUTS = "multiple input tensors required as per tensorinfo_map"


class RefusedRequest(Exception):
    """An answer with an error."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def has_rows(signature: Signature) -> bool:
    """Test if the inputs and outputs have a value for each row, as far as their shapes are
    known.
    """
    # An input without dimensions is a single value, so the model has no rows. An output has
    # rows if the size of its first dimension is open, or fixed to that of an input.
    sizes = {each.shape[:1] for each in signature.inputs if each.shape is not None}
    return () not in sizes and all(
        each.shape is None or each.shape[:1] in {(-1,), *sizes} for each in signature.outputs
    )


@dataclass
class Target:
    """A served model: its name, the version in use, the signature that predicts, all signatures,
    and whether its inputs and outputs have a value for each row.

    Attributes:
        others: Other versions with their states and errors.
    """

    name: str
    version: str
    signature: Signature
    signatures: Mapping[str, Signature]
    has_rows: bool
    others: tuple[tuple[str, str, str], ...] = field(default=(), init=False)

    def status(self) -> object:
        """Answer for the state of the model: the version in use, then the others."""
        return {
            "model_version_status": [
                {
                    "version": version,
                    "state": state,
                    "status": {"error_code": "UNKNOWN" if error else "OK", "error_message": error},
                }
                for version, state, error in ((self.version, "AVAILABLE", ""), *self.others)
            ]
        }

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

    def columns(self, body: bytes) -> tuple[dict[str, list[object]], int | None]:
        """Read a predict request: columns, and the number of rows in the row format. For a model
        without rows all is one.
        """
        request = _parsed(body)
        key = request.get("signature_name", "")
        if not isinstance(key, str):
            raise RefusedRequest("'signature_name' key must be a string value")
        if key not in ("", self.signature.key):
            raise RefusedRequest(
                f'Serving signature name: "{key}" not found in signature def, see --signature of'
                " akdl serve"
            )
        if ("instances" in request) == ("inputs" in request):
            both = (
                "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to"
                " exist"
            )
            raise RefusedRequest(
                both if "inputs" in request else "Missing 'inputs' or 'instances' key"
            )
        names = [tensor.key for tensor in self.signature.inputs]
        rows = request.get("instances")
        found = dict(
            _of_instances(rows, names)
            if "instances" in request
            else _of_inputs(request["inputs"], names)
        )
        count = len(rows) if isinstance(rows, list) else None
        if not self.has_rows:
            return {name: [values] for name, values in found.items()}, count
        columns = {name: column for name, column in found.items() if isinstance(column, list)}
        for name in found.keys() - columns.keys():
            raise RefusedRequest(
                f"input {name}: expected a list with a value for each row, got"
                f" {_shown(found[name])}"
            )
        if len({len(column) for column in columns.values()}) > 1:
            sizes = {name: len(column) for name, column in columns.items()}
            raise RefusedRequest(f"expected inputs with the same number of rows, got {sizes}")
        return columns, count


def matched(method: str, path: str, models: Mapping[str, Target]) -> tuple[str, str]:
    """Match a request to the name of a model and "predict", "metadata" or "status".

    Args:
        method: Method of HTTP.
        path: The decoded path, in which the name of a model may have a colon.
        models: The models by name.
    """
    found = _PATH.fullmatch(path)
    if found is None or method != ("POST" if ":" in (found[4] or "") else "GET"):
        raise RefusedRequest(
            f"Malformed request: {method} {path}", 400 if path.startswith("/v1/") else 404
        )
    name, version, label, action = found.groups()
    if label:
        raise RefusedRequest(f"Unrecognized servable version label: {label}")
    # Versions are numbers, so leading zeros make no difference.
    if name not in models or (version and version.lstrip("0") != models[name].version.lstrip("0")):
        wanted = f"Specific({name}, {version})" if version else f"Latest({name})"
        versions = f"version {version}" if version else "any versions"
        unknown = (
            f"Servable not found for request: {wanted}"
            if action
            else f"Could not find {versions} of model {name}"
        )
        raise RefusedRequest(unknown, 404)
    if (action or "").lower() in (":classify", ":regress"):
        raise RefusedRequest(f"akdl serve has no {action}: send the inputs to :predict", 501)
    return name, (action or "/status")[1:].lower()


def answer_of(results: Mapping[str, Values], rows: int | None) -> object:
    """Answer of a predict request, with `rows` for one in the row format: one output without its
    name, several by name.
    """
    for name, column in results.items():
        shape = [len(column)] if isinstance(column, list) else list(np.shape(column))
        if rows is not None and shape[:1] != [rows]:
            raise RefusedRequest(
                f"output {name}: expected values for {rows} rows, got the shape {shape}: send"
                " 'inputs' in place of 'instances'"
            )
    columns = {name: _plain(column, name.endswith("_bytes")) for name, column in results.items()}
    is_rows = rows is not None
    if len(columns) == 1:
        return {"predictions" if is_rows else "outputs": next(iter(columns.values()))}
    if is_rows:
        return {"predictions": [dict(zip(columns, cells)) for cells in zip(*columns.values())]}
    return {"outputs": columns}


def size_of(value: object) -> int:
    """Number of values in an answer, estimated from the first of each list."""
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    if isinstance(value, list):
        return len(value) * size_of(value[0]) if value else 1
    return int(getattr(value, "size", 1))


def written(value: object) -> str:
    """JSON of an answer, made in blocks, because `json` lets no other thread run until it has
    finished.
    """
    if isinstance(value, dict) and size_of(value) > _BLOCK:
        fields = [f"{json.dumps(key)}: {written(each)}" for key, each in value.items()]
        return f"{{{', '.join(fields)}}}"
    if not isinstance(value, list) or size_of(value) <= _BLOCK:
        return json.dumps(value, default=str)
    step = _BLOCK // size_of(value[0])
    # A single element is larger than a block here, so the elements are cut themselves.
    if step == 0:
        return f"[{', '.join(map(written, value))}]"
    return f"[{', '.join(json.dumps(value[start : start + step], default=str)[1:-1] for start in range(0, len(value), step))}]"  # noqa: E501


def _parsed(body: bytes) -> dict[str, object]:
    try:
        # The C code of `json` holds the interpreter's lock until it has finished, half a second for
        # the largest request, unless it calls Python code: then the event loop gets its turns.
        is_large = len(body) > _BLOCK
        request = json.loads(
            body,
            object_pairs_hook=_decoded,
            parse_float=(lambda text: float(text)) if is_large else None,
            parse_int=(lambda text: int(text)) if is_large else None,
        )
    except (ValueError, RecursionError) as error:
        raise RefusedRequest(
            f"JSON Parse error: {error}"
            if body.strip()
            else "JSON Parse error: The document is empty"
        ) from None
    if not isinstance(request, dict):
        raise RefusedRequest(f"JSON Value: {_shown(request)} Is not object")
    return request


def _decoded(pairs: list[tuple[str, object]]) -> object:
    found = dict(pairs)
    # `json` alone would silently take the last of the two values.
    if len(found) < len(pairs):
        raise ValueError(f"an object has a key twice: {_shown([key for key, _ in pairs])}")
    text = found.get("b64")
    if len(found) > 1 or not isinstance(text, str):
        return found
    # TensorFlow Serving accepts base64 with line ends and without padding, which `b64decode`
    # refuses when it validates.
    text = "".join(text.split())
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _of_instances(rows: object, names: list[str]) -> Iterator[tuple[str, object]]:
    if not isinstance(rows, list) or not rows:
        raise RefusedRequest(
            "No values in 'instances' array"
            if rows == []
            else "Expecting 'instances' to be an list/array"
        )
    if not isinstance(rows[0], dict):
        if len(names) > 1:
            raise RefusedRequest(
                f"instances is a plain list, but expecting list of objects as {_MANY_INPUTS}"
            )
        rows = [{names[0]: row} if not isinstance(row, dict) else row for row in rows]
    expected = set(names)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RefusedRequest(f"Expecting object but got list at item {number} of input list")
        if row.keys() != expected:
            where = (
                f"Failed to process element: {number} of 'instances' list. JSON object:"
                f" {_shown(row)}"
            )
            raise RefusedRequest(f"{where} keys must be equal to: {','.join(names)}")
    yield from ((name, [row[name] for row in rows]) for name in names)


def _of_inputs(inputs: object, names: list[str]) -> Iterator[tuple[str, object]]:
    if not isinstance(inputs, dict):
        if len(names) > 1:
            raise RefusedRequest(
                f"inputs is a plain value/list, but expecting an object as {_MANY_INPUTS}"
            )
        inputs = {names[0]: inputs}
    for name in names:
        if name not in inputs:
            raise RefusedRequest(f"Missing named input: {name} in 'inputs' object.")
        yield name, inputs[name]


def _shown(value: object) -> str:
    return json.dumps(value, default=repr)[:256]


def _tensor_info(tensor: TensorDescription) -> object:
    shape = {
        "dim": [{"size": str(size), "name": ""} for size in tensor.shape or ()],
        "unknown_rank": tensor.shape is None,
    }
    return {
        "dtype": f"DT_{_DT.get(tensor.dtype, tensor.dtype.upper())}",
        "tensor_shape": shape,
        "name": tensor.tensor,
    }


def _plain(cells: Array, is_binary: bool) -> Array:
    """Cells as JSON has them; a float32 has as few digits as it needs."""
    if isinstance(cells, (np.ndarray, np.generic)):
        if cells.dtype.kind == "f" and cells.dtype.itemsize < 8:
            # As a double, the float32 0.1 is 0.10000000149011612. The text of a float32 has only
            # the digits that distinguish it from its neighbours, so the way through text removes
            # the others.
            parts = np.array_split(cells.ravel(), cells.size // _BLOCK + 1)
            cells = np.concatenate([part.astype(str).astype(float) for part in parts]).reshape(
                cells.shape
            )
        plain = cells.tolist()
        return _plain(plain, is_binary) if cells.dtype.kind in "OSU" else plain
    if isinstance(cells, list):
        if set(map(type, cells)) <= _PLAIN:
            return cells
        return [_plain(cell, is_binary) for cell in cells]
    if not isinstance(cells, bytes):
        return cells
    with suppress(UnicodeDecodeError):
        # As in TensorFlow Serving, outputs whose names end in _bytes are always base64. Other bytes
        # are text as long as they are UTF-8.
        if not is_binary:
            return cells.decode()
    return {"b64": base64.b64encode(cells).decode()}
