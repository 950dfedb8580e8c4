"""Requests and answers in the words of TensorFlow Serving's documents."""

from __future__ import annotations

import json

import numpy as np
import pytest

from akdl.serving.signature import Signature, TensorDescription
from operators.serve.rest_messages import RefusedRequest, Target, answer_of


def target(*inputs: str) -> Target:
    tensors = tuple(TensorDescription(name, "float32", (-1, 2), f"{name}:0") for name in inputs)
    signature = Signature("serving_default", tensors, (TensorDescription("y", "string", None, "y:0"),))
    return Target("half", "123", signature, {"serving_default": signature})


THREE = target("tag", "signal", "sensor")
ROWS = [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ("tag", "signal", "sensor")}


def test_rows_and_columns_of_the_documents() -> None:
    assert target("x").columns(b'{"instances": ["foo", "bar", "baz"]}') == ({"x": ["foo", "bar", "baz"]}, True)
    assert target("x").columns(b'{"instances": [[[1, 2]], [[3, 4]]]}') == ({"x": [[[1, 2]], [[3, 4]]]}, True)
    assert target("x").columns(b'{"inputs": [1.0, 2.0], "signature_name": "serving_default"}') == ({"x": [1.0, 2.0]}, False)
    assert THREE.columns(json.dumps({"instances": ROWS}).encode()) == (COLUMNS, True)
    assert THREE.columns(json.dumps({"inputs": COLUMNS}).encode()) == (COLUMNS, False)
    (values,) = target("x").columns(b'{"instances": [{"x": NaN}, {"x": -Infinity}]}')[0].values()
    assert [str(value) for value in values] == ["nan", "-inf"]


def test_binary_values_are_base64() -> None:
    image = {"b64": "aW1hZ2UgYnl0ZXM="}
    assert target("x").columns(json.dumps({"instances": [image, "text"]}).encode())[0] == {"x": [b"image bytes", "text"]}
    assert target("x").columns(json.dumps({"instances": [{"x": [image]}]}).encode())[0] == {"x": [[b"image bytes"]]}


@pytest.mark.fault("prediction", "A request over REST that is not JSON, or lacks inputs, is refused with the reason")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b'{"instances": [1', "JSON Parse error: Expecting ',' delimiter.*char 16"),
        (b"[" * 100_000, "JSON Parse error: maximum recursion depth"),
        (b'"\xff"', "JSON Parse error: .*utf-8"),
        (b"[1]", "JSON Value: .1. Is not object"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (b'{"inputs": [1], "instances": [1]}', "expecting only one of 'inputs' or 'instances' keys to exist"),
        (b'{"instances": 1}', "Expecting 'instances' to be an list/array"),
        (b'{"instances": []}', "No values in 'instances' array"),
        (b'{"instances": [{"x": 1}, 2]}', "Expecting object but got list at item 1 of input list"),
        (b'{"instances": [{"z": 1}]}', r"element: 0 of 'instances' list. JSON object: {\"z\": 1} keys must be equal to: x"),
        (b'{"instances": [{"b64": "?"}]}', "JSON Parse error: .*base64"),
        (b'{"inputs": {"z": [1]}}', "Missing named input: x in 'inputs' object."),
        (b'{"inputs": 1}', "input x: expected a list with a value for each row, got 1"),
        (b'{"instances": [1], "signature_name": "other"}', 'Serving signature name: "other" not found in signature def'),
    ],
)  # fmt: skip
def test_requests_that_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(RefusedRequest, match=message) as refused:
        target("x").columns(body)
    assert refused.value.status == 400


def test_several_inputs_need_their_names() -> None:
    for body, message in (
        (b'{"instances": [1]}', "instances is a plain list, but expecting list of objects"),
        (b'{"inputs": [1]}', "inputs is a plain value/list, but expecting an object"),
        (b'{"inputs": {"a": [1], "b": [1, 2]}}', "expected inputs with the same number of rows, got {'a': 1, 'b': 2}"),
    ):
        with pytest.raises(RefusedRequest, match=message):
            target("a", "b").columns(body)


def test_addresses() -> None:
    for path in ("/v1/models/half", "/v1/models/half/versions/123", "/V1/models/half/versions/0123"):
        assert target("x").action("GET", path) == "status"
        assert target("x").action("GET", f"{path}/metadata") == "metadata"
        assert target("x").action("POST", f"{path}:predict") == "predict"


@pytest.mark.fault("prediction", "A request over REST for another model or version is not found")
@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v1/models/other:predict", 404, r"^Servable not found for request: Latest\(other\)$"),
        ("POST", "/v1/models/half/versions/7:predict", 404, r"^Servable not found for request: Specific\(half, 7\)$"),
        ("GET", "/v1/models/other", 404, "^Could not find any versions of model other$"),
        ("GET", "/v1/models/half/versions/7", 404, "^Could not find version 7 of model half$"),
        ("POST", "/v1/models/half/labels/old:predict", 400, "^Unrecognized servable version label: old$"),
        ("GET", "/v1/models/half:predict", 400, "^Malformed request: GET /v1/models/half:predict$"),
        ("POST", "/v1/models/half", 400, "^Malformed request: POST /v1/models/half$"),
        ("DELETE", "/v1/models/half", 400, "^Malformed request: DELETE /v1/models/half$"),
        ("GET", "/favicon.ico", 404, "^Malformed request: GET /favicon.ico$"),
        ("POST", "/v1/models/half:regress", 501, "^akdl-serve has no :regress: send the inputs to :predict$"),
    ],
)  # fmt: skip
def test_addresses_that_are_not_there(method: str, path: str, status: int, message: str) -> None:
    with pytest.raises(RefusedRequest, match=message) as refused:
        target("x").action(method, path)
    assert refused.value.status == status


def test_answers() -> None:
    one = {"y": np.array([[0.1, 1e20], [3, -2.5e-8]], "f4")}
    assert json.dumps(answer_of(one, True)) == '{"predictions": [[0.1, 1e+20], [3.0, -2.5e-08]]}'
    assert answer_of(one, False) == {"outputs": [[0.1, 1e20], [3.0, -2.5e-8]]}
    two = {"n": np.array([1, 2]), "t": np.array([b"a", b"\xff"], object)}
    assert answer_of(two, True) == {"predictions": [{"n": 1, "t": "a"}, {"n": 2, "t": {"b64": "/w=="}}]}
    assert answer_of(two, False) == {"outputs": {"n": [1, 2], "t": ["a", {"b64": "/w=="}]}}
    assert answer_of({"image_bytes": [b"image bytes", None]}, False) == {"outputs": [{"b64": "aW1hZ2UgYnl0ZXM="}, None]}
    mixed = [np.array([0.1], "f4"), np.float32(0.2), None, True]
    assert json.dumps(answer_of({"y": mixed}, True)) == '{"predictions": [[0.1], 0.2, null, true]}'
    assert json.dumps(answer_of({"y": np.array([np.nan, np.inf])}, True)) == '{"predictions": [NaN, Infinity]}'


def test_state_and_metadata() -> None:
    status = {"error_code": "OK", "error_message": ""}
    assert target("x").status() == {"model_version_status": [{"version": "123", "state": "AVAILABLE", "status": status}]}
    found = json.loads(json.dumps(target("x").metadata()))
    assert found["model_spec"] == {"name": "half", "signature_name": "", "version": "123"}
    assert found["metadata"]["signature_def"]["signature_def"]["serving_default"] == {
        "inputs": {
            "x": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
                "name": "x:0",
            }
        },
        "outputs": {"y": {"dtype": "DT_STRING", "tensor_shape": {"dim": [], "unknown_rank": True}, "name": "y:0"}},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
