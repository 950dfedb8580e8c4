"""Cells for inputs: strings, shapes, and rows that do not fit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from akdl.serving.input_cells import InputConverter
from akdl.serving.loaded_model import RowsError, SignatureError, TensorDescription
from akdl.wire import TableColumn
from tests.akdl.serving import models
from tests.akdl.serving.models import expected

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_texts_and_bytes_reach_a_model_of_strings_unchanged() -> None:
    model = models.served(
        models.identity("string", (None,)),
        outputs=[models.OutputColumn("b", "STRING"), models.OutputColumn("c", "BYTES", "b")],
    )
    result = model.predict({"a": ["é, x", b"\xc3\xa9\x00", ""]})
    assert result == {"b": ["é, x", "é\x00", ""], "c": ["é, x".encode(), b"\xc3\xa9\x00", b""]}
    assert model.predict({"a": np.array(["a", "bc"])})["b"] == ["a", "bc"]


def test_numbers_are_refused_where_a_model_expects_strings() -> None:
    _, bad = models.served(models.identity("string", (None,))).predict_collecting(
        {"a": np.array([1, 2])}
    )
    assert [row for row, _ in bad] == [0, 1]
    assert "expected a string or bytes, got int" in bad[0][1]


def test_arrays_of_strings_reach_the_model_and_nulls_are_refused() -> None:
    model = models.served(models.identity("string", (None, 2)))
    cells = np.array([[b"a", "é".encode()], [b"c", b""]], object)
    assert model.predict({"a": cells})["b"].tolist() == cells.tolist()
    _, bad = model.predict_collecting({"a": np.array([[b"a", None], [b"c", b""]], object)})
    assert bad == [
        (0, "input 'a' (string [2]) from column 'a': expected a string or bytes, got null")
    ]


def test_utf8_columns_feed_strings_and_numbers_and_invalid_ones_are_bad_rows() -> None:
    model = models.served(models.texts_and_numbers(), inputs=["t", "x"], utf8_columns=["t", "x"])
    result, bad = model.predict_collecting(
        {"t": ["é".encode(), b"bb", b""], "x": [b"1,2", None, b"\xff"]}
    )
    assert (result["length"], result["sum"]) == ([2, None, None], [3, None, None])
    assert [message.split(": ", 1)[1] for _, message in bad] == [
        "expected a value, got null",
        "expected float32 numbers, got the string '\ufffd'",
    ]
    raw = np.array([1, 2], "<f4").tobytes()
    assert models.served(models.texts_and_numbers()).predict({"t": [b"a"], "x": [raw]})[
        "sum"
    ].tolist() == [3]


@pytest.mark.fault("data", "Bytes of a text column are text in an array too, not raw numbers")
@pytest.mark.parametrize("cells", [[b"2.25"], np.array([b"2.25"]), np.array([b"2.25"], object)])
def test_arrays_of_bytes_for_a_text_column_are_texts_of_numbers(cells: Any) -> None:
    tensor = TensorDescription("a", "float32", (-1,), "a")
    for given in (cells, np.ma.array(cells)):  # type: ignore[no-untyped-call]
        found = InputConverter(tensor, TableColumn(name="a", type="STRING")).convert(given)
        assert not found.errors and np.array(found.values).tolist() == [2.25]


@pytest.mark.parametrize(
    ("shape", "cell", "wanted"),
    [
        ((None,), 5, 5),
        ((None,), [5], 5),
        ((None, 1), 5, [5]),
        ((None, None), 5, [5]),
        ((None, 2, 2), [1, 2, 3, 4], [[1, 2], [3, 4]]),
        ((None, 2, 2), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ((None, 2, None), [1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]),
        ((None, 2, None), "1 2 3 4", [[1, 2], [3, 4]]),
        ((None, None, None), "$1 2$ 3 4", [[3, 4]]),
        ((None, None), "3 4", [3, 4]),
    ],
)
def test_single_cell_takes_the_shape_of_the_signature(
    shape: tuple[int | None, ...], cell: Any, wanted: Any
) -> None:
    for cells in ([cell], np.array([cell])):
        assert models.served(models.identity("int32", shape)).predict({"a": cells})[
            "b"
        ].tolist() == [wanted]


def test_ragged_rows_are_accepted_where_the_signature_is_open() -> None:
    model = models.served(
        models.total(),
        outputs=[
            models.OutputColumn("sum", "DOUBLE"),
            models.OutputColumn("twice", "ARRAY<FLOAT>"),
        ],
    )
    result = model.predict({"a": [[1.0], [1.0, 2.0], [3.0], "4 5 6", [0.5, 0.5]]})
    assert list(result["sum"]) == [1, 3, 3, 15, 1]
    assert [list(cell) for cell in result["twice"]] == [[2], [2, 4], [6], [8, 10, 12], [1, 1]]


def test_model_of_a_fixed_batch_size_predicts_any_number_of_rows() -> None:
    for rows in (1, 3, 4, 9):
        result = models.served(models.identity("int32", (4, 2))).predict(
            {"a": [[row, row] for row in range(rows)]}
        )
        assert result["b"].tolist() == [[row, row] for row in range(rows)]


def test_cells_may_hold_whole_batches() -> None:
    model = models.served(
        models.identity("float32", (None, 2)),
        cells_hold_batches=True,
        outputs=[models.OutputColumn("b", "ARRAY<FLOAT>")],
    )
    result = model.predict({"a": [[[1, 2]], "3 4 5 6", "$1 2$7 8"]})
    assert [list(cell) for cell in result["b"]] == [[1, 2], [3, 4, 5, 6], [7, 8]]


def test_model_without_a_batch_dimension_needs_cells_of_batches() -> None:
    folder = models.identity("float32", ())
    with pytest.raises(SignatureError, match="has no batch dimension"):
        models.served(folder)
    model = models.served(
        folder, cells_hold_batches=True, outputs=[models.OutputColumn("b", "DOUBLE")]
    )
    assert list(model.predict({"a": [1, 2]})["b"]) == [1, 2]


CELLS = [
    (None, "expected a value, got null"),
    ([1.0, 2.0], r"expected the shape \[3\], got \[2\]"),
    ([1.0, None, 2.0], "null elements"),
    ([[1.0], [1.0, 2.0]], "lists of different length"),
    ("1 2 x", "expected float32 numbers, got the string '1 2 x'"),
    ("$2$1 2 3", r"has 3 numbers, but its shape is \[2\]"),
    (b"123", "expected 4 bytes for each element, got 3 bytes"),
    ([1e300, 0.0, 0.0], "number 1e.300 does not fit into float32"),
    ({}, "expected numbers, got dict"),
]


@pytest.mark.parametrize(("cell", "message"), CELLS)
def test_bad_row_does_not_fail_its_batch(cell: Any, message: str) -> None:
    good = [1.0, 2.0, 3.0]
    model = models.served(models.module())
    columns = {"x": [good, cell, good], "k": [1, 2, 3]}
    result, bad = model.predict_collecting(columns)
    assert [row for row, _ in bad] == [1]
    assert result["p"][0] == 1 and result["p"][1] is None and result["p"][2] == 3
    np.testing.assert_array_equal(
        result["logits"][2],
        expected(models.module(), {"x": np.array([good], "f4"), "k": np.array([3])})["logits"][0],
    )
    with pytest.raises(
        RowsError, match=rf"row 1: input 'x' \(float32 \[3\]\) from column 'x': .*{message}"
    ):
        model.predict(columns)


def test_row_with_one_bad_input_is_bad() -> None:
    model = models.served(models.texts_and_numbers())
    result, bad = model.predict_collecting(
        {"t": ["a", "bb", None, "dddd"], "x": [[1, 2], None, [3, 4], "5 6"]}
    )
    assert (result["length"], result["sum"]) == ([1, None, None, 4], [3, None, None, 11])
    assert [row for row, _ in bad] == [1, 2]
    result, bad = model.predict_collecting({"t": ["a", "bb"], "x": [[1, 2], [3]]})
    assert (result["length"], [row for row, _ in bad]) == ([1, None], [1])


def test_masked_cells_are_bad_rows() -> None:
    model = models.served(models.identity("int32", (None,)))
    result, bad = model.predict_collecting(
        {"a": np.ma.masked_array([1, 2, 3], [False, True, False])}
    )
    assert result["b"] == [1, None, 3] and bad[0][0] == 1


@pytest.mark.parametrize(
    ("dtype", "cells", "message"),
    [
        ("float16", [b"abc", b"abc"], "expected 2 bytes for each element, got 3 bytes"),
        (
            "string",
            ["\ud800", "\ud800"],
            "'.ud800' is not valid Unicode text: it has half of a surrogate pair",
        ),
    ],
)
def test_all_rows_may_be_bad_for_the_same_reason(
    dtype: str, cells: list[object], message: str
) -> None:
    converted = InputConverter(
        TensorDescription("x", dtype, (-1,), "x:0"), TableColumn(name="x")
    ).convert(cells)
    assert list(converted.errors) == [0, 1]
    assert all(re.search(message, error) for error in converted.errors.values())
