"""Cells of numbers for inputs of each type."""

from __future__ import annotations

import decimal
import tracemalloc
from typing import Any

import numpy as np
import pytest

from akdl.serving.loaded_model import CellError
from akdl.serving.number_cells import NumberCells
from tests.akdl.serving import models

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize("dtype", [*models.NUMBERS, "bfloat16"])
def test_numbers_of_every_type_come_back_in_the_same_type(dtype: str) -> None:
    values = [[0, 1], [2, 100]]
    model = models.served(models.identity(dtype, (None, 2)))
    for cells in (
        values,
        np.array(values),
        np.array(values, "f4"),
        ["0 1", "2.0,100"],
        ["$2$0,1", " 2 , 100 "],
    ):
        result = model.predict({"a": cells})["b"]
        assert result.tolist() == values
        assert str(result.dtype) == (dtype if dtype != "bfloat16" else "float32")
    if dtype != "bfloat16":
        raw = [np.array(row, np.dtype(dtype).newbyteorder("<")).tobytes() for row in values]
        served = models.served(
            models.identity(dtype, (None, 2)), outputs=[models.OutputColumn("b", "BYTES")]
        )
        assert served.predict({"a": raw})["b"] == raw


@pytest.mark.fault("data", "A number that does not fit an input is not another number there")
def test_texts_and_lists_of_integers_are_exact_or_refused() -> None:
    for text in ("-1", str(2**64)):
        with pytest.raises(CellError, match="expected uint64 numbers, got the string"):
            NumberCells("uint64", True).single(text)
    assert NumberCells("uint64", True).single(str(2**64 - 1)) == 2**64 - 1
    # numpy makes floats of a list that has one.
    for cell in ([2**53 + 1, 1.0], [np.int64(2**53 + 1), np.float32(1)]):
        assert NumberCells("int64", False).single(cell).tolist() == [2**53 + 1, 1]
    with pytest.raises(CellError, match="the number 1.5 does not fit into int64"):
        NumberCells("int64", False).single([1, 1.5])


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        ("int64", f"{2**53 + 1}.0", 2**53 + 1),
        ("uint64", "18446744073709551615.00", 2**64 - 1),
        ("int64", "-9e18", -9 * 10**18),
        ("int64", "1e99999999", None),
        ("int64", "nan", None),
        ("int64", "-inf", None),
        ("int64", "1_0", None),
        ("float64", "1_000.5", None),
        ("float64", "1e400", None),
        ("float64", "-Infinity", float("-inf")),
    ],
)
def test_texts_are_the_number_that_they_name_or_refused(
    dtype: str, text: str, expected: float | None
) -> None:
    cells = NumberCells(dtype, True)
    if expected is not None:
        assert cells.single(text).tolist() == expected
    else:
        with pytest.raises(CellError, match=f"expected {dtype} numbers, got the string"):
            cells.single(text)


@pytest.mark.parametrize("text", ["1.5", "x", "", "1 2", "1e30", str(2**63)])
def test_texts_without_an_integer_are_bad_rows(text: str) -> None:
    _, bad = models.served(models.identity("int64", (None,))).predict_collecting({"a": ["1", text]})
    assert [row for row, _ in bad] == [1]


def test_decimals_feed_floats_and_only_whole_ones_feed_integers() -> None:
    cells = [decimal.Decimal("1.5"), decimal.Decimal(2)]
    assert models.served(models.identity("float32", (None,))).predict({"a": cells})[
        "b"
    ].tolist() == [1.5, 2]
    result, bad = models.served(models.identity("int32", (None,))).predict_collecting({"a": cells})
    assert (result["b"], bad[0][0]) == ([None, 2], 0)


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_fractional_decimals_are_bad_rows_of_their_own(text: str) -> None:
    cells = [[decimal.Decimal(text)], [decimal.Decimal(2)]]
    result, bad = models.served(models.identity("int32", (None, 1))).predict_collecting(
        {"a": cells}
    )
    assert result["b"][0] is None and result["b"][1].tolist() == [2]
    (row, message) = bad[0]
    assert row == 0 and message.endswith(f"expected int32, got [Decimal('{text}')]")


def test_large_integers_stay_exact() -> None:
    model = models.served(
        models.identity("int64", (None,)), outputs=[models.OutputColumn("b", "BIGINT")]
    )
    assert model.predict({"a": [2**53 + 1, -(2**63), 2**63 - 1]})["b"].tolist() == [
        2**53 + 1,
        -(2**63),
        2**63 - 1,
    ]
    assert model.predict({"a": [str(2**53 + 1)]})["b"].tolist() == [2**53 + 1]


@pytest.mark.parametrize(
    "cells", [[["x" * 1_000_000], *[["y"]] * 255], [["x" * 1_000_000, *["y"] * 255]]]
)
def test_memory_of_texts_in_lists_is_proportional_to_them(cells: list[Any]) -> None:
    """For example in a request to akdl serve, in which numpy would give each text the room of the
    longest.
    """
    tracemalloc.start()
    try:
        if len(cells) > 1:
            assert NumberCells("float32", False).whole(cells) is None
        with pytest.raises(CellError, match="expected numbers, got list"):
            NumberCells("float32", False).single(cells[0])
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("dtype", "cell"),
    [("int32", 1.5), ("uint8", 300), ("int8", -129), ("int64", 2**63), ("bool", 2), ("string", 1)],
)
def test_numbers_out_of_range_of_the_input_are_bad_rows(dtype: str, cell: Any) -> None:
    result, bad = models.served(models.identity(dtype, (None,))).predict_collecting(
        {"a": [0 if dtype != "string" else "", cell]}
    )
    assert [row for row, _ in bad] == [1]
    assert result["b"][0] in (0, b"") and result["b"][1] is None
