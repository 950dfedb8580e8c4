"""Damaged bytes, by seeds: the same number always makes the same case, so a failure can be repeated
alone.

`AKDL_FUZZ_CASES` sets how many cases each test tries; `make fuzz` tries 100,000. `AKDL_FUZZ_FIRST`
is the number of the first.
"""

from __future__ import annotations

import collections
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.deadline import SLOWER

CASES = int(os.environ.get("AKDL_FUZZ_CASES", "0"))
FIRST = int(os.environ.get("AKDL_FUZZ_FIRST", "0"))
_HANG_S = int(60 * SLOWER)  # a case takes milliseconds
_EDGES = [
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff" * 4,
    b"\0" * 4,
    b"\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 9 + b"\1",
]
_NUMBERS = [0, 1, 2, 7, 255, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, -1, -(2**31), -(2**63)]


def cases(few: int = 150, kinds: int = 1) -> Iterator[random.Random]:
    """Yield a source of random numbers for each case; a case that hangs is named.

    Args:
        few: How many, if the environment does not say.
        kinds: Among how many kinds of one thing the environment's number is divided.
    """
    for number in range(FIRST, FIRST + (-(-CASES // kinds) or few)):
        with _named(number):
            yield random.Random(number)


@contextmanager
def _named(number: int) -> Iterator[None]:
    def give_up(signal_number: int, frame: Any) -> None:
        raise AssertionError(f"case {number} hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few faults: flipped, cut, doubled, left out, or replaced by what is at
    the edge of numbers.
    """
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        if not found:
            return rng.randbytes(rng.randrange(1, 20))
        start = rng.randrange(len(found))
        end = min(len(found), start + rng.choice([1, 1, 2, 4, 8, 64, 4096]))
        kind = rng.randrange(7)
        if kind == 0:
            found[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[start] = rng.randrange(256)
        elif kind == 2:
            del found[start:end]
        elif kind == 3:
            found[start:start] = found[start:end]
        elif kind == 4:
            del found[start:]
        elif kind == 5:
            edge = rng.choice(_EDGES)
            found[start : start + len(edge)] = edge
        else:
            found[start:start] = rng.randbytes(rng.randrange(1, 20))
    return bytes(found)


def damaged_json(rng: random.Random, value: Any) -> Any:
    """Return a value of JSON in which one thing is of another type, of an odd size, missing or
    nested deeply.
    """
    if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        place = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if rng.random() < 0.15:
            return (
                {key: each for key, each in value.items() if key != place}
                if isinstance(value, dict)
                else value[:place]
            )
        changed = damaged_json(rng, value[place])
        if isinstance(value, dict):
            return {**value, place: changed}
        return [changed if number == place else each for number, each in enumerate(value)]
    deep: Any = []
    for _ in range(rng.choice([3, 400])):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return rng.choice(
        [
            None,
            True,
            -1,
            0,
            2**64,
            10**400,
            1.5,
            1e308,
            float("nan"),
            float("-inf"),
            "",
            "x",
            "\0",
            "9",
            [],
            {},
            [1],
            deep,
        ]
    )


def damage_message(rng: random.Random, message: Any) -> None:
    """Change one field of a protobuf message, or of a message in it: it still can be parsed, and
    what it says is wrong.
    """
    descriptor = rng.choice(message.DESCRIPTOR.fields)
    repeated = descriptor.label == descriptor.LABEL_REPEATED
    if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        getattr(message, descriptor.name).clear()
        return
    values = getattr(message, descriptor.name)
    if descriptor.type == descriptor.TYPE_MESSAGE:
        if repeated:
            _damage_list(rng, values, message, descriptor.name)
        elif message.HasField(descriptor.name) and rng.random() < 0.8:
            damage_message(rng, values)
        else:
            message.ClearField(descriptor.name)
        return
    if repeated:
        if len(values) and rng.random() < 0.5:
            del values[rng.randrange(len(values))]
        else:
            values.append(_value(rng, descriptor, None))
        return
    setattr(message, descriptor.name, _value(rng, descriptor, values))


def outcomes() -> collections.Counter[str]:
    """Return a counter of how cases ended."""
    return collections.Counter()


def _damage_list(rng: random.Random, values: Any, message: Any, name: str) -> None:
    kind = rng.randrange(6)
    if not len(values) or kind == 0:
        values.add()
    elif kind == 1:
        del values[rng.randrange(len(values))]
    elif kind == 2:
        values.add().CopyFrom(rng.choice(values))
    else:
        damage_message(rng, rng.choice(values))


def _value(rng: random.Random, descriptor: Any, before: Any) -> Any:
    if descriptor.type == descriptor.TYPE_BYTES:
        return damaged(rng, before or b"")
    if descriptor.type == descriptor.TYPE_STRING:
        return damaged(rng, (before or "").encode()).decode("utf-8", "replace")
    if descriptor.type == descriptor.TYPE_BOOL:
        return not before
    if descriptor.type in (descriptor.TYPE_DOUBLE, descriptor.TYPE_FLOAT):
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e300])
    if descriptor.type == descriptor.TYPE_ENUM:
        return rng.choice([0, 1, 3, 7, 99, -1])
    fits = {
        descriptor.TYPE_UINT32: (0, 2**32 - 1), descriptor.TYPE_FIXED32: (0, 2**32 - 1), descriptor.TYPE_UINT64: (0, 2**64 - 1),
        descriptor.TYPE_INT32: (-(2**31), 2**31 - 1), descriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    }  # fmt: skip
    low, high = fits[descriptor.type]
    return rng.choice([number for number in _NUMBERS if low <= number <= high])
