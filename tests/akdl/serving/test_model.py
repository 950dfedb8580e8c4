"""Predictions for batches of rows, with bad rows, nulls and defaults; and from threads."""

from __future__ import annotations

import contextlib
import decimal
import json
import logging
import pathlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from akdl.serving.loaded_model import ServingError, SignatureError
from akdl.serving.model import WatchedCall, stalled_file
from akdl.serving.number_cells import NUMBERS
from tests.akdl.serving import models
from tests.akdl.serving.models import expected
from tests.support.deadline import DEADLINE_S, SLOWER

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_results_of_small_batches_are_joined_in_order() -> None:
    columns = models.rows(50)
    whole = models.served(models.module()).predict(columns)
    parts = models.served(models.module(), infer_batch_size=7).predict(columns)
    np.testing.assert_array_equal(parts["p"], whole["p"])
    np.testing.assert_allclose(parts["logits"], whole["logits"], rtol=1e-6)


def test_inputs_may_be_fed_by_columns_of_other_names() -> None:
    model = models.served(
        models.module(),
        inputs={"features": "x", "K": "k"},
        outputs=[models.OutputColumn("y", "ARRAY<DOUBLE>", "logits")],
    )
    columns = models.rows(4)
    ours = model.predict(
        {"K": columns["k"].tolist(), "features": columns["x"].tolist(), "more": [None] * 4}
    )
    np.testing.assert_array_equal(
        ours["y"], expected(models.module(), columns)["logits"].astype("f8")
    )
    assert {each.column: each.key for each in model._inputs} == {"features": "x", "K": "k"}
    assert {each.name: each.key for each in model._outputs} == {"y": "logits"}


def test_predicting_no_rows_gives_empty_columns() -> None:
    model = models.served(
        models.module(), outputs=["p", models.OutputColumn("l", "STRING", "logits")]
    )
    assert [len(cells) for cells in model.predict({"x": [], "k": []}).values()] == [0, 0]


def test_columns_that_do_not_fit_the_signature_are_refused() -> None:
    model = models.served(models.module())
    with pytest.raises(
        ServingError, match="missing the column 'k' for the input 'k'; the columns are 'x'"
    ):
        model.predict({"x": [[1, 2, 3]]})
    with pytest.raises(ServingError, match="different numbers of rows"):
        model.predict({"x": [[1, 2, 3]], "k": [1, 2]})


def test_rows_that_the_model_refuses_are_bad() -> None:
    model = models.served(
        models.module(),
        signature_def_key="look_up",
        outputs=[models.OutputColumn("found", "BIGINT")],
    )
    result, bad = model.predict_collecting({"k": [0, 1, 99, 3, None, 4, -1]})
    assert result["found"] == [10, 11, None, 13, None, 14, None]
    assert [row for row, _ in bad] == [2, 4, 6]
    assert "the model rejects it: " in bad[0][1]


@pytest.mark.parametrize("batch_size", [2, 256])
def test_rows_with_nulls_are_bad_and_the_other_rows_predicted(batch_size: int) -> None:
    model = models.served(models.module(), infer_batch_size=batch_size)
    columns = {"x": [None, [1, 2, 3], [4, 5, 6], [7, 8, 9], None], "k": [1, 2, None, 4, 5]}
    result, bad = model.predict_collecting(columns)
    assert [row for row, _ in bad] == [0, 2, 4]
    assert [message.split(" from ")[1] for _, message in bad] == [
        "column 'x': expected a value, got null",
        "column 'k': expected a value, got null",
        "column 'x': expected a value, got null",
    ]
    wanted = expected(
        models.module(), {"x": np.array([[1, 2, 3], [7, 8, 9]], "f4"), "k": np.array([2, 4])}
    )
    assert [row for row, cell in enumerate(result["p"]) if cell is not None] == [1, 3]
    np.testing.assert_array_equal([result["logits"][1], result["logits"][3]], wanted["logits"])


def test_defaults_stand_for_nulls() -> None:
    x = np.ma.MaskedArray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[False] * 3, [False] * 3], "float32")
    with contextlib.closing(models.served(models.module(), defaults={"k": 7})) as model:
        assert model.predict({"x": x, "k": [1, None]})["p"].tolist() == [1.0, 7.0]
        assert model.predict({"x": x, "k": np.array([1, 2])})["p"].tolist() == [1.0, 2.0]
        assert model.predict({"x": x, "k": np.ma.MaskedArray([1, 2], [True, False])})[
            "p"
        ].tolist() == [7.0, 2.0]
        assert model.predict_collecting({"x": [None, x[0]], "k": [1, None]})[1][0][0] == 0, (
            "x has none"
        )
    with pytest.raises(
        ServingError, match="defaults names 'z'; the columns that feed the model are 'k', 'x'"
    ):
        models.served(models.module(), defaults={"z": 1})
    with pytest.raises(
        ServingError, match=r"defaults: input 'k' .* from column 'k': expected int64 numbers"
    ):
        models.served(models.module(), defaults={"k": "a lot"})


def test_single_input_and_output_need_no_names() -> None:
    one = models.served(
        models.identity("float64", (None,)),
        inputs=["n"],
        outputs=[models.OutputColumn("y", "DOUBLE")],
    )
    assert one.predict({"n": [1, 2.5]})["y"].tolist() == [1.0, 2.5]
    assert (one._inputs[0].key, one._outputs[0].key) == ("a", "b")
    with pytest.raises(
        ServingError, match="no output 'y'; its signature is .*outputs: 'b' float64"
    ):
        models.served(models.identity("float64", (None,)), outputs=["y"])


@pytest.mark.parametrize(
    ("dtype", "shape"), [("float32", (3,)), ("bfloat16", (3,)), ("int8", (1, 3))]
)
def test_columns_of_numbers_are_stacked_for_the_only_input(
    dtype: str, shape: tuple[int, ...]
) -> None:
    model = models.served(
        models.identity(dtype, (None, *shape)), inputs=["w", "u", "v"], outputs=[models.OutputColumn("y", "ARRAY<DOUBLE>")],
        defaults={"v": 9}, infer_batch_size=2,
    )  # fmt: skip
    columns = {
        "u": np.array([1, 2, 3], "i8"),
        "v": [1.0, None, decimal.Decimal(3)],
        "w": np.array([7, 8, 9], "f8"),
    }
    assert [list(cell) for cell in model.predict(columns)["y"]] == [[7, 1, 1], [8, 2, 9], [9, 3, 3]]
    result, bad = model.predict_collecting({**columns, "u": [None, 4, "nothing"]})
    assert [None if cell is None else list(cell) for cell in result["y"]] == [None, [8, 4, 9], None]
    assert [(row, message.split(": ")[1][:40]) for row, message in bad] == [
        (0, "expected a value, got null"), (2, f"expected {np.dtype(NUMBERS[dtype])} numbers, got the string 'nothing'"[:40]),
    ]  # fmt: skip
    assert all(f"input 'a' ({dtype} []) from column 'u'" in message for _, message in bad)
    assert [len(cells) for cells in model.predict({"u": [], "v": [], "w": []}).values()] == [0]


@pytest.mark.fault(
    "data", "Columns that do not fit the only input of a model are refused with both widths"
)
@pytest.mark.parametrize(
    ("dtype", "shape", "columns"),
    [
        ("float32", (None, 3), ["u", "v"]),
        ("string", (None, 2), ["u", "v"]),
        ("float32", (None, None, None), ["u", "v"]),
    ],
)
def test_columns_that_do_not_fit_the_only_input_are_refused(
    dtype: str, shape: tuple[int | None, ...], columns: list[str]
) -> None:
    with pytest.raises(
        SignatureError,
        match=rf"only input 'a' {dtype} \[.*\] takes one column, or .* has 2 columns, .*'u', 'v'",
    ):
        models.served(models.identity(dtype, shape), inputs=columns)
    with pytest.raises(SignatureError, match="has no input 'u'"):
        models.served(models.identity("float32", (None, 2)), inputs=["a", "u"])


def test_batch_of_nulls_has_only_bad_rows() -> None:
    result, bad = models.served(models.module()).predict_collecting(
        {"x": [None, None], "k": [1, 2]}
    )
    assert (result["p"], [row for row, _ in bad]) == ([None, None], [0, 1])


def sizes_of(model: models.StrictModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the rows of each call of the loaded model."""
    sizes: list[int] = []
    run = model.model.predict
    monkeypatch.setattr(
        model.model,
        "predict",
        lambda feeds: sizes.append(len(next(iter(feeds.values())))) or run(feeds),
    )
    return sizes


def test_batches_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # 3 floats and an int64: 20 bytes a row
    model = models.served(models.module(), infer_batch_size=16, infer_batch_bytes=200)
    columns, sizes = models.rows(33), sizes_of(model, monkeypatch)
    np.testing.assert_array_equal(model.predict(columns)["p"], columns["k"])
    assert sizes == [10, 10, 10, 3]


def test_one_long_row_has_a_batch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, numbers = ["a"] * 255, [[1.0, 2.0]] * 256
    texts.insert(100, "b" * 100_000)
    model = models.served(models.texts_and_numbers(), infer_batch_bytes=20_000)
    sizes = sizes_of(model, monkeypatch)
    assert model.predict({"t": texts, "x": numbers})["length"].tolist() == [
        100_000 if i == 100 else 1 for i in range(256)
    ]
    assert sum(sizes) == 256 and len(sizes) < 16
    ragged = models.served(models.total(), infer_batch_bytes=4096)
    sizes = sizes_of(ragged, monkeypatch)
    found = ragged.predict({"a": [[1.0] * (5000 if i == 100 else 4) for i in range(256)]})["sum"]
    assert list(found) == [5000.0 if i == 100 else 4.0 for i in range(256)]
    assert sorted(sizes) == [1, 255]


@pytest.mark.fault(
    "data", "A batch too large for memory is halved, and later batches have the smaller size"
)
def test_out_of_memory_halves_the_batch_and_keeps_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[tuple[int, str]] = []
    model = models.served(
        models.greedy(100), lambda level, text: reports.append((level, text)), infer_batch_size=256
    )
    sizes = sizes_of(model, monkeypatch)
    numbers = np.arange(600, dtype="f4")
    np.testing.assert_array_equal(model.predict({"a": numbers})["b"], numbers)
    assert sizes == [256, 128, 64, 64, 128, 64, 64, *[64] * 5, 24]
    model.predict({"a": numbers[:130]})
    assert sizes[-3:] == [64, 64, 2]
    assert reports == [
        (logging.WARNING, "the model ran out of memory: from now on a batch has at most 64 rows")
    ]


@pytest.mark.fault(
    "data", "A row too large for memory is an error of that row, and later batches keep their size"
)
def test_a_row_that_needs_too_much_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.served(models.greedy(100), infer_batch_size=64)
    result, bad = model.predict_collecting(
        {"a": [-1.0 if row == 9 else float(row) for row in range(64)]}
    )
    assert (
        [row for row, cell in enumerate(result["b"]) if cell is None]
        == [row for row, _ in bad]
        == [9]
    )
    assert bad[0][1].startswith("the model runs out of memory with it: ")
    sizes = sizes_of(model, monkeypatch)
    model.predict({"a": np.ones(64, "f4")})
    assert sizes == [64]


def test_batches_of_varying_sizes_do_not_retrace_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    import tensorflow as tf

    logger = logging.getLogger("tensorflow")
    propagates, logger.propagate = logger.propagate, True
    try:
        for make in (models.module, models.keras_functional, models.keras_subclassed):
            model = models.served(make())
            for count in range(1, 30):
                model.predict(models.rows(count))
        assert "retracing" not in caplog.text
        traced = tf.function(lambda a: 2 * a, reduce_retracing=False)
        for count in range(1, 30):
            traced(tf.zeros([count]))
        assert "triggered tf.function retracing" in caplog.text, "the warning can be seen here"
    finally:
        logger.propagate = propagates


def test_batches_of_varying_sizes_are_padded_for_a_compiled_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = models.served(models.compiled(), infer_batch_size=100)
    sizes = sizes_of(model, monkeypatch)
    for count in range(1, 101):
        assert model.predict({"a": np.arange(count)})["b"].tolist() == [
            2 * number for number in range(count)
        ]
    assert sorted(set(sizes)) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert not models.served(models.module()).signature.is_compiled


def test_several_threads_predict_with_one_model_at_once() -> None:
    model = models.served(models.module(), infer_batch_size=16)
    batches = [models.rows(40, seed) for seed in range(8)]
    wanted = [model.predict(columns)["logits"] for columns in batches]
    wrong: list[Any] = []

    def predict(columns: Any, logits: Any) -> None:
        for _ in range(30):
            if not np.array_equal(model.predict(columns)["logits"], logits):
                wrong.append(columns)

    threads = [threading.Thread(target=predict, args=pair) for pair in zip(batches, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_rows_of_a_shared_call_are_those_of_its_requests() -> None:
    call = WatchedCall(requests=[("one", 2), ("good", 1), ("two", 3)])
    assert call.rows_of([1, 3, 5]) == {"one": [1], "two": [0, 2]}
    of_a_key = call.within(np.array([1, 2, 5]))
    assert of_a_key.rows_of(range(3)) == {"one": [1], "good": [0], "two": [2]}
    assert WatchedCall("alone").within(np.array([4, 6])).rows_of([1]) == {"alone": [6]}


PROGRAM = """
import sys, threading, time
from akdl.serving.model import UNWATCHED, BatchWatch, WatchedCall

limit_s = float(sys.argv[2])
watch = BatchWatch(limit_s, sys.argv[1])

def compute(call, rows, seconds):
    with watch.batch(call, rows):
        time.sleep(seconds)

threading.Thread(target=compute, args=(UNWATCHED, [1], 600), daemon=True).start()
for row in range(8):
    compute(WatchedCall("quick"), [row], 0.2 * limit_s)  # longer than the limit, all in all
threading.Thread(target=compute, args=(WatchedCall("slow"), range(4, 7), 600), daemon=True).start()
time.sleep(600)
"""


@pytest.mark.process
def test_batch_that_takes_too_long_ends_the_process_and_is_named(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(SLOWER)]
    with subprocess.Popen(command) as process:
        assert process.wait(2 * DEADLINE_S) == 74
    path = pathlib.Path(stalled_file(str(tmp_path), process.pid))
    assert json.loads(path.read_text()) == {"slow": [4, 5, 6]} and [*tmp_path.iterdir()] == [path]
