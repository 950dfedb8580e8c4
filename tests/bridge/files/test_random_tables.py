"""Random tables from a file through the codec of scripts to the file of a sink, compared with
pyarrow's own reading.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import random

import pyarrow as pa
import pytest

from akdl.wire import Rows
from bridge.codec.ipc import read_batch, write_batch
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.exceptions import SchemaError
from bridge.files.description import describe
from bridge.files.listing import list_files
from bridge.files.parts import NumberedFiles
from bridge.files.reading import FileParts, FileTable
from bridge.files.writing import PartFiles
from bridge.schema import Schema
from tests.bridge.files.attempts import sink_of, table
from tests.support.random_tables import ENDINGS, TABLES, difference, random_table, write

_OF_ONE_TEST = 20


def read(draw: random.Random, described: FileTable, path: str) -> list[pa.RecordBatch]:
    """Batches of a file, by its parts in one order or another, or by numbers."""
    reader, part_bytes = FileParts(described), draw.choice([1, 100, 1 << 20])
    if draw.random() < 0.5:
        numbered = NumberedFiles(list_files("Source", [path]), draw.choice([64, 1000, 1 << 20]))
        parts_of = functools.cache(lambda path: reader.parts_of(path, part_bytes))
        parts = [
            part for number in range(numbered.count) for part in numbered.parts_at(number, parts_of)
        ]
    else:
        parts = [part for part, _ in reader.parts_of(path, part_bytes)]
    found = {part: list(reader.batches_of(part)) for part in draw.sample(parts, len(parts))}
    return [read_batch(write_batch(batch)) for part in parts for batch in found[part]]


@functools.cache
def schema_of(sql: str) -> Schema | None:
    """Schema of one column of a type that scripts take."""
    with contextlib.suppress(SchemaError):
        return Schema.parse(f"x {sql}")
    return None


def through_a_script(described: FileTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Send the columns that scripts take to one which writes them again."""
    arrays = []
    for column, cells in zip(described.columns, batch.columns):
        schema = schema_of(column.sql)
        if schema is None or (schema.columns[0].type.is_array and cells.flatten().null_count):
            arrays.append(cells)
            continue
        sent = Rows.FromString(to_columns(pa.record_batch([cells], ["x"]), schema))
        (back,) = ColumnDecoder(schema).decode(sent)
        arrays.append(back)
    return pa.record_batch(arrays, batch.schema)


@pytest.mark.parametrize("seed", range(-(-TABLES // _OF_ONE_TEST)))
def test_random_tables_in_files_come_back_unchanged(seed: int, tmp_path: pathlib.Path) -> None:
    for number in range(_OF_ONE_TEST):
        draw = random.Random(f"{seed} {number}")
        ending = draw.choice(ENDINGS)
        path = str(tmp_path / f"{number}.{ending}")
        given = random_table(draw, draw.choice([0, 1, 3, 40, 200]), draw.randrange(1, 8), ending)
        own = write(given, path, draw.choice([1, 7, 100]))
        described = describe("Source", [path])
        batches = read(draw, described, path)
        types = pa.schema(
            [
                pa.field(
                    column.name,
                    pa.timestamp(column.arrow.unit, "UTC")
                    if "_LTZ" in column.sql
                    else column.arrow,
                )
                for column in described.columns
            ]
        )
        files = PartFiles(
            sink_of(f"{tmp_path}/out{number}/", types, draw.choice(["parquet", "feather"])), 0, 1
        )
        files.start(-1)
        for batch in batches:
            files.write(through_a_script(described, batch))
        assert files.end()
        (written,) = (tmp_path / f"out{number}").parent.glob(f"out{number}.*")
        back = table(str(written), files._sink.form)
        assert difference(own, back) is None, (seed, number, ending)
