"""Functions of users that predict, in this process and without TensorFlow."""

from __future__ import annotations

import decimal
import json
import logging
import pathlib
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from akdl.serving.kinds.functions import FunctionModel
from akdl.serving.loaded_model import Refused, ServingError, SignatureError
from akdl.wire import Serving, TableColumn
from tests.akdl.serving import models
from tests.support.leftovers import DEADLINE_S

Make = Callable[..., models.StrictModel]


@pytest.fixture
def make(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a model of the body of `predict(batch)`, with a name for the module that no other test
    has.
    """
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # an import fails

    def made(
        body: str,
        *options: Any,
        inputs: str = "x FLOAT",
        outputs: str = "y DOUBLE",
        whole: str = "",
        params: Any = None,
        **settings: Any,
    ) -> models.StrictModel:
        name = f"of_{tmp_path.name}"
        monkeypatch.delitem(sys.modules, name, raising=False)
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        text = (
            whole
            or f"import numpy as np\ndef load():\n    def predict(batch):\n{lines}\n    return predict\n"
        )
        (tmp_path / f"{name}.py").write_text(text)
        columns, results = (
            [TableColumn(name=n, type=t) for n, t in map(str.split, s.split(", "))]
            for s in (inputs, outputs)
        )
        serving = Serving(
            function=f"{name}.py:load",
            function_folder=str(tmp_path),
            input_columns=columns,
            output_columns=results,
            **settings,
        )
        serving.user_params = json.dumps(params) if params else ""
        return models.StrictModel(FunctionModel(str(tmp_path), serving), serving, *options)

    return made


def test_columns_are_arrays_of_their_types(make: Make) -> None:
    inputs = "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, r BYTES, e DECIMAL(4,1), a ARRAY<FLOAT>, t DATE, h TIME"
    seen = "f'{name} {a.dtype} {list(a.shape)} {type(a.flat[0]).__name__}'"
    body = f"return {{'all': ['; '.join({seen} for name, a in batch.items())] * 2}}"
    model = make(body, inputs=inputs, outputs="all STRING")
    columns = {
        "b": np.array([True, False]), "i": np.array([1, 2], "i4"), "l": np.array([2**62 + 1, 3]), "f": np.array([1, 2], "f4"),
        "d": np.array([1.5, 2]), "s": [b"\xc3\xa4", b"b"], "r": [b"\xff", b""], "e": [b"1.5", b"2.0"],
        "a": np.ones((2, 3), "f4"), "t": np.array([0, 1], "i4"), "h": np.array([0, 1], "i4"),
    }  # fmt: skip
    assert model.predict(columns)["all"] == [
        f"b bool [2] {np.bool_.__name__}; i int32 [2] int32; l int64 [2] int64; f float32 [2] float32; d float64 [2] float64; "
        "s object [2] str; r object [2] bytes; e object [2] Decimal; a float32 [2, 3] float32; t datetime64[D] [2] datetime64; "
        "h int32 [2] int32"
    ] * 2  # fmt: skip


def test_values_arrive_exactly_and_belong_to_the_function(make: Make) -> None:
    body = "batch['l'] += 1\nreturn {'l': batch['l'], 'e': [str(2 * e) for e in batch['e']]}"
    given = np.array([2**62 + 1, -(2**53) - 1])
    given.flags.writeable = False
    model = make(body, inputs="l BIGINT, e DECIMAL(4,1)", outputs="l BIGINT, e STRING")
    result = model.predict({"l": given, "e": [b"1.5", b"-0.1"]})
    assert result["l"].tolist() == [2**62 + 2, -(2**53)] and result["e"] == [
        str(decimal.Decimal("3.0")),
        "-0.2",
    ]


@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        ("return batch['x'] * 2", "y DOUBLE", [2, 4]),
        ("return {'y': (batch['x'] * 2)[:, None], 'more': 0}", "y FLOAT", [2, 4]),
        ("return {'y': [1, True]}", "y DOUBLE", [1, 1]),
        ("return {'y': np.arange(4.0).reshape(2, 2)}", "y ARRAY<DOUBLE>", [[0, 1], [2, 3]]),
        ("return {'y': batch['x'] > 1}", "y BOOLEAN", [False, True]),
        ("return {'y': ['a', 'ä']}", "y STRING", ["a", "ä"]),
        ("return {'y': np.array(['a', 'b'])}", "y STRING", ["a", "b"]),
        ("return {'y': [b'\\xff', b'']}", "y BYTES", [b"\xff", b""]),
        ("return {'y': [b'a\\0', b'\\0\\0']}", "y BYTES", [b"a\0", b"\0\0"]),
        ("return {'y': (['a\\0'], ['b'])}", "y STRING", ["a\0", "b"]),
        (
            "return {'y': [[b'a\\0', b''], [b'\\0', b'b']]}",
            "y ARRAY<BYTES>",
            [[b"a\0", b""], [b"\0", b"b"]],
        ),
        ("return {'y': [1.5, 2]}", "y STRING", ["1.5", "2.0"]),
        ("return {'y': batch['x']}", "y STRING", ["1.0", "2.0"]),
    ],
)
def test_function_outputs_become_columns(
    make: Make, body: str, outputs: str, expected: list[Any]
) -> None:
    assert (
        np.array(
            make(body, outputs=outputs).predict({"x": np.array([1, 2], "f4")})["y"], object
        ).tolist()
        == expected
    )


@pytest.mark.fault("data", "A function may return the same array in each call")
def test_an_array_that_a_function_fills_again_keeps_no_row_of_a_later_batch(make: Make) -> None:
    whole = (
        "import numpy as np\ndef load(kept=np.empty(2)):\n    def predict(batch):\n"
        "        kept[: len(batch['x'])] = batch['x']\n        return kept[: len(batch['x'])]\n"
        "    return predict\n"
    )
    model = make("", whole=whole, inputs="x DOUBLE", infer_batch_size=2)
    assert model.predict({"x": np.arange(3.0)})["y"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", ["STRING", "BYTES"])
def test_memory_of_texts_is_proportional_to_them(make: Make, kind: str) -> None:
    """numpy would give each of 256 texts four million bytes."""
    model = make(
        f"return {{'y': [{'b' * (kind == 'BYTES')}'x' * 1_000_000] + [{'b' * (kind == 'BYTES')}'y'] * 255}}",
        outputs=f"y {kind}",
    )
    tracemalloc.start()
    try:
        model.predict({"x": np.zeros(256, "f4")})
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "outputs", "message"),
    [
        (
            "return {'z': 1}",
            "y DOUBLE",
            "expected a dict with the outputs 'y', got a dict with 'z'",
        ),
        (
            "return [1, 2]",
            "y DOUBLE, z DOUBLE",
            "expected a dict with the outputs 'y', 'z', got a list",
        ),
        (
            "return {'y': [1.0]}",
            "y DOUBLE",
            r"output 'y': expected an array of shape \[2\] for DOUBLE, got the shape \[1\]",
        ),
        (
            "return {'y': 1.0}",
            "y DOUBLE",
            r"output 'y': expected an array of shape \[2\] for DOUBLE, got the shape \[\]",
        ),
        (
            "return {'y': np.ones((2, 3))}",
            "y DOUBLE",
            r"expected an array of shape \[2\] for DOUBLE, got the shape \[2, 3\]",
        ),
        (
            "return {'y': np.ones((3, 2))}",
            "y ARRAY<INT>",
            r"expected an array with 2 rows for ARRAY<INT>, got the shape \[3, 2\]",
        ),
        (
            "return {'y': batch['x']}",
            "y BIGINT",
            "output 'y': an array of float32 does not fit BIGINT; convert it, or change out",
        ),
        (
            "return {'y': batch['x']}",
            "y BYTES",
            "output 'y': an array of float32 does not fit BYTES",
        ),
        (
            "return {'y': np.array([b'a', b'b'])}",
            "y BYTES",
            r"bytes in a list .* since numpy cuts NUL .*, got an array of \|S1",
        ),
        (
            "return {'y': list(np.array([b'a', b'b']))}",
            "y BYTES",
            "expected bytes in a list or an array of objects",
        ),
        (
            "return {'y': [1.0, None]}",
            "y DOUBLE",
            "output 'y': an array of object does not fit DOUBLE",
        ),
        (
            "return {'y': ['a', None]}",
            "y STRING",
            "output 'y': expected a string or bytes, got null",
        ),
        (
            "return {'y': [[1], [1, 2]]}",
            "y ARRAY<INT>",
            "output 'y': expected an array, got a list: ",
        ),
        (
            "return {'y': np.ma.masked_equal([1, 2], 2)}",
            "y INT",
            "output 'y': .* an array with masked elements: fill them",
        ),
    ],
)
@pytest.mark.fault(
    "data", "An output of a function with another shape, length or type is refused by name"
)
def test_function_outputs_that_do_not_fit_are_refused(
    make: Make, body: str, outputs: str, message: str
) -> None:
    with pytest.raises(ServingError, match=rf"^the function load in of_\S+.py: .*{message}"):
        make(body, outputs=outputs).predict({"x": np.array([1, 2], "f4")})


@pytest.mark.fault(
    "data", "Rows that a function rejects are found, and named with the line in its file"
)
def test_rows_that_a_function_rejects(make: Make) -> None:
    body = "if (batch['x'] < 0).any():\n    raise ValueError('below 0')\nif (batch['x'] > 9).any(): raise SystemExit(3)\n"
    result, bad = make(body + "return {'y': batch['x']}").predict_collecting(
        {"x": [1.0, -1.0, None, 3.0, 10.0]}
    )
    assert result["y"] == [1, None, None, 3, None] and [row for row, _ in bad] == [1, 2, 4]
    assert (
        bad[0][1].startswith("the function load in of_")
        and ".py rejects it: ValueError: below 0 (of_" in bad[0][1]
    )
    assert bad[0][1].endswith(".py, line 5)") and "SystemExit: 3" in bad[2][1]
    assert bad[1][1] == "input 'x' (float32 []) from column 'x': expected a value, got null"
    assert make("return {'y': batch['x']}", defaults='{"x": 0.5}').predict({"x": [None, 1.0]})[
        "y"
    ].tolist() == [0.5, 1]


@pytest.mark.fault("hosts", "A function that runs out of memory gets smaller batches from then on")
def test_function_that_runs_out_of_memory_gets_smaller_batches(make: Make) -> None:
    told: list[tuple[int, str]] = []
    body = "if len(batch['x']) > 2: raise RuntimeError('CUDA out of memory.')\nreturn {'y': batch['x'] * 0 + len(batch['x'])}"
    model = make(body, lambda *notice: told.append(notice), infer_batch_size=8)
    assert model.predict({"x": np.ones(8, "f4")})["y"].tolist() == [2] * 8
    assert model.predict({"x": np.ones(3, "f4")})["y"].tolist() == [2, 2, 1]
    ((level, text),) = told
    assert (
        level == logging.WARNING
        and text.startswith("the function load in of_")
        and text.endswith("a batch has at most 2 rows")
    )


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory.",
        "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 9",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
        "std::bad_alloc",
    ],
)
def test_a_lack_of_memory_is_known_by_the_words_of_each_framework(message: str) -> None:
    assert Refused(RuntimeError(message), message).lacks_memory


@pytest.mark.parametrize(
    ("whole", "error", "message"),
    [
        ("def lod(): ...", ServingError, r"^predictFn: of_\S+.py defines no function 'load'$"),
        (
            "def load(): ...",
            ServingError,
            r"expected it to return a function predict\(batch\), got a NoneType",
        ),
        ("def load(a): ...", TypeError, "missing 1 required positional argument: 'a'"),
        ("import absent_package", ImportError, "absent_package"),
        ("raise SystemExit(3)", ServingError, r"^the function load in .*: SystemExit: 3 \(of_"),
        ("def load(): exit('no')", ServingError, r"SystemExit: no \(of_\S+.py, line 1\)$"),
        ("load = lambda: len", SignatureError, "the column 'y' has the type 'DATE'"),
    ],
)
def test_functions_that_cannot_be_loaded_are_errors_with_their_cause(
    make: Make, whole: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make("", outputs="y DATE" if error is SignatureError else "y DOUBLE", whole=whole)


def test_module_next_to_a_function_is_imported_once_for_all_models(
    make: Make, tmp_path: pathlib.Path
) -> None:
    name = f"beside_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("COUNT = []\n")
    whole = (
        f"import {name}\ndef load():\n    {name}.COUNT.append(1)\n"
        f"    return lambda batch: batch['x'] * len({name}.COUNT)\n"
    )
    found = [make("", whole=whole).predict({"x": np.ones(1, "f4")})["y"].tolist() for _ in "ab"]
    assert found == [[1.0], [2.0]]


def test_factory_is_called_once_and_the_function_never_at_the_same_time(make: Make) -> None:
    whole = """
import threading
COUNT = []
def load(path, factor=1):
    COUNT.append(path)
    lock = threading.Lock()
    def predict(batch):
        assert lock.acquire(blocking=False)
        try:
            return {"y": batch["x"] * factor + len(COUNT)}
        finally:
            lock.release()
    return predict
"""
    model, results = (
        make("", whole=whole, params={"path": "p", "factor": 2}, infer_batch_size=1),
        [],
    )
    columns = {"x": np.arange(200, dtype="f4")}
    threads = [
        threading.Thread(target=lambda: results.append(model.predict(columns)["y"].tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[2 * x + 1 for x in range(200)]] * 4


@pytest.mark.process
def test_the_server_loads_without_tensorflow() -> None:
    code = "import sys; sys.modules['tensorflow'] = None; import akdl.serving.model_server"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=4 * DEADLINE_S)
