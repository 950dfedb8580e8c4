"""Messages put together from pieces, as protobuf itself writes them."""

from __future__ import annotations

import numpy as np

from akdl.wire import BOOL, BYTES, INT64, Chunk, Column, Rows
from akdl.wire.serialized import ColumnBuffers, serialized_chunk, serialized_rows

LARGE = np.arange(40, dtype="<i8")  # over 127 bytes: a size of two bytes
COLUMNS = [
    ColumnBuffers("n", INT64, b"", b"", b"", LARGE),
    ColumnBuffers("größe", BYTES, b"\x05", b"", np.array([0, 1, 1, 3], "<i4"), memoryview(b"abc")),
    ColumnBuffers("empty", BOOL, b"", b"", b"", b""),
]


def test_rows() -> None:
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


def test_cell_offsets() -> None:
    offsets = np.array([0, 2, 4], "<i4")
    (column,) = Rows.FromString(serialized_rows(2, [ColumnBuffers("a", INT64, b"", offsets, b"", LARGE[:4])])).columns
    assert (column.cell_offsets, column.values) == (offsets.tobytes(), LARGE[:4].tobytes())


def test_chunk() -> None:
    for rows, extra_input, columns in ((3, 0, b"x" * 200), (1, 2, b"y"), (0, 0, b"")):
        expected = Chunk(rows=rows, input=extra_input, columns=columns)
        assert Chunk.FromString(serialized_chunk(rows, extra_input, columns)) == expected
