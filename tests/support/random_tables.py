"""Random Arrow tables of all types that files may have and Flink can store.

Tests try some dozens; AKDL_TEST_TABLES=10000 tries as many, and jobs of Flink some of them.
"""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.orc as po
import pyarrow.parquet as pq

TABLES = int(os.environ.get("AKDL_TEST_TABLES", "60"))
ENDINGS = ["parquet", "orc", "feather", "arrows"]


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
    pa.float32(): lambda draw: draw.choice(
        [0.5, -0.0, float("inf"), 2.0**-140, draw.randrange(1000) / 8]
    ),
    pa.float64(): lambda draw: draw.choice(
        [0.1, float("nan"), float("-inf"), 1e308, draw.gauss(0, 1e9)]
    ),
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
    pa.timestamp("us", "Europe/Rome"): lambda draw: (
        _SECONDS(draw) * 1_000_000 + draw.randrange(1_000_000)
    ),
    pa.decimal128(10, 2): lambda draw: Decimal(_whole(33)(draw)).scaleb(-2),
    pa.decimal128(38, 0): lambda draw: Decimal(_whole(120)(draw)),
}
CELLS |= {
    pa.float16(): lambda draw: np.float16(
        draw.choice([0.5, -0.0, float("nan"), draw.randrange(1000)])
    ),
    pa.large_binary(): CELLS[pa.binary()],
    pa.date64(): lambda draw: draw.randrange(-700_000, 2_900_000) * 86_400_000,
    pa.time32("s"): lambda draw: draw.randrange(86_400),
    pa.time64("us"): lambda draw: draw.randrange(86_400_000) * 1000,
    pa.time64("ns"): lambda draw: draw.randrange(86_400_000) * 1_000_000,
    pa.timestamp("ns", "UTC"): CELLS[pa.timestamp("ns")],
    pa.timestamp("s", "America/New_York"): _SECONDS,
    pa.decimal256(30, 4): lambda draw: Decimal(_whole(90)(draw)).scaleb(-4),
    pa.decimal128(5, -2): lambda draw: Decimal(draw.randrange(-9999, 10_000)).scaleb(2),
}
_ONLY_ARROW = {pa.decimal128(5, -2), pa.date64()}  # Parquet would store them in another type
_IN_ORC = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
    pa.timestamp("ns"), pa.decimal128(10, 2), pa.decimal128(38, 0),
}  # fmt: skip


def _leaves(format_: str) -> list[pa.DataType]:
    known = {"orc": _IN_ORC, "parquet": CELLS.keys() - _ONLY_ARROW}.get(format_, CELLS.keys())
    return sorted(known, key=str)


def random_type(
    draw: random.Random, format_: str, depth: int = 2, is_inner: bool = False
) -> pa.DataType:
    """Type that a format can store; Flink has no lists of instants."""
    if not depth or draw.random() < 0.6:
        leaf = draw.choice(_leaves(format_))
        return (
            leaf
            if not is_inner or not pa.types.is_timestamp(leaf) or leaf.tz is None
            else pa.int64()
        )
    one, other = (random_type(draw, format_, depth - 1, True) for _ in range(2))
    made = [
        pa.list_(one),
        pa.struct({"a": one, "b c": other}),
        pa.map_(draw.choice([pa.string(), pa.int32()]), one),
    ]
    if format_ != "orc":
        # pyarrow 16 cannot read its own Parquet files with nulls among lists of a fixed size.
        made += [
            pa.large_list(one),
            *([] if format_ == "parquet" else [pa.list_(one, draw.randrange(1, 4))]),
        ]
        made += [pa.dictionary(pa.int8(), draw.choice([pa.string(), pa.int64(), pa.binary()]))] * (
            not is_inner
        )
    return draw.choice(made)


def _cell(draw: random.Random, type_: pa.DataType, nulls: float) -> Any:
    if draw.random() < nulls:
        return None
    if type_ in CELLS:
        return CELLS[type_](draw)
    if pa.types.is_dictionary(type_):
        return _cell(draw, type_.value_type, 0)
    if pa.types.is_struct(type_):
        return {field.name: _cell(draw, field.type, nulls) for field in type_}
    if pa.types.is_map(type_):
        keys = draw.sample("abcd" if type_.key_type == pa.string() else range(9), draw.randrange(4))
        return [(key, _cell(draw, type_.item_type, nulls)) for key in keys]
    size = type_.list_size if pa.types.is_fixed_size_list(type_) else draw.randrange(4)
    return [_cell(draw, type_.value_type, nulls) for _ in range(size)]


def random_array(draw: random.Random, type_: pa.DataType, rows: int) -> pa.Array:
    nulls = draw.choice([0, 0, 0.3, 1])
    return pa.array([_cell(draw, type_, nulls) for _ in range(rows)], type_)


def random_table(
    draw: random.Random, rows: int, columns: int, format_: str = "parquet"
) -> pa.Table:
    """Table of random types that a format can store."""
    return pa.table(
        {
            f"c{number}": random_array(draw, random_type(draw, format_), rows)
            for number in range(columns)
        }
    )


def write(given: pa.Table, path: str, rows: int) -> pa.Table:
    """Write a file in groups of rows, and return what pyarrow reads from it."""
    if path.endswith(".orc"):
        po.write_table(given, path, stripe_size=1024, batch_size=rows)
        return po.read_table(path)
    if path.endswith(".parquet"):
        pq.write_table(given, path, row_group_size=rows)
        return pq.read_table(path)
    is_stream = path.endswith(".arrows")
    with (ipc.new_stream if is_stream else ipc.new_file)(path, given.schema) as writer:
        writer.write_table(given, max_chunksize=rows)
    return (ipc.open_stream if is_stream else ipc.open_file)(pa.OSFile(path)).read_all()


def difference(expected: pa.Table, found: pa.Table) -> str | None:
    """The first cell that differs as a Python value, whatever its Arrow type."""
    if expected.column_names != found.column_names or len(expected) != len(found):
        return (
            f"{len(expected)} rows of {expected.column_names}, {len(found)} of {found.column_names}"
        )
    for name in expected.column_names:
        for row, pair in enumerate(zip(expected[name].to_pylist(), found[name].to_pylist())):
            if not same(*pair):
                return f"row {row} of {expected.schema.field(name)}, {found.schema.field(name)}: {pair}"
    return None


def same(left: Any, right: Any) -> bool:
    """Compare cells as Python values, whatever their Arrow types: also the sign of zero, and NaN
    with itself.
    """
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, (float, np.floating)) and isinstance(right, (float, np.floating)):
        return repr(float(left)) == repr(float(right))
    return (left is None) == (right is None) and bool(_in_utc(left) == _in_utc(right))


def _in_utc(cell: Any) -> Any:
    aware = isinstance(cell, datetime.datetime) and cell.tzinfo is not None
    return cell.astimezone(datetime.timezone.utc).replace(tzinfo=None) if aware else cell
