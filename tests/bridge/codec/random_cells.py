"""Random cells of every type as plain Python values, and these as Arrow arrays and messages.

A plain value is a bool, an int, a float, a str, bytes, the text of a DECIMAL, days, milliseconds of
the day or microseconds; a list of these for an ARRAY; None for null.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa

from akdl.wire import BYTES, Column
from akdl.wire.cells import Cells, fill_column
from akdl.wire.column_type import ColumnType, Kind
from bridge.codec.types import arrow_type
from bridge.schema import Schema

PLAIN = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "VARCHAR(5)", "CHAR(4)", "BYTES",
    "VARBINARY(6)", "BINARY(3)", "DECIMAL(5, 2)", "DECIMAL(3, 3)", "DECIMAL(18, 0)", "DECIMAL(18, 7)", "DECIMAL(19, 18)",
    "DECIMAL(38, 10)", "DECIMAL(38, 38)", "DATE", "TIME(0)", "TIME(2)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(1)",
    "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)",
]  # fmt: skip
NO_ARRAY = ("TIMESTAMP_LTZ",)
EVERY_TYPE = [
    *PLAIN,
    *(f"{sql} NOT NULL" for sql in PLAIN),
    *(f"ARRAY<{sql}>" for sql in PLAIN if not sql.startswith(NO_ARRAY)),
    *(f"ARRAY<{sql} NOT NULL> NOT NULL" for sql in PLAIN if not sql.startswith(NO_ARRAY)),
]
SCHEMA = Schema.parse(", ".join(f"`{sql}` {sql}" for sql in EVERY_TYPE))

BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
ALPHABET = ["a", "B", " ", "\x00", "ż", "☃", "𝄞", "-", "0"]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, 3.4e38]


def random_cells(rng: Any, column_type: ColumnType, rows: int) -> list[Any]:
    """Return plain values; `rng` is a `random.Random`."""
    share = rng.choice([0, 0.3, 1]) if column_type.nullable else 0
    make = functools.partial(one_or_more, rng, column_type)
    return [None if rng.random() < share else make() for _ in range(rows)]


def one_or_more(rng: Any, column_type: ColumnType) -> Any:
    if not column_type.is_array:
        return one(rng, column_type)
    return [one(rng, column_type) for _ in range(rng.randrange(4))]


def one(rng: Any, column_type: Any) -> Any:
    kind, arguments = column_type.kind, column_type.arguments
    if kind is Kind.BOOLEAN:
        return rng.random() < 0.5
    if kind in BITS:
        return rng.getrandbits(BITS[kind]) - 2 ** (BITS[kind] - 1)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        number = (
            rng.choice(FLOATS)
            if rng.random() < 0.2
            else rng.gauss(0, 1) * 10.0 ** rng.randrange(-30, 30)
        )
        return float(np.float32(number)) if kind is Kind.FLOAT else number
    if kind in (Kind.STRING, Kind.BYTES):
        length = (
            arguments[0]
            if column_type.name in ("CHAR", "BINARY")
            else rng.randrange(arguments[0] + 1 if arguments else 12)
        )
        return (
            "".join(rng.choices(ALPHABET, k=length))
            if kind is Kind.STRING
            else rng.randbytes(length)
        )
    if kind is Kind.DECIMAL:
        precision, scale = arguments
        digits = str(rng.randrange(10 ** rng.randrange(1, precision + 1))).rjust(scale + 1, "0")
        minus = "-" if digits.strip("0") and rng.random() < 0.5 else ""
        return f"{minus}{digits[:-scale]}.{digits[-scale:]}" if scale else minus + digits
    if kind is Kind.DATE:
        return rng.randrange(-719_162, 2_932_897)
    digits = 10 ** arguments[0]
    if kind is Kind.TIME:
        return rng.randrange(86_400 * digits) * (1000 // digits)
    return rng.randrange(-62_135_596_800 * digits, 253_402_300_800 * digits) * (1_000_000 // digits)


def as_arrow(rng: random.Random, column_type: ColumnType, cells: Any) -> Any:
    """Return an array of the type that Flink has; where a cell is null, there is some other
    value.
    """
    spoiled = [one_or_more(rng, column_type) if cell is None else cell for cell in cells]
    if column_type.is_array:
        offsets = np.cumsum([0, *map(len, spoiled)], dtype="<i4")
        elements = plain_array(column_type, list(itertools.chain.from_iterable(spoiled)))
        buffers, children = [None, pa.py_buffer(offsets)], [elements]
    else:
        whole = plain_array(column_type, spoiled)
        buffers, children = whole.buffers(), None
    valid = np.array([cell is not None for cell in cells], bool)
    if not valid.all():
        buffers[0] = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow_type(column_type), len(cells), buffers, children=children)


def plain_array(column_type: ColumnType, values: list[Any]) -> Any:
    """Return an array without nulls of values of one kind."""
    kind = column_type.kind
    arrow = arrow_type(column_type).value_type if column_type.is_array else arrow_type(column_type)
    if kind is Kind.DECIMAL:
        return pa.array([decimal.Decimal(value) for value in values], arrow)
    if kind is Kind.DATE:
        return pa.array(values, pa.int32()).cast(arrow)
    if kind is Kind.TIME:
        return pa.array(values, pa.int32()).cast(pa.time32("ms")).cast(arrow)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return pa.array(values, pa.timestamp("us")).cast(arrow)
    return pa.array(values, arrow)


def as_message(rng: random.Random, name: str, column_type: ColumnType, cells: Any) -> Column:
    """Return the message of a column as a script may write it, in one of the forms that
    there are.
    """
    kind, valid = column_type.kind, np.array([cell is not None for cell in cells], bool)
    if column_type.is_array:
        values = list(itertools.chain.from_iterable(cell or [] for cell in cells))
        cell_offsets = np.cumsum([0, *(len(cell or []) for cell in cells)], dtype="<i4")
    else:
        values, cell_offsets = cells, None
    encoded = encode_text(rng, kind, values)
    if encoded is None:
        numbers = np.array([one(rng, column_type) if value is None else value for value in values])
        flat = Cells(numbers.astype(number_type(rng, kind, numbers)), valid, cell_offsets)
    else:
        present = [value if value is not None else b"" for value in encoded]
        value_offsets = np.cumsum([0, *map(len, present)], dtype="<i4")
        flat = Cells(np.frombuffer(b"".join(present), np.uint8), valid, cell_offsets, value_offsets)
    message = fill_column(Column(), name, flat)
    assert (message.type == BYTES) == (encoded is not None)
    return message


def encode_text(rng: Any, kind: Kind, values: list[Any]) -> list[Any] | None:
    """Return the values as bytes; None when they travel as numbers."""
    if kind in (Kind.STRING, Kind.DECIMAL):
        return [value if value is None else value.encode() for value in values]
    if kind is Kind.BYTES:
        return values
    if kind is Kind.DOUBLE and rng.random() < 0.3:
        return [value if value is None else np.array([value], "<f8").tobytes() for value in values]
    if kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) and rng.random() < 0.5:
        unit = {Kind.DATE: "D", Kind.TIME: "ms"}.get(kind, "us")
        texts = [
            value if value is None else str(np.datetime64(value, unit)).encode() for value in values
        ]
        return [text[11:] if text and kind is Kind.TIME else text for text in texts]
    return None


def number_type(rng: Any, kind: Kind, numbers: np.ndarray[Any, Any]) -> Any:
    """Return one of the types that hold the numbers and that the kind may travel as."""
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return rng.choice(["<f4", "<f8"]) if kind is Kind.FLOAT else "<f8"
    wide = ["?"] if kind is Kind.BOOLEAN else []
    for dtype in ("<i1", "<i2", "<i4", "<i8"):
        info = np.iinfo(dtype)
        if not len(numbers) or (info.min <= int(numbers.min()) and int(numbers.max()) <= info.max):
            wide.append(dtype)
    return rng.choice(wide)
