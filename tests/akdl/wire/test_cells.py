"""Columns of the message as arrays and back, literally."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, Column, Rows
from akdl.wire.cells import (
    Cells,
    are_cut,
    as_array,
    fill_column,
    joined,
    lengths_of,
    offsets_of,
    packed_bits,
    read_cells,
    spread,
    unpacked_bits,
)


def offsets(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


def lists(cells: Any) -> tuple[Any, ...]:
    """Return the arrays as lists, and None for those that are not there."""
    return tuple(None if array is None else array.tolist() for array in cells)


ABC = np.frombuffer(b"abc", np.uint8)

# The message, the rows it has, and the arrays: values, valid, cell_offsets, value_offsets.
COLUMNS = [
    (Column(type=BOOL, values=b"\x05"), 3, Cells(np.array([True, False, True]))),
    (Column(type=BOOL, values=b"\x00\x01"), 9, Cells(np.array([False] * 8 + [True]))),
    (Column(type=INT8, values=b"\xff\x7f"), 2, Cells(np.array([-1, 127], "i1"))),
    (Column(type=INT16, values=b"\x01\x00\x00\x80"), 2, Cells(np.array([1, -(2**15)], "i2"))),
    (Column(type=INT32, values=b"\x02\x01\x00\x00"), 1, Cells(np.array([258], "i4"))),
    (Column(type=INT64, values=b"\xff" * 7 + b"\x7f"), 1, Cells(np.array([2**63 - 1], "i8"))),
    (Column(type=FLOAT32, values=b"\x00\x00\x00\x3f"), 1, Cells(np.array([0.5], "f4"))),
    (Column(type=FLOAT64, values=b"\x00" * 6 + b"\xf0\xbf"), 1, Cells(np.array([-1.0], "f8"))),
    (Column(type=INT64), 0, Cells(np.zeros(0, "i8"))),
    (Column(type=BYTES, value_offsets=offsets(0)), 0, Cells(ABC[:0], None, None, np.array([0]))),
    (Column(type=BYTES, value_offsets=offsets(0, 2, 2, 3), values=b"abc"), 3, Cells(ABC, None, None, np.array([0, 2, 2, 3]))),
    (Column(type=INT8, valid=b"\x02", values=b"\x00\x07"), 2, Cells(np.array([0, 7], "i1"), np.array([False, True]))),
    (
        Column(type=BYTES, valid=b"\x05", value_offsets=offsets(0, 1, 1, 3), values=b"abc"), 3,
        Cells(ABC, np.array([True, False, True]), None, np.array([0, 1, 1, 3])),
    ),
    (
        Column(type=INT8, cell_offsets=offsets(0, 2, 2, 3), values=b"\x01\x02\x03"), 3,
        Cells(np.array([1, 2, 3], "i1"), None, np.array([0, 2, 2, 3])),
    ),
    (Column(type=INT8, valid=b"\x00", cell_offsets=offsets(0, 0)), 1, Cells(np.zeros(0, "i1"), np.array([False]), np.array([0, 0]))),
    (
        Column(type=BOOL, cell_offsets=offsets(0, 1, 10), values=b"\x01\x02"), 2,
        Cells(np.array([True] + [False] * 8 + [True]), None, np.array([0, 1, 10])),
    ),
    (
        Column(type=BYTES, valid=b"\x03", cell_offsets=offsets(0, 2, 3, 3), value_offsets=offsets(0, 1, 1, 3), values=b"abc"), 3,
        Cells(ABC, np.array([True, True, False]), np.array([0, 2, 3, 3]), np.array([0, 1, 1, 3])),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kind", "shape"),
    [
        (["a\0", "b"], "O", (2,)),
        ([["a\0", "bc"], ("d", np.bytes_(b"e"))], "O", (2, 2)),
        (b"a\0", "O", ()),
        ([[1, 2], [3, 4]], "i", (2, 2)),
        (np.array(["a"]), "U", (1,)),
        ([[]], "f", (1, 0)),
    ],
)
def test_arrays_of_texts_hold_objects(value: Any, kind: str, shape: tuple[int, ...]) -> None:
    array = as_array(value)
    assert (array.dtype.kind, array.shape) == (kind, shape)
    assert array.size == 0 or array.tolist() == np.array(value, object).tolist()


def test_bytes_of_the_arrays_of_numpy_are_known() -> None:
    own = np.array([b"a\0"])
    for cut in (own, own[:, None], list(own), [own], [None, own], np.ma.masked_array(own, [True])):
        assert are_cut(cut)
    for whole in (
        [b"a\0", None],
        np.array([b"a\0", None], object),
        [],
        [[b"a"]],
        np.zeros(2),
        np.zeros((2, 0), object),
    ):
        assert not are_cut(whole)


@pytest.mark.parametrize(("column", "rows", "cells"), COLUMNS)
def test_columns_and_cells_convert_both_ways(column: Column, rows: int, cells: Any) -> None:
    column.name = "x"
    assert fill_column(Column(), "x", cells) == column
    found = read_cells(column, rows)
    assert lists(found) == lists(cells)
    assert found.values.dtype == cells.values.dtype


@pytest.mark.parametrize(
    ("column", "rows", "values"),
    [
        (Column(name="x", type=INT64, values=bytes(8)), 2, 2),
        (Column(name="x", type=FLOAT32, values=bytes(12)), 2, 2),
        (Column(name="x", type=BOOL, values=b"\x00"), 9, 9),
        (Column(name="x", type=BYTES, value_offsets=offsets(0, 1), values=b"a"), 2, 2),
        (Column(name="x", type=BYTES, value_offsets=offsets(0, 1, 2), values=b"a"), 2, 2),
        (Column(name="x", type=INT8, valid=b"\x01", values=bytes(9)), 9, 9),
        (Column(name="x", type=INT8, cell_offsets=offsets(0, 1), values=b"\x00"), 2, 1),
        (Column(name="x", type=INT8, cell_offsets=offsets(0, 1, 3), values=b"\x00"), 2, 3),
        (Column(name="x", type=BYTES, cell_offsets=offsets(0, 0, -1)), 2, -1),
        (
            Column(
                name="x",
                type=BYTES,
                cell_offsets=offsets(0, 1, 2),
                value_offsets=offsets(0, 1),
                values=b"a",
            ),
            2,
            2,
        ),
    ],
)
@pytest.mark.fault("data", "Columns whose buffers do not agree are an error")
def test_buffers_that_do_not_agree_are_refused(column: Column, rows: int, values: int) -> None:
    with pytest.raises(
        ValueError,
        match=f"^the buffers of the column 'x' do not hold {rows} rows of {values} values$",
    ):
        read_cells(column, rows)


@pytest.mark.fault("data", "Damaged offsets of cells are an error that names the column")
def test_decreasing_offsets_are_refused() -> None:
    for column in (
        Column(name="x", type=INT8, cell_offsets=offsets(0, 2, 1), values=b"a"),
        Column(name="x", type=BYTES, value_offsets=offsets(1, 1, 1), values=b"a"),
    ):
        with pytest.raises(
            ValueError, match="^the offsets of the column 'x' do not start at 0 or do not ascend$"
        ):
            read_cells(column, 2)


def test_values_of_an_unknown_type_are_refused() -> None:
    with pytest.raises(ValueError, match="^the column 'x' has values of the unknown type 99$"):
        read_cells(Column.FromString(Column(name="x").SerializeToString() + b"\x10\x63"), 0)


def test_numbers_and_bytes_are_views_that_cannot_be_written_to() -> None:
    for column in (
        Column(type=INT8, values=b"\x01"),
        Column(type=BYTES, value_offsets=offsets(0, 1), values=b"a"),
    ):
        with pytest.raises(ValueError, match="read-only"):
            read_cells(column, 1).values[0] = 2


@pytest.mark.parametrize(
    "cells",
    [
        Cells(np.array([1, 2], ">i4")),
        Cells(np.array([1, 9, 2, 9], "<i4")[::2]),
        Cells(np.array([1, 2], "<i4"), np.array([True, True])),
    ],
)
def test_fill_column_normalizes_byte_order_gaps_and_needless_bits(cells: Any) -> None:
    assert fill_column(Column(), "x", cells) == Column(
        name="x", type=INT32, values=b"\x01\0\0\0\x02\0\0\0"
    )


def test_offsets_of_64_bits_travel_in_32() -> None:
    cells = Cells(ABC, None, np.array([0, 2], "i8"), np.array([0, 1, 3], "i8"))
    wanted = Column(
        name="x",
        type=BYTES,
        cell_offsets=offsets(0, 2),
        value_offsets=offsets(0, 1, 3),
        values=b"abc",
    )
    assert fill_column(Column(), "x", cells) == wanted


def test_fill_column_fills_a_column_of_a_message_in_place() -> None:
    message = Rows(rows=1)
    fill_column(message.columns.add(), "é", Cells(np.array([3], "i1")))
    assert message == Rows(rows=1, columns=[Column(name="é", type=INT8, values=b"\x03")])


@pytest.mark.parametrize(
    ("booleans", "bits"),
    [
        ([], b""),
        ([True], b"\x01"),
        ([False, True], b"\x02"),
        ([True] * 8, b"\xff"),
        ([True] + [False] * 7 + [True, True], b"\x01\x03"),
    ],
)
def test_booleans_are_packed_into_bits_and_back(booleans: list[bool], bits: bytes) -> None:
    assert packed_bits(np.array(booleans, bool)) == bits
    found = unpacked_bits(bits, len(booleans))
    assert (found.dtype, found.tolist()) == (bool, booleans)


def test_missing_bits_are_unpacked_as_false() -> None:
    assert unpacked_bits(b"\x81", 20).tolist() == [
        True,
        False,
        False,
        False,
        False,
        False,
        False,
        True,
    ]


def test_bytes_are_joined_and_lengths_counted() -> None:
    pieces = [b"ab", b"", b"c"]
    assert (joined(pieces).dtype, joined(pieces).tobytes()) == (np.uint8, b"abc")
    assert joined([]).tolist() == []
    assert lengths_of(pieces).tolist() == [2, 0, 1]
    assert lengths_of([[1, 2, 3], []]).tolist() == [3, 0]
    assert lengths_of([]).tolist() == []


def test_values_are_spread_over_the_cells_that_are_not_null() -> None:
    values = np.array([5, 7], "i2")
    found = spread(values, np.array([False, True, False, True]))
    assert (found.dtype, found.tolist()) == ("i2", [0, 5, 0, 7])
    assert spread(values, np.array([True, True])).tolist() == [5, 7]
    assert spread(values, None) is values


def test_offsets_of_lengths_begin_at_zero() -> None:
    assert offsets_of(np.array([2, 0, 1]), "column 'x'").tolist() == [0, 2, 2, 3]
    assert offsets_of(np.zeros(0, "i8"), "column 'x'").tolist() == [0]


@pytest.mark.fault(
    "data", "Rows of more than 2 GB in one message are an error that names the column"
)
def test_offsets_beyond_32_bits_are_refused() -> None:
    assert offsets_of(np.array([2**30, 2**30 - 1]), "column 'x'")[-1] == 2**31 - 1
    with pytest.raises(
        ValueError,
        match=r"^column 'x': expected less than 2 GB in one batch, got 2147483648 bytes or elements$",
    ):
        offsets_of(np.array([2**30, 2**30]), "column 'x'")


@pytest.mark.fault("data", "Numbers of another type than the column's are an error")
def test_numbers_of_another_type_than_that_of_the_column_are_refused() -> None:
    column = fill_column(Column(), "x", Cells(np.array([0.5, np.nan])))
    assert read_cells(column, 2, FLOAT32).values[0] == 0.5, "of any width"
    for sent in (INT64, BOOL, BYTES):
        with pytest.raises(ValueError, match="'x' has values of an unexpected type"):
            read_cells(column, 2, sent)
