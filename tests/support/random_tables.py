"""Random Arrow tables of all types that files may have and Flink can store."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa


def _text(draw: random.Random) -> str:
    return "".join(draw.choices("ab ,'\"\\\n\t äß漢", k=draw.randrange(8)))


def _whole(bits: int, signed: bool = True) -> Callable[[random.Random], int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return lambda draw: draw.choice([low, low + 2**bits - 1, 0, draw.randrange(low, low + 2**bits)])


_SECONDS = _whole(36)  # about a thousand years around 1970
CELLS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.bool_(): lambda draw: draw.random() < 0.5,
    **{getattr(pa, f"int{bits}")(): _whole(bits) for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): _whole(bits, False) for bits in (8, 16, 32, 64)},
    pa.float32(): lambda draw: draw.choice([0.5, -0.0, float("inf"), 2.0**-140, draw.randrange(1000) / 8]),
    pa.float64(): lambda draw: draw.choice([0.1, float("-inf"), 1e308, draw.gauss(0, 1e9)]),
    pa.string(): _text,
    pa.large_string(): _text,
    pa.binary(): lambda draw: draw.randbytes(draw.randrange(5)),
    pa.binary(3): lambda draw: draw.randbytes(3),
    pa.date32(): lambda draw: draw.randrange(-700_000, 2_900_000),
    pa.time32("ms"): lambda draw: draw.randrange(86_400_000),
    pa.timestamp("s"): _SECONDS,
    pa.timestamp("ms"): lambda draw: _SECONDS(draw) * 1000 + draw.randrange(1000),
    pa.timestamp("us"): lambda draw: _SECONDS(draw) * 1_000_000 + draw.randrange(1_000_000),
    pa.timestamp("ns"): lambda draw: draw.randrange(-(2**62), 2**62) // 1000 * 1000,
    pa.timestamp("us", "Europe/Rome"): lambda draw: _SECONDS(draw) * 1_000_000 + draw.randrange(1_000_000),
    pa.decimal128(10, 2): lambda draw: Decimal(_whole(33)(draw)).scaleb(-2),
    pa.decimal128(38, 0): lambda draw: Decimal(_whole(120)(draw)),
}
_IN_ORC = {type_ for type_ in CELLS if not pa.types.is_unsigned_integer(type_) and not pa.types.is_time(type_)} - {
    pa.binary(3), pa.large_string(), *(pa.timestamp(unit) for unit in ("s", "ms", "us")), pa.timestamp("us", "Europe/Rome"),
}  # fmt: skip


def random_array(draw: random.Random, type_: pa.DataType, rows: int) -> pa.Array:
    nulls = draw.choice([0, 0, 0.3, 1])
    return pa.array([None if draw.random() < nulls else CELLS[type_](draw) for _ in range(rows)], type_)


def random_table(draw: random.Random, rows: int, columns: int, format_: str = "parquet") -> pa.Table:
    """Table of random types that a format can store."""
    types = sorted(_IN_ORC if format_ == "orc" else CELLS, key=str)
    made = {}
    for number in range(columns):
        type_ = draw.choice(types)
        cells, form = random_array(draw, type_, rows), draw.random()
        if form < 0.15 and not (pa.types.is_timestamp(type_) and type_.tz):
            size = draw.randrange(1, 4)
            inner = random_array(draw, type_, rows * size)
            cells = pa.ListArray.from_arrays(pa.array(range(0, rows * size + 1, size), pa.int32()), inner)
        elif form < 0.2:
            inner = {"a": random_array(draw, pa.int32(), rows), "b c": random_array(draw, pa.string(), rows)}
            cells = pa.StructArray.from_arrays(list(inner.values()), list(inner))
        elif form < 0.3 and type_ == pa.string() and format_ != "orc":
            cells = cells.dictionary_encode()
        made[f"c{number}"] = cells
    return pa.table(made)
