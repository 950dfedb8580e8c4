"""Record batches to and from the bytes of Flink's ArrowSerializer: a stream of one batch. Pure.

This is the form of a chunk between the JVM and Python. Flink's own Arrow in Java reads and writes
it in `RowsToArrow.java` and `ArrowToRows.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from bridge.codec.types import arrow_type
from bridge.schema import Schema

# This closes CVE-2023-47248 in the pyarrow 11 of Flink 1.20. Newer pyarrows need no such package.
with suppress(ImportError):
    import pyarrow_hotfix  # noqa: F401

# The end mark of an Arrow stream: a continuation and a length of 0.
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def read_batch(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """Batch of a stream; its arrays are views of `data`."""
    return pa.ipc.open_stream(data).read_next_batch()


def write_batch(batch: pa.RecordBatch) -> bytes:
    (whole,) = write_parts(batch)
    return whole


def write_parts(batch: pa.RecordBatch, size: int | None = None) -> Iterator[bytes]:
    """Yield a stream of one batch in parts of about `size` bytes, or in one part without a size.

    The batch is not held once the first part is out, as it may have a hundred megabytes.
    """
    # `serialize` allocates once, as much as it takes. A stream's buffer grows, and is copied again
    # and again.
    head = batch.schema.serialize()
    body = batch.serialize()
    del batch
    if size is None or len(body) <= size:
        yield b"".join([head, body, _END])
        return
    yield head.to_pybytes()
    for start in range(0, len(body), size):
        yield body.slice(start, min(size, len(body) - start)).to_pybytes()
    yield _END


def selected(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Some columns of a batch; the pyarrow 11 of Flink 1.20 has no `RecordBatch.select`."""
    return pa.record_batch(
        [batch.column(batch.schema.get_field_index(name)) for name in names],
        schema=pa.schema([batch.schema.field(name) for name in names]),
    )


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow schema that Flink's ArrowSerializer uses for rows of these columns."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type), column.type.nullable) for column in schema]
    )
