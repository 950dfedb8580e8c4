"""Batches as streams of bytes."""

from __future__ import annotations

import pyarrow as pa

from bridge.codec.ipc import arrow_schema, read_batch, write_batch, write_parts
from bridge.schema import Schema

SCHEMA = arrow_schema(Schema.parse("`größe` BIGINT NOT NULL, s STRING, a ARRAY<FLOAT>"))
BATCH = pa.record_batch(
    [pa.array([1, 2, 3]), pa.array(["a", None, ""]), pa.array([[0.5], None, []], SCHEMA.types[2])],
    SCHEMA,
)


def test_arrow_schema_has_the_types_and_nullability_of_the_columns() -> None:
    assert SCHEMA == pa.schema(
        [
            pa.field("größe", pa.int64(), nullable=False),
            pa.field("s", pa.string()),
            pa.field("a", pa.list_(pa.field("element", pa.float32()))),
        ]
    )


def test_record_batches_and_slices_are_read_as_written() -> None:
    for batch in (BATCH, BATCH.slice(1, 2), BATCH.slice(0, 0)):
        data = write_batch(batch)
        assert type(data) is bytes
        assert read_batch(data).equals(batch)


def test_pyarrow_reads_what_write_batch_writes() -> None:
    with pa.ipc.open_stream(write_batch(BATCH)) as reader:
        assert reader.schema == SCHEMA
        assert [batch.equals(BATCH) for batch in reader] == [True]


def test_read_batch_accepts_a_stream_without_an_end() -> None:
    assert read_batch(write_batch(BATCH)[:-8]).equals(BATCH)


def test_write_parts_gives_the_bytes_of_write_batch_in_parts() -> None:
    whole = write_batch(BATCH)
    assert list(write_parts(BATCH, 10_000)) == [whole]
    parts = list(write_parts(BATCH, 100))
    assert b"".join(parts) == whole and len(parts) > 3
    assert max(map(len, parts[1:])) <= 100


def test_read_batch_copies_no_buffers() -> None:
    data = write_batch(BATCH)
    start = pa.py_buffer(data).address
    assert start < read_batch(data).column(0).buffers()[1].address < start + len(data)
