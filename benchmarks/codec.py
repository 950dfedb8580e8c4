"""Speed of rows to a script, to Examples, and from a script, by SQL type, in batches of 8,000.

    python benchmarks/codec.py [--rounds N] [--folder FOLDER]

"send" converts an Arrow batch to the serialized message for a script; its limit is Arrow, which
writes the same columns as a stream. "encode" converts this message to framed tf.train.Examples, and
"decode" the output of a script, through a serialized message, to Arrow; their limits do the same
row by row with Example messages. One process runs, without Flink and TensorFlow. Rates are per
processor second, so that other programs disturb less.
"""

from __future__ import annotations

import datetime
import decimal
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from report import Figure, arguments, report

from akdl.rows.examples import ExampleEncoder
from akdl.wire import Example, Rows
from akdl.wire.columns import encode_columns
from bridge.codec.ipc import arrow_schema, write_batch
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.schema import Schema, table_columns

ROWS = 8000
# the target ratio: a message is copied four times on its way to bytes, Arrow's stream twice
SEND = 0.2
_RANDOM = np.random.default_rng(0)
_NULLS = _RANDOM.random(ROWS) < 0.2
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Cells(NamedTuple):
    """Cells of a SQL type, and their conversion to a feature and back.

    Args:
        make: Returns the cells of all rows as a script writes them.
        feature: The list of the feature: "int64", "float" or "bytes".
        to_value: Returns the value of a cell, or the list of values of an array.
        to_cell: Returns the cell of a value, or of the values of an array.
        target: The target ratio to rows that are converted one by one.
        sent: The Arrow type in which cells are sent; None for Flink's own.
    """

    make: Callable[[], Any]
    feature: str
    to_value: Callable[[Any], Any]
    to_cell: Callable[[Any], Any]
    target: float
    sent: Any = None


def _strings(length: int = 16) -> list[str]:
    return [
        "".join(chr(97 + value) for value in row) for row in _RANDOM.integers(0, 26, (ROWS, length))
    ]


def _decimals() -> list[decimal.Decimal]:
    return [
        decimal.Decimal(value).scaleb(-2)
        for value in _RANDOM.integers(-(10**9), 10**9, ROWS).tolist()
    ]


CELLS = {
    "BOOLEAN": Cells(lambda: _RANDOM.random(ROWS) < 0.5, "int64", int, bool, 12),
    "BIGINT": Cells(lambda: _RANDOM.integers(-(2**62), 2**62, ROWS), "int64", int, int, 12),
    "FLOAT": Cells(lambda: _RANDOM.random(ROWS, "f4"), "float", float, float, 12),
    "DOUBLE": Cells(lambda: _RANDOM.random(ROWS), "float", float, float, 12),
    "STRING": Cells(_strings, "bytes", str.encode, bytes.decode, 5),
    "BYTES": Cells(lambda: [_RANDOM.bytes(16) for _ in range(ROWS)], "bytes", bytes, bytes, 5),
    "DECIMAL(10, 2)": Cells(
        _decimals,
        "bytes",
        lambda cell: str(cell).encode(),
        lambda value: decimal.Decimal(value.decode()),
        5,
        pa.string(),
    ),
    "DATE": Cells(
        lambda: np.arange(ROWS).astype("M8[D]"),
        "int64",
        lambda cell: cell.toordinal() - 719_163,
        lambda value: datetime.date.fromordinal(value + 719_163),
        5,
    ),
    "TIMESTAMP(3)": Cells(
        lambda: _RANDOM.integers(0, 10**12, ROWS).astype("M8[ms]"),
        "int64",
        lambda cell: (cell - _EPOCH) // _MICROSECOND,
        lambda value: _EPOCH + value * _MICROSECOND,
        5,
        pa.timestamp("us"),
    ),
    "ARRAY<FLOAT>": Cells(lambda: _RANDOM.random((ROWS, 16), "f4"), "float", list, list, 5),
}

_NUMBERS = {**{f"f{number}": "FLOAT NOT NULL" for number in range(10)}, "id": "BIGINT NOT NULL"}
_MIXED = {
    **{f"s{number}": "STRING" for number in range(5)},
    **{f"d{number}": "DOUBLE" for number in range(3)},
    **{f"a{number}": "ARRAY<FLOAT>" for number in range(2)},
}
TABLES: dict[str, tuple[dict[str, str], float]] = {
    **{sql: ({"x": f"{sql} NOT NULL"}, cells.target) for sql, cells in CELLS.items()},
    "10 FLOAT, 1 BIGINT": (_NUMBERS, 12),
    "5 STRING, 3 DOUBLE, 2 ARRAY, 20 % null": (_MIXED, 5),
}
"""Table name to column types and target ratio. A fifth of the cells is null, except in NOT NULL
columns.
"""


class Table:
    """A batch of rows in all its forms.

    Args:
        types: Column name to SQL type.
    """

    def __init__(self, types: dict[str, str]) -> None:
        self._schema = Schema.parse(", ".join(f"{name} {sql}" for name, sql in types.items()))
        self._columns = table_columns(self._schema)
        self._encoder = ExampleEncoder(self._columns)
        self._decoder = ColumnDecoder(self._schema)
        self._kinds = [(name, CELLS[sql.removesuffix(" NOT NULL")]) for name, sql in types.items()]
        self._written: dict[str, Any] = {}
        arrays = []
        for (name, cells), field in zip(self._kinds, self._decoder.arrow_schema):
            made = cells.make()
            plain = made.tolist() if isinstance(made, np.ndarray) else made
            if field.nullable:
                plain = _with_nulls(plain)
                is_masked = isinstance(made, np.ndarray) and made.ndim == 1
                made = np.ma.masked_array(made, _NULLS) if is_masked else _with_nulls(made)
            self._written[name] = made
            arrays.append(pa.array(plain, field.type))
        self._batch = pa.record_batch(arrays, schema=arrow_schema(self._schema))
        self._message = Rows.FromString(to_columns(self._batch, self._schema))
        self._cells = list(zip(*(array.to_pylist() for array in arrays)))

    def send(self) -> int:
        """Serialize the message of the batch and return its size."""
        return len(to_columns(self._batch, self._schema))

    def send_as_arrow_does(self) -> int:
        """Write the batch as an Arrow stream and return its size."""
        arrays = [
            array.cast(cells.sent or array.type)
            for (_, cells), array in zip(self._kinds, self._batch.columns)
        ]
        return len(write_batch(pa.record_batch(arrays, self._batch.schema.names)))

    def encode(self) -> int:
        """Convert the message to framed Examples and return their size."""
        return len(self._encoder.frames(self._message))

    def encode_row_by_row(self) -> int:
        """Convert single rows to framed Examples and return their size."""
        return sum(len(_framed(self._example(row))) for row in self._cells)

    def decode(self) -> int:
        """Convert the output of a script to Arrow arrays and return the number of rows."""
        message = Rows.FromString(encode_columns(self._written, self._columns).SerializeToString())
        return len(self._decoder.decode(message)[0])

    def decode_row_by_row(self) -> int:
        """Convert Examples that a script writes one by one to rows and return the number of
        rows.
        """
        return len([self._row(self._example(row)) for row in self._cells])

    def _example(self, row: tuple[Any, ...]) -> bytes:
        example = Example()
        for (name, cells), cell in zip(self._kinds, row):
            if cell is not None:
                value = cells.to_value(cell)
                values = getattr(example.features.feature[name], f"{cells.feature}_list").value
                values.extend(value if isinstance(value, list) else [value])
        return example.SerializeToString()

    def _row(self, serialized: bytes) -> tuple[Any, ...]:
        features = Example.FromString(serialized).features.feature
        row = []
        for name, cells in self._kinds:
            values = (
                getattr(features[name], f"{cells.feature}_list").value if name in features else None
            )
            row.append(
                None
                if values is None
                else cells.to_cell(values if cells.to_cell is list else values[0])
            )
        return tuple(row)


def _with_nulls(cells: Any) -> list[Any]:
    return [None if null else cell for cell, null in zip(cells, _NULLS)]


def _framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _rate(run: Callable[[], int]) -> float:
    """Return the rows per processor second of calls that take at least a tenth of a second."""
    begun, calls = time.process_time(), 0
    while (seconds := time.process_time() - begun) < 0.1:
        run()
        calls += 1
    return calls * ROWS / seconds


def main() -> None:
    """Measure and report."""
    given = arguments()
    figures = []
    tables = [(name, Table(types), target) for name, (types, target) in TABLES.items()]
    cases = [
        *(
            (f"send {name}", table.send, table.send_as_arrow_does, "Arrow's stream", SEND)
            for name, table, _ in tables
        ),
        *(
            (f"encode {name}", table.encode, table.encode_row_by_row, "row by row", target)
            for name, table, target in tables
        ),
        *(
            (f"decode {name}", table.decode, table.decode_row_by_row, "row by row", target)
            for name, table, target in tables
        ),
    ]
    for name, run, run_limit, limit, target in cases:
        assert run() > 0 and run_limit() > 0
        pairs = [(_rate(run), _rate(run_limit)) for _ in range(given.rounds)]
        values, limits = [first for first, _ in pairs], [second for _, second in pairs]
        figures.append(Figure(name, "rows/s", values, limits, limit, target))
    report(
        "codec",
        f"Rows to a script, to Examples and back, batches of {ROWS:,}",
        figures,
        given.folder,
    )


if __name__ == "__main__":
    main()
