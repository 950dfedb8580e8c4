"""Random rows of all types that Flink's chunks have, with odd cells."""

from __future__ import annotations

import datetime
import decimal
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_ODD_TEXTS = [
    "",
    "a",
    "b c",
    " x",
    "y\t",
    'q"q',
    "a,b",
    "l\nm",
    "\r",
    "é\u00a0",
    "\u2003z",
    "\x1c",
    "\x85u",
    "1",
    "\ufeff",
    "\\",
    "\x00",
]
_DAYS = (-62135596800, 253402300799)  # the first and the last second that Python has
_EXACT = decimal.Context(prec=60)


def _float(draw: random.Random, form: str) -> float:
    odd = [
        0.0,
        -0.0,
        1.0,
        1e-5,
        1e9,
        1e10,
        123456.0,
        0.1,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e16,
        1e15,
    ]
    bits = {"f": "I", "d": "Q"}[form]
    found = struct.unpack(form, struct.pack(bits, draw.getrandbits(8 * struct.calcsize(bits))))[0]
    return draw.choice(
        [
            found,
            draw.choice(odd),
            draw.uniform(-1e6, 1e6),
            round(draw.uniform(-1e5, 1e5), draw.randint(0, 5)),
            draw.randint(1, 9999) * 10.0 ** draw.randint(-20, 20),
        ]
    )


def _decimal(draw: random.Random) -> decimal.Decimal:
    most = 10 ** draw.randint(1, 37)
    return (
        decimal.Decimal(draw.randint(-most, most))
        .scaleb(-18, _EXACT)
        .quantize(decimal.Decimal("1e-18"), context=_EXACT)
    )


def _time(draw: random.Random, unit: int) -> int:
    return draw.randint(*_DAYS) * unit + draw.choice([0, 1, unit // 2]) % unit


KINDS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.string(): lambda draw: draw.choice(_ODD_TEXTS),
    pa.float32(): lambda draw: _float(draw, "f"),
    pa.float64(): lambda draw: _float(draw, "d"),
    pa.int64(): lambda draw: draw.randint(-(2**63), 2**63 - 1),
    pa.int8(): lambda draw: draw.randint(-128, 127),
    pa.bool_(): lambda draw: draw.random() < 0.5,
    pa.decimal128(38, 18): _decimal,
    pa.date32(): lambda draw: datetime.date.fromordinal(draw.randint(1, 3652059)),
    pa.time32("s"): lambda draw: draw.randrange(86400),
    pa.time32("ms"): lambda draw: draw.choice(
        [draw.randrange(86400) * 1000, draw.randrange(86_400_000)]
    ),
    pa.timestamp("s"): lambda draw: _time(draw, 1),
    pa.timestamp("ms"): lambda draw: _time(draw, 1000),
    pa.timestamp("us"): lambda draw: _time(draw, 1_000_000),
    pa.timestamp("ns"): lambda draw: (
        draw.randint(-9_000_000_000, 9_000_000_000) * 10**9 + draw.choice([0, 1, 1000, 10**8])
    ),
}
NESTED: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.binary(): lambda draw: draw.randbytes(draw.randint(0, 3)),
    pa.timestamp("us", "UTC"): lambda draw: _time(draw, 1_000_000),
    pa.list_(pa.float32()): lambda draw: [
        draw.choice([None, _float(draw, "f")]) for _ in range(draw.randint(0, 3))
    ],
    pa.list_(pa.string()): lambda draw: [
        draw.choice([None, *_ODD_TEXTS]) for _ in range(draw.randint(0, 3))
    ],
    pa.map_(pa.string(), pa.int64()): lambda draw: [
        (key, draw.choice([None, 1])) for key in draw.sample(_ODD_TEXTS, 2)
    ],
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.date32()))]): lambda draw: {
        "a": draw.choice([None, 2]),
        "b": [None],
    },
}


def random_batch(
    draw: random.Random,
    kinds: dict[pa.DataType, Callable[[random.Random], Any]],
    most_rows: int = 8,
) -> pa.RecordBatch:
    """A batch of up to four columns, sometimes a slice of a larger one."""
    rows, columns = draw.randint(0, most_rows), draw.choices(list(kinds), k=draw.randint(1, 4))
    cells = [
        pa.array([None if draw.random() < 0.15 else kinds[kind](draw) for _ in range(rows)], kind)
        for kind in columns
    ]
    batch = pa.record_batch(cells, [f"c{place}" for place in range(len(columns))])
    return batch.slice(1, rows - 2) if rows > 2 and draw.random() < 0.3 else batch
