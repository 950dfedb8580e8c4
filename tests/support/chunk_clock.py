"""The operator RowsToArrow with a clock that a test sets, without a job: when do the rows of a
stream leave?
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import to_jarray

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
    jvm = get_gateway().jvm
    clock = _compiled(_TEXT.stem, _TEXT.read_text(encoding="utf-8")).newInstance()
    kind = _compiled("RowsToArrow", java_text("bridge.flink", "ChunkOperator", "RowsToArrow"))
    row_type = logical_type("ROW<id BIGINT NOT NULL>")
    utils = jvm.org.apache.flink.table.runtime.arrow.ArrowUtils
    allocator = utils.getRootAllocator().newChildAllocator("akdl", 0, 2**63 - 1)
    # Its constructor and `open` ask a task for much that is of no account here.
    unsafe = _field(jvm.Class.forName("sun.misc.Unsafe"), "theUnsafe").get(None)
    operator = unsafe.allocateInstance(kind)
    constructor = kind.getClassLoader().loadClass("RowsToArrow$Chunk").getDeclaredConstructors()[0]
    constructor.setAccessible(True)
    chunk = constructor.newInstance(to_jarray(jvm.Object, [row_type, allocator]))
    chunks = jvm.java.lang.reflect.Array.newInstance(chunk.getClass(), 1)
    chunks[0] = chunk
    counter = jvm.org.apache.flink.metrics.SimpleCounter
    values = {
        "type": row_type,
        "keys": arrow_operators._longs(range(workers)) if workers else None,
        "sendsAllOut": not workers,
        "mostRows": gathering.rows,
        "mostBytes": gathering.bytes,
        "waitMs": gathering.wait_ms,
        "chunks": chunks,
        "hasSentStart": True,
        "out": jvm.org.apache.flink.streaming.runtime.streamrecord.StreamRecord(None),
        "bytes": jvm.java.io.ByteArrayOutputStream(),
        "rowsDone": clock.rowsDone(),
        "bytesDone": counter(),
        "waitedMs": counter(),
        "output": clock.proxy(),
        "processingTimeService": clock.proxy(),
    }
    for name, value in values.items():
        _field(kind, name).set(operator, value)
    try:
        found = clock.run(operator, arrow_operators._longs(arrivals_ms))
    finally:
        operator.release()
        allocator.close()
    return [Left(*chunk) for chunk in found]


def _field(kind: Any, name: str) -> Any:
    """Return a field of a Java class, or of one that it extends, to be set and read."""
    while all(each.getName() != name for each in kind.getDeclaredFields()):
        kind = kind.getSuperclass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field


@functools.cache
def _compiled(name: str, text: str) -> Any:
    jvm = get_gateway().jvm
    compiler = jvm.org.apache.flink.table.runtime.generated.CompileUtils
    return compiler.compile(jvm.Thread.currentThread().getContextClassLoader(), name, text)
