"""Encoding and decoding of rows, beside the protobuf API row by row.

    python benchmarks/codec.py [--rounds N] [--folder FOLDER]

Encoding is from the columns that PyFlink hands over to framed tf.train.Examples; decoding from what `write_batch` sends to
the rows that PyFlink takes. The limit does the same row by row with Example messages. One process, no Flink.
"""

from __future__ import annotations

import datetime
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from crc32c import crc32c
from report import Figure, arguments, report

from akdl.columns import encode_columns
from akdl.packed import unpack
from akdl.wire import Example, TableColumn
from bridge.decoder import RowDecoder
from bridge.encoder import RowEncoder
from bridge.schema import Schema

ROWS = 8000
_RANDOM = np.random.default_rng(0)
_NULLS = _RANDOM.random(ROWS) < 0.2


def _objects(cells: list[Any]) -> Any:
    return pd.Series(cells, dtype=object)


def _strings(length: int = 16) -> list[str]:
    return ["".join(chr(97 + value) for value in row) for row in _RANDOM.integers(0, 26, (ROWS, length))]


def _arrays() -> list[Any]:
    return list(_RANDOM.random((ROWS, 16)).astype("f4"))


def _with_nulls(cells: list[Any]) -> list[Any]:
    return [None if null else cell for cell, null in zip(cells, _NULLS)]


# Of each SQL type a maker of cells as PyFlink hands them over, how one cell becomes a feature, and the least ratio asked for.
SINGLE: dict[str, tuple[Callable[[], Any], str, Callable[[Any], Any], float]] = {
    "BOOLEAN NOT NULL": (lambda: pd.Series(_NULLS), "int64", int, 12),
    "BIGINT NOT NULL": (lambda: pd.Series(_RANDOM.integers(-(2**62), 2**62, ROWS)), "int64", int, 12),
    "FLOAT NOT NULL": (lambda: pd.Series(_RANDOM.random(ROWS, "f4")), "float", float, 12),
    "DOUBLE NOT NULL": (lambda: pd.Series(_RANDOM.random(ROWS)), "float", float, 12),
    "STRING NOT NULL": (lambda: _objects(_strings()), "bytes", str.encode, 5),
    "BYTES NOT NULL": (lambda: _objects([text.encode() for text in _strings()]), "bytes", bytes, 5),
    "DATE NOT NULL": (
        lambda: _objects([datetime.date.fromordinal(700_000 + day) for day in range(ROWS)]),
        "int64", lambda day: day.toordinal() - 719_163, 5,
    ),
    "ARRAY<FLOAT> NOT NULL": (lambda: _objects(_arrays()), "float", list, 5),
}  # fmt: skip


def encoders() -> dict[str, tuple[Callable[[], int], Callable[[], int], float]]:
    """Return by name what encodes a batch and returns the bytes, the same row by row, and the ratio asked for."""
    found = {}
    for sql, (make, kind, convert, target) in SINGLE.items():
        found[sql] = (*_encoder({"x": (sql, make(), kind, convert)}, []), target)
    plain = {f"f{number}": ("FLOAT NOT NULL", pd.Series(_RANDOM.random(ROWS, "f4")), "float", float) for number in range(10)}
    plain["id"] = ("BIGINT NOT NULL", pd.Series(np.arange(ROWS)), "int64", int)
    found["10 FLOAT, 1 BIGINT"] = (*_encoder(plain, []), 12)
    mixed: dict[str, Any] = {}
    for number in range(5):
        mixed[f"s{number}"] = ("STRING", _objects(_with_nulls(_strings())), "bytes", str.encode)
    for number in range(3):
        mixed[f"d{number}"] = ("DOUBLE", pd.Series(_RANDOM.random(ROWS)), "float", float)
    for number in range(2):
        mixed[f"a{number}"] = ("ARRAY<FLOAT NOT NULL>", _objects(_with_nulls(_arrays())), "float", list)
    found["5 STRING, 3 DOUBLE, 2 ARRAY, 20 % null"] = (*_encoder(mixed, [f"d{number}" for number in range(3)]), 5)
    return found


def _encoder(columns: dict[str, Any], masked: list[str]) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return what encodes the columns at once, and row by row; the nulls of `masked` columns travel as bits of a mask."""
    encoder = RowEncoder(Schema.parse(", ".join(f"{name} {sql}" for name, (sql, *_) in columns.items())))
    bits = sum(1 << bit for bit in range(len(masked)))
    mask = pd.Series(np.where(_NULLS, bits, 0).astype(np.int64))
    given = [*(cells for _, cells, _, _ in columns.values()), mask]
    assert len(encoder.sql_arguments) == len(given), encoder.sql_arguments
    cells_of = {
        name: _with_nulls(cells.tolist()) if name in masked else cells.tolist() for name, (_, cells, _, _) in columns.items()
    }

    def at_once() -> int:
        return sum(len(unpack(data)) for _, _, data in encoder.encode(given).deal(1, 0))

    def row_by_row() -> int:
        size = 0
        for row in range(ROWS):
            example = Example()
            for name, (_, _, kind, convert) in columns.items():
                cell = cells_of[name][row]
                if cell is not None:
                    value = convert(cell)
                    values = getattr(example.features.feature[name], f"{kind}_list").value
                    values.extend(value if isinstance(value, list) else [value])
            size += len(_framed(example.SerializeToString()))
        return size

    return at_once, row_by_row


def _framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


# Of each SQL type an array of cells as a script writes it, the list of its feature, and how a value of it becomes a cell.
WRITTEN: dict[str, tuple[Callable[[], Any], str, Callable[[Any], Any]]] = {
    "BIGINT": (lambda: _RANDOM.integers(-(2**62), 2**62, ROWS), "int64", int),
    "FLOAT": (lambda: _RANDOM.random(ROWS, "f4"), "float", float),
    "DOUBLE": (lambda: _RANDOM.random(ROWS, "f4"), "float", float),
    "STRING": (lambda: _strings(), "bytes", bytes.decode),
}


def decoders() -> dict[str, tuple[Callable[[], int], Callable[[], int], float]]:
    """Return by name what decodes a batch and returns the rows, the same row by row, and the ratio asked for."""
    return {sql: (*_decoder(sql, make(), kind, convert), 3.0) for sql, (make, kind, convert) in WRITTEN.items()}


def _decoder(sql: str, cells: Any, kind: str, convert: Callable[[Any], Any]) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return what decodes a column at once, and row by row."""
    decoder = RowDecoder(Schema.parse(f"x {sql}"))
    message = encode_columns({"x": cells}, [TableColumn(name="x", type=sql)])
    examples = []
    for cell in cells:
        example = Example()
        values = getattr(example.features.feature["x"], f"{kind}_list").value
        values.append(cell.encode() if isinstance(cell, str) else cell)
        examples.append(example.SerializeToString())

    def at_once() -> int:
        return len(decoder.decode(message)[0])

    def row_by_row() -> int:
        rows = []
        for serialized in examples:
            values = getattr(Example.FromString(serialized).features.feature["x"], f"{kind}_list").value
            rows.append((convert(values[0]),))
        return len(rows)

    return at_once, row_by_row


def _rate(run: Callable[[], int]) -> float:
    """Return rows per second, of calls for at least a tenth of a second."""
    begun, calls = time.perf_counter(), 0
    while (seconds := time.perf_counter() - begun) < 0.1:
        run()
        calls += 1
    return calls * ROWS / seconds


def main() -> None:
    """Measure and report."""
    given = arguments()
    figures = []
    for verb, cases in (("encode", encoders()), ("decode", decoders())):
        for name, (at_once, row_by_row, target) in cases.items():
            assert at_once() > 0 and row_by_row() > 0
            pairs = [(_rate(at_once), _rate(row_by_row)) for _ in range(given.rounds)]
            values, limits = [first for first, _ in pairs], [second for _, second in pairs]
            figures.append(Figure(f"{verb} {name}", "rows/s", values, limits, "row by row", target))
    report("codec", f"Rows to Examples and back, batches of {ROWS:,}", figures, given.folder)


if __name__ == "__main__":
    main()
