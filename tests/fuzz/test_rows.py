"""Damaged messages of rows, in both directions and at a model process: an error of ours, or whole
rows, never fewer.
"""

from __future__ import annotations

import pathlib
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from akdl.process.channel import ChannelError
from akdl.rows.batches import RowBatches
from akdl.rows.examples import ExampleEncoder
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.wire import Chunk, Rows, TableColumn
from akdl.wire.columns import decode_columns
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import RowError
from bridge.schema import Schema
from tests.bridge.codec.random_cells import EVERY_TYPE, SCHEMA, as_message, random_cells
from tests.support.fuzzing import cases, damage_message, damaged, outcomes
from tests.support.random_rows import TYPES, chunk_of, ended
from tests.support.random_rows import random_cells as plain_cells

COLUMNS = [TableColumn(name=name, type=sql) for name, sql in TYPES.items()]


def some_rows(rng: random.Random) -> tuple[Rows, Schema]:
    """Return rows of a few columns of any type."""
    names = rng.sample(EVERY_TYPE, 3)
    schema = Schema(tuple(column for column in SCHEMA if column.name in names))
    size = rng.randrange(6)
    columns = [
        as_message(rng, column.name, column.type, random_cells(rng, column.type, size))
        for column in schema
    ]
    return Rows(rows=size, columns=columns), schema


def spoilt(rng: random.Random, message: Rows) -> Rows | None:
    """Return damaged rows; None where protobuf itself refuses them, as gRPC does then."""
    if rng.random() < 0.5:
        damage_message(rng, message)
        return message
    try:
        return Rows.FromString(damaged(rng, message.SerializeToString()))
    except DecodeError:
        return None


@pytest.mark.fault("data", "Damaged rows of a script are an error that names column and row")
def test_damaged_rows_of_a_script_are_refused_or_decoded() -> None:
    found = outcomes()
    for rng in cases():
        rows, schema = some_rows(rng)
        message = spoilt(rng, rows)
        if message is None or message.rows > 100_000:  # the last are many rows of nulls
            found["no message"] += 1
            continue
        try:
            arrays = ColumnDecoder(schema).decode(message)
        except RowError:
            found["refused"] += 1
            continue
        for array in arrays:
            array.validate(full=True)
            assert len(array) == message.rows
        pa.record_batch(arrays, names=schema.names)
        found["rows"] += 1
    assert found["refused"] > found.total() / 5, found


@pytest.mark.parametrize("read", ["batches", "examples", "cells"])
@pytest.mark.fault(
    "data", "Damaged rows on their way to a process are an error that names the column"
)
def test_damaged_rows_to_a_process_are_refused_or_read(read: str) -> None:
    found = outcomes()
    for rng in cases():
        random_state = np.random.RandomState(rng.getrandbits(31))
        names = rng.sample(sorted(TYPES), 3)
        types = {name: TYPES[name] for name in names}
        columns = [TableColumn(name=name, type=sql) for name, sql in types.items()]
        size = rng.randrange(1, 6)
        message = spoilt(
            rng,
            Rows.FromString(chunk_of(plain_cells(types, size, 0.2, random_state), types).columns),
        )
        if message is None or message.rows > 100_000:
            found["no message"] += 1
            continue
        try:
            read_all(read, message, columns)
            found["rows"] += 1
        except ValueError:
            found["refused"] += 1
    assert found["refused"] > found.total() / 5, found


def read_all(read: str, message: Rows, columns: list[TableColumn]) -> None:
    if read == "batches":
        batches = RowBatches(
            columns, defaults={column.name: default_of(column.type) for column in columns}
        )
        assert [table.rows for table in batches.tables([message])] == [message.rows]
    elif read == "examples":
        ExampleEncoder(columns).frames(message)
    else:
        for cells in decode_columns(message, columns).values():
            assert len(cells) == message.rows


def default_of(sql: str) -> Any:
    return "" if any(name in sql for name in ("STRING", "BYTES", "DECIMAL")) else 0


@pytest.mark.parametrize("kind", ["table", "stream"])
@pytest.mark.fault(
    "data", "Chunks that are lost, doubled, damaged or reordered are an error, never fewer rows"
)
def test_a_damaged_stream_of_chunks_is_an_error_or_whole(kind: str, tmp_path: pathlib.Path) -> None:
    types = {"a": "BIGINT", "b": "STRING"}
    columns = [TableColumn(name=name, type=sql) for name, sql in types.items()]
    found = outcomes()
    TYPES_OF = {"a": TYPES["C4"], "b": TYPES["C11"]}
    whole = [
        chunk_of(plain_cells(TYPES_OF, rows, 0.0, np.random.RandomState(rows)), TYPES_OF)
        for rows in (3, 1, 4)
    ]
    sent = ended(whole)
    contents = [chunk.columns for chunk in whole]
    for number, rng in enumerate(cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows: Any = (
            StreamRows(str(folder), spoilt_stream(rng, sent), columns) if kind == "stream" else None
        )
        rows = rows or FileRows(str(folder), spoilt_stream(rng, sent), columns)
        try:
            got = [each.SerializeToString(deterministic=True) for each in rows.columns()]
        except (ChannelError, DecodeError):
            found["refused"] += 1
            continue
        assert got == [
            Rows.FromString(each).SerializeToString(deterministic=True) for each in contents
        ]
        found["whole"] += 1
    assert found["refused"] > found.total() / 2, found


def spoilt_stream(rng: random.Random, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks of which some are lost, doubled, in another order, or damaged; the last may be
    missing.
    """
    found = list(chunks)
    kind = rng.randrange(5)
    place = rng.randrange(len(found))
    if kind == 0:
        del found[place]
    elif kind == 1:
        found.insert(rng.randrange(len(found)), found[place])
    elif kind == 2:
        rng.shuffle(found)
    else:
        spoilt_chunk = Chunk.FromString(found[place].SerializeToString())
        if kind == 3:
            damage_message(rng, spoilt_chunk)
        else:
            spoilt_chunk.columns = damaged(rng, spoilt_chunk.columns)
        found[place] = spoilt_chunk
    return found
