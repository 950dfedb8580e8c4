"""Messages put together from pieces, as protobuf itself writes them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from akdl.wire import BOOL, BYTES, INT64, Chunk, Column, EndOfInput, Rows
from akdl.wire.serialized import ColumnBuffers, Tally, serialized_chunk, serialized_rows

LARGE = np.arange(40, dtype="<i8")  # over 127 bytes: a size of two bytes
COLUMNS = [
    ColumnBuffers("n", INT64, b"", b"", b"", LARGE),
    ColumnBuffers("größe", BYTES, b"\x05", b"", np.array([0, 1, 1, 3], "<i4"), memoryview(b"abc")),
    ColumnBuffers("empty", BOOL, b"", b"", b"", b""),
]


def test_serialized_rows_equal_those_of_protobuf() -> None:
    columns = [
        Column(
            name=one.name,
            type=one.type,
            valid=bytes(one.valid),
            value_offsets=bytes(one.value_offsets),
            values=bytes(one.values),
        )
        for one in COLUMNS
    ]
    assert serialized_rows(40, COLUMNS) == Rows(rows=40, columns=columns).SerializeToString()
    assert serialized_rows(0, []) == b""


def test_serialized_rows_carry_cell_offsets() -> None:
    offsets = np.array([0, 2, 4], "<i4")
    (column,) = Rows.FromString(
        serialized_rows(2, [ColumnBuffers("a", INT64, b"", offsets, b"", LARGE[:4])])
    ).columns
    assert (column.cell_offsets, column.values) == (offsets.tobytes(), LARGE[:4].tobytes())


def test_serialized_chunk_equals_that_of_protobuf() -> None:
    for rows, extra_input, columns in ((3, 0, b"x" * 200), (1, 2, b"y"), (0, 0, b"")):
        expected = Chunk(rows=rows, input=extra_input, columns=columns)
        assert Chunk.FromString(serialized_chunk(rows, extra_input, columns)) == expected


def _tally() -> Tally:
    tally = Tally()
    tally.add(2, b"ab")
    tally.add(0, b"extra")
    return tally


def test_the_end_mark_has_all_rows_and_the_checksum_of_all_columns() -> None:
    assert _tally().end() == Chunk(end=EndOfInput(rows=2, checksum=zlib.crc32(b"abextra")))


def test_a_reader_accepts_the_end_mark_of_its_own_chunks_alone() -> None:
    _tally().check(_tally().end().end)
    for rows, columns in [(1, b"abextra"), (2, b"abextr")]:
        with pytest.raises(
            EOFError,
            match=rf"expected {rows} rows with checksum \w+, received 2 rows with checksum \w+",
        ):
            _tally().check(EndOfInput(rows=rows, checksum=zlib.crc32(columns)))
