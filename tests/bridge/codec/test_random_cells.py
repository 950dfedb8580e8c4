"""Random cells of every type keep their values on the way to a script, and on the way back."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from akdl.wire import Column, Rows
from akdl.wire.cells import read_cells
from akdl.wire.column_type import ColumnType, Kind
from bridge.codec.ipc import arrow_schema, read_batch, write_batch
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from tests.bridge.codec.random_cells import SCHEMA, as_arrow, as_message, plain_array, random_cells

ROWS = 130  # with several bytes of bits for nulls, and an incomplete one


@pytest.fixture(params=range(10))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def random_columns(rng: random.Random) -> list[Any]:
    return [random_cells(rng, column.type, ROWS) for column in SCHEMA]


def same(left: list[Any], right: Any) -> bool:
    return repr(left) == repr(right)  # also -0.0, and NaN is itself there


def read(message: Column, column_type: ColumnType, rows: Any) -> list[Any]:
    """Return the plain values of a column of a message, read as the TensorFlow process does."""
    cells = read_cells(message, rows)
    if cells.value_offsets is not None:
        data = cells.values.tobytes()
        values = [data[start:end] for start, end in pairs(cells.value_offsets.tolist())]
        if column_type.kind is not Kind.BYTES:
            values = [value.decode() for value in values]
    else:
        values = cells.values.tolist()
    valid = [True] * rows if cells.valid is None else cells.valid.tolist()
    if cells.cell_offsets is None:
        assert cells.value_offsets is None or all(
            is_valid or not value for is_valid, value in zip(valid, values)
        )
        return [value if is_valid else None for is_valid, value in zip(valid, values)]
    bounds = pairs(cells.cell_offsets.tolist())
    assert all(is_valid or start == end for is_valid, (start, end) in zip(valid, bounds))
    return [
        values[start:end] if is_valid else None for is_valid, (start, end) in zip(valid, bounds)
    ]


def pairs(numbers: Any) -> list[Any]:
    return list(zip(numbers, numbers[1:]))


def test_random_cells_reach_a_script_unchanged(rng: random.Random) -> None:
    columns = random_columns(rng)
    arrays = [as_arrow(rng, column.type, cells) for column, cells in zip(SCHEMA, columns)]
    batch = read_batch(write_batch(pa.record_batch(arrays, schema=arrow_schema(SCHEMA))))
    start, size = rng.randrange(ROWS // 2), rng.randrange(ROWS // 2)
    for first, part in (
        (0, batch),
        (start, batch.slice(start, size)),
        (3, batch.slice(3).slice(0, 0)),
    ):
        message = Rows.FromString(to_columns(part, SCHEMA))
        assert message.rows == part.num_rows
        for column, cells, sent in zip(SCHEMA, columns, message.columns):
            found = read(sent, column.type, part.num_rows)
            assert same(found, cells[first : first + part.num_rows]), column


def test_random_cells_of_a_script_reach_arrow_unchanged(rng: random.Random) -> None:
    columns = random_columns(rng)
    messages = [
        as_message(rng, column.name, column.type, cells) for column, cells in zip(SCHEMA, columns)
    ]
    rng.shuffle(messages)
    decoder = ColumnDecoder(SCHEMA)
    arrays = decoder.decode(Rows(rows=ROWS, columns=messages))
    batch = pa.record_batch(arrays, schema=decoder.arrow_schema)
    batch.validate(full=True)
    for column, cells, array in zip(SCHEMA, columns, read_batch(write_batch(batch)).columns):
        assert array.type == decoder.arrow_schema.field(column.name).type
        if column.type.is_array:
            bounds = pairs(array.offsets.to_pylist())
            valid = array.is_valid().to_pylist()
            values = list(itertools.chain.from_iterable(cell or [] for cell in cells))
            assert [end - start for start, end in bounds] == [len(cell or []) for cell in cells], (
                column
            )
            assert valid == [cell is not None for cell in cells], column
            assert bits(array.values) == bits(plain_array(column.type, values)), column
        else:
            present = [cell for cell in cells if cell is not None]
            assert array.is_valid().to_pylist() == [cell is not None for cell in cells], column
            assert bits(array.drop_null()) == bits(plain_array(column.type, present)), column


def bits(values: Any) -> Any:
    """Return the values as bytes where that is what they are compared by, so that NaN is NaN."""
    return (
        values.cast(pa.float64()).to_numpy().tobytes()
        if pa.types.is_floating(values.type)
        else values.to_pylist()
    )
