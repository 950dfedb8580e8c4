"""Requests and answers in the words of TensorFlow Serving's documents."""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
import pytest

from akdl.serving.loaded_model import Signature, TensorDescription
from operators.serve.rest_messages import (
    RefusedRequest,
    Target,
    _parsed,
    answer_of,
    has_rows,
    matched,
    written,
)


def target(*inputs: str) -> Target:
    tensors = tuple(TensorDescription(name, "float32", (-1, 2), f"{name}:0") for name in inputs)
    signature = Signature(
        "serving_default", tensors, (TensorDescription("y", "string", None, "y:0"),)
    )
    return Target("half", "123", signature, {"serving_default": signature}, True)


THREE = target("tag", "signal", "sensor")
ROWS = [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ("tag", "signal", "sensor")}


def test_requests_of_the_documentation_become_columns() -> None:
    assert target("x").columns(b'{"instances": ["foo", "bar", "baz"]}') == (
        {"x": ["foo", "bar", "baz"]},
        3,
    )
    assert target("x").columns(b'{"instances": [[[1, 2]], [[3, 4]]]}') == (
        {"x": [[[1, 2]], [[3, 4]]]},
        2,
    )
    assert target("x").columns(b'{"inputs": [1.0, 2.0], "signature_name": "serving_default"}') == (
        {"x": [1.0, 2.0]},
        None,
    )
    assert target("x").columns(b'{"inputs": [1.0], "signature_name": ""}') == ({"x": [1.0]}, None)
    assert THREE.columns(json.dumps({"instances": ROWS}).encode()) == (COLUMNS, 2)
    assert THREE.columns(json.dumps({"inputs": COLUMNS}).encode()) == (COLUMNS, None)
    (values,) = target("x").columns(b'{"instances": [{"x": NaN}, {"x": -Infinity}]}')[0].values()
    assert [str(value) for value in values] == ["nan", "-inf"]


@pytest.mark.parametrize("value", ["0.5", "7"])
def test_other_threads_run_while_a_large_request_is_parsed(value: str) -> None:
    turns, ends = [0], threading.Event()

    def take_turns() -> None:
        while not ends.is_set():
            time.sleep(0)
            turns[0] += 1

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        other = threading.Thread(target=take_turns)
        other.start()
        body, before = f"[{','.join([value] * 300_000)}]", turns[0]
        parsed = _parsed(f'{{"instances": {body}}}'.encode())
        taken = turns[0] - before
    finally:
        ends.set()
        other.join()
        sys.setswitchinterval(usual)
    assert parsed == {"instances": [json.loads(value)] * 300_000} and taken > 10


def test_binary_values_are_base64() -> None:
    image = {"b64": "aW1hZ2UgYnl0ZXM="}
    for text in (
        "aW1hZ2UgYnl0ZXM",
        "aW1hZ2Ug\nYnl0ZXM=\n",
        "aW1hZ2Ug\r\nYnl0ZXM",
        " aW1hZ2UgYnl0ZXM=\t",
    ):
        body = json.dumps({"instances": [{"b64": text}]}).encode()
        assert target("x").columns(body)[0] == {"x": [b"image bytes"]}, text
    assert target("x").columns(json.dumps({"instances": [image, "text"]}).encode())[0] == {
        "x": [b"image bytes", "text"]
    }
    assert target("x").columns(json.dumps({"instances": [{"x": [image]}]}).encode())[0] == {
        "x": [[b"image bytes"]]
    }


@pytest.mark.fault(
    "prediction",
    "A request over REST that is not JSON, or lacks inputs, is refused with the reason",
)
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
        (b'{"instances": [{"b64": "QUJ_"}]}', "JSON Parse error: .*base64"),
        (b'{"instances": [{"b64": "QUJDR"}]}', "JSON Parse error: .*base64"),
        (b'{"instances": [1], "instances": [2]}', 'JSON Parse error: an object has a key twice: ."instances", "instances".'),
        (b'{"instances": [{"x": 1, "x": 2}]}', "JSON Parse error: an object has a key twice"),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "JSON Parse error: Exceeds the limit"),
        (b'{"instances": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON Parse error: maximum recursion depth"),
        (b'{"a":' * 100_000, "JSON Parse error: maximum recursion depth"),
        (b'{"instances": [1], "signature_name": null}', "'signature_name' key must be a string value"),
        (b'{"instances": [1], "signature_name": []}', "'signature_name' key must be a string value"),
        (b'{"inputs": {"z": [1]}}', "Missing named input: x in 'inputs' object."),
        (b'{"inputs": 1}', "input x: expected a list with a value for each row, got 1"),
        (b'{"instances": [1], "signature_name": "other"}', 'Serving signature name: "other" not found in signature def'),
    ],
)  # fmt: skip
def test_malformed_requests_are_refused_with_the_reason(body: bytes, message: str) -> None:
    with pytest.raises(RefusedRequest, match=message) as refused:
        target("x").columns(body)
    assert refused.value.status == 400


def test_several_inputs_need_their_names() -> None:
    for body, message in (
        (b'{"instances": [1]}', "instances is a plain list, but expecting list of objects"),
        (b'{"inputs": [1]}', "inputs is a plain value/list, but expecting an object"),
        (
            b'{"inputs": {"a": [1], "b": [1, 2]}}',
            "expected inputs with the same number of rows, got {'a': 1, 'b': 2}",
        ),
    ):
        with pytest.raises(RefusedRequest, match=message):
            target("a", "b").columns(body)


def test_addresses_name_the_action_of_a_model() -> None:
    for path in (
        "/v1/models/half",
        "/v1/models/half/versions/123",
        "/V1/models/half/versions/0123",
        f"/v1/models/half/versions/{'0' * 5000}123",
    ):
        for name in ("half", "a:b"):
            own, known = path.replace("half", name), dict.fromkeys(("a", name), target("x"))
            assert matched("GET", own, known) == (name, "status")
            assert matched("GET", f"{own}/metadata", known) == (name, "metadata")
            assert matched("POST", f"{own}:predict", known) == (name, "predict")


@pytest.mark.fault("prediction", "A request over REST for another model or version is not found")
@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v1/models/other:predict", 404, r"^Servable not found for request: Latest\(other\)$"),
        ("POST", "/v1/models/half/versions/7:predict", 404, r"^Servable not found for request: Specific\(half, 7\)$"),
        ("GET", "/v1/models/other", 404, "^Could not find any versions of model other$"),
        ("GET", "/v1/models/half/versions/7", 404, "^Could not find version 7 of model half$"),
        ("POST", f"/v1/models/half/versions/{'7' * 5000}:predict", 404, r"^Servable not found for request: Specific\(half, 777"),
        ("GET", f"/v1/models/half/versions/{'7' * 5000}", 404, "^Could not find version 777"),
        ("GET", "/v1/models/half/versions/\u0661\u0662\u0663", 400, "^Malformed request"),
        ("POST", "/v1/models/half/labels/old:predict", 400, "^Unrecognized servable version label: old$"),
        ("GET", "/v1/models/half:predict", 400, "^Malformed request: GET /v1/models/half:predict$"),
        ("POST", "/v1/models/half", 400, "^Malformed request: POST /v1/models/half$"),
        ("DELETE", "/v1/models/half", 400, "^Malformed request: DELETE /v1/models/half$"),
        ("GET", "/favicon.ico", 404, "^Malformed request: GET /favicon.ico$"),
        ("POST", "/v1/models/half:regress", 501, "^akdl serve has no :regress: send the inputs to :predict$"),
        ("POST", "/v1/models/half:CLASSIFY", 501, "^akdl serve has no :CLASSIFY: send the inputs to :predict$"),
    ],
)  # fmt: skip
def test_unknown_addresses_are_refused_as_by_tensorflow_serving(
    method: str, path: str, status: int, message: str
) -> None:
    with pytest.raises(RefusedRequest, match=message) as refused:
        matched(method, path, {"half": target("x")})
    assert refused.value.status == status


def test_answers_have_the_forms_of_tensorflow_serving() -> None:
    one = {"y": np.array([[0.1, 1e20], [3, -2.5e-8]], "f4")}
    assert json.dumps(answer_of(one, 2)) == '{"predictions": [[0.1, 1e+20], [3.0, -2.5e-08]]}'
    assert answer_of(one, None) == {"outputs": [[0.1, 1e20], [3.0, -2.5e-8]]}
    two = {"n": np.array([1, 2]), "t": np.array([b"a", b"\xff"], object)}
    assert answer_of(two, 2) == {
        "predictions": [{"n": 1, "t": "a"}, {"n": 2, "t": {"b64": "/w=="}}]
    }
    assert answer_of(two, None) == {"outputs": {"n": [1, 2], "t": ["a", {"b64": "/w=="}]}}
    assert answer_of({"image_bytes": [b"image bytes", None]}, None) == {
        "outputs": [{"b64": "aW1hZ2UgYnl0ZXM="}, None]
    }
    mixed = [np.array([0.1], "f4"), np.float32(0.2), None, True]
    assert json.dumps(answer_of({"y": mixed}, 4)) == '{"predictions": [[0.1], 0.2, null, true]}'
    assert (
        json.dumps(answer_of({"y": np.array([np.nan, np.inf])}, 2))
        == '{"predictions": [NaN, Infinity]}'
    )


def test_outputs_without_rows_are_answered_as_values() -> None:
    sums = {"sum": np.float32(0.1), "text": b"a", "m": np.array([[1, 2]])}
    assert answer_of(sums, None) == {"outputs": {"sum": 0.1, "text": "a", "m": [[1, 2]]}}
    assert answer_of({"m": np.array([[1, 2]])}, 1) == {"predictions": [[1, 2]]}
    for results, rows, shape in (
        (sums, 2, r"\[\]"),
        ({"m": np.array([[1, 2]])}, 2, r"\[1, 2\]"),
        ({"l": [1, 2, 3]}, 2, r"\[3\]"),
    ):
        with pytest.raises(
            RefusedRequest,
            match=f"expected values for 2 rows, got the shape {shape}: send 'inputs' in place",
        ):
            answer_of(results, rows)


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ([(-1, 2)], [(-1,)], True),
        ([None], [None], True),
        ([(8, 2)], [(8, 3)], True),
        ([(8, 2)], [(-1, 3)], True),
        ([(-1,)], [(-1,), ()], False),
        ([(-1,), ()], [(-1,)], False),
        ([(-1, 2)], [(2, 2)], False),
    ],
)
def test_models_without_rows_are_known_by_their_shapes(
    inputs: list[tuple[int, ...] | None], outputs: list[tuple[int, ...] | None], expected: bool
) -> None:
    described = [
        tuple(
            TensorDescription(f"{name}{number}", "float32", shape, "t:0")
            for number, shape in enumerate(shapes)
        )
        for name, shapes in (("x", inputs), ("y", outputs))
    ]
    signature = Signature("serving_default", described[0], described[1])
    assert has_rows(signature) == expected
    if len(inputs) == 2:
        found = Target("m", "1", signature, {}, expected)
        assert found.columns(b'{"inputs": {"x0": [1, 2], "x1": 0.5}}') == (
            {"x0": [[1, 2]], "x1": [0.5]},
            None,
        )


def test_large_answers_are_written_in_blocks() -> None:
    numbers = list(range(100_000))
    for value in (
        {"predictions": numbers},
        {"outputs": [[0.5, 1.5]] * 50_000},
        {"outputs": {"a": [numbers, numbers], "b": [[[n, str(n)]] for n in numbers], "empty": []}},
        {"predictions": [{"a": numbers, "b": None}, {"a": [], "b": float("nan")}]},
        [[[numbers]]],
        [],
    ):
        assert written(value) == json.dumps(value)
    many = np.arange(100_000, dtype="f4").reshape(2, -1, 5) / 10
    assert answer_of({"y": many}, 2) == {
        "predictions": [[[float(str(n)) for n in row] for row in m] for m in many]
    }


def test_status_and_metadata_describe_the_model() -> None:
    status = {"error_code": "OK", "error_message": ""}
    assert target("x").status() == {
        "model_version_status": [{"version": "123", "state": "AVAILABLE", "status": status}]
    }
    found = json.loads(json.dumps(target("x").metadata()))
    assert found["model_spec"] == {"name": "half", "signature_name": "", "version": "123"}
    assert found["metadata"]["signature_def"]["signature_def"]["serving_default"] == {
        "inputs": {
            "x": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {
                    "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}],
                    "unknown_rank": False,
                },
                "name": "x:0",
            }
        },
        "outputs": {
            "y": {
                "dtype": "DT_STRING",
                "tensor_shape": {"dim": [], "unknown_rank": True},
                "name": "y:0",
            }
        },
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
