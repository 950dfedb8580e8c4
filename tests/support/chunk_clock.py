"""The operator RowsToArrow with a clock that a test sets, without a job: when do the rows of a
stream leave?
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyflink.java_gateway import get_gateway

from bridge.flink import arrow_operators
from bridge.flink.arrow_operators import logical_type
from bridge.settings import Gathering
from bridge.workarounds.java_text import java_text

_TEXT = pathlib.Path(__file__).with_name("ChunkClock.java")


class Left(NamedTuple):
    """A chunk that has left.

    Args:
        at_ms: When.
        key: For whom; for a predictor the kind of the element.
        rows: How many rows it has.
    """

    at_ms: int
    key: int
    rows: int


def left(arrivals_ms: Sequence[int], workers: int, gathering: Gathering) -> list[Left]:
    """Return the chunks of rows of one BIGINT that come at these times, for the workers 0, 1, ...
    of a stream; with no workers, for a predictor.
    """
    clock = _compiled(_TEXT.stem, _TEXT.read_text(encoding="utf-8")).newInstance()
    operator = _compiled("RowsToArrow", java_text("bridge.flink", "ChunkOperator", "RowsToArrow"))
    row_type = logical_type("ROW<id BIGINT NOT NULL>")
    keys = arrow_operators._longs(range(workers)) if workers else None
    arrivals = arrow_operators._longs(arrivals_ms)
    wait_ms = int(gathering.wait_s * 1000)
    found = clock.run(operator, row_type, keys, gathering.rows, gathering.bytes, wait_ms, arrivals)
    return [Left(*chunk) for chunk in found]


@functools.cache
def _compiled(name: str, text: str) -> Any:
    jvm = get_gateway().jvm
    compiler = jvm.org.apache.flink.table.runtime.generated.CompileUtils
    return compiler.compile(jvm.Thread.currentThread().getContextClassLoader(), name, text)
