"""Alink's .ak files: rows and their schema in one zip file. Pure, apart from the file itself.

`akdl/storage/ak_records.py` has the form of the file. A row begins with one null bit per column,
most significant bit first; the other cells follow.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import IO, Any

from akdl.storage.ak_records import LONG, MAGIC, META, PIECE_BYTES, Record, entries, records
from akdl.storage.archive import ArchiveError, Counter, Limits, check_directory, damage_is_named
from akdl.wire.column_type import Kind, parse_type
from bridge.exceptions import ConfigurationError, SchemaError, refused_at
from bridge.schema import Column, Schema
from operators.alink.ak_cells import UNREADABLE, Reader, cell_reader, cell_writer, read_dense_vector
from operators.alink.java_times import JavaClock

_DATA = "data"
_MOST_BYTES = 2**31 - 1
# Rows are kept in memory, unlike the content of archives, so the limit is lower than the one for
# them, see `Limits`.
_FREE_BYTES = 256 << 20
# This is an estimate of the memory for the Python object of a cell. It counts against the limit,
# since small cells take more room in memory than in the file.
_CELL_BYTES = 40

# Alink reads the types in a file by these names. TIMESTAMP_LTZ has no name among them.
_NAMES: dict[Kind, str] = {
    **{kind: kind.value for kind in Kind if kind is not Kind.TIMESTAMP_LTZ},
    Kind.BYTES: "VARBINARY",
}
# Files do not store the precision of a type, so a column gets the largest one that its cells may
# need.
_LARGEST = {Kind.DECIMAL: "DECIMAL(38, 18)", Kind.TIME: "TIME(3)", Kind.TIMESTAMP: "TIMESTAMP(6)"}
_DENSE_VECTOR = "DENSE_VECTOR"
# Commas inside of brackets belong to a type, as in DECIMAL(38, 18), and separate no columns.
_COMMA = re.compile(r",(?![^<(]*[>)])")
# The schema of a file is one text without quotes, so names with these characters could not be read
# again.
_UNNAMEABLE = re.compile(r"[\s,()<>`]")
_FAMILY = re.compile(r"(VECTOR|TENSOR|MTABLE)$")


def read_schema(path: str) -> Schema:
    return _read_meta(path)[0]


def read_rows(path: str, zone: tzinfo | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a file whose writer had the time zone `zone`, by default that of this
    program.
    """
    schema, vectors = _read_meta(path)
    clock = JavaClock(zone)
    readers = [
        read_dense_vector if column.name in vectors else cell_reader(column.type.kind, clock)
        for column in schema
    ]
    with refused_at(path, ArchiveError), damage_is_named(), zipfile.ZipFile(path) as file:
        limits = Limits.of(os.environ)._replace(free_bytes=_FREE_BYTES)
        counter = Counter(limits, os.path.getsize(path))
        check_directory(file)
        for name in entries(file):
            with file.open(name) as data:
                for number, record in enumerate(records(data, name, counter)):
                    counter.add_bytes(_CELL_BYTES * (1 + len(readers)))
                    yield _row(f"{path}: row {number} of {name}", schema, readers, record)


class AkWriter:
    """Writes rows into a file for readers in the time zone `zone`, by default that of this
    program.
    """

    def __init__(self, file: IO[bytes], schema: Schema, zone: tzinfo | None = None) -> None:
        for column in schema:
            if column.type.is_array or column.type.kind not in _NAMES:
                raise ConfigurationError(
                    f"an .ak file: column {column.name!r} has the type {column.type.sql}, which .ak"
                    " files do not support: CAST it to STRING, or convert an ARRAY with toVector"
                )
            if not column.name or _UNNAMEABLE.search(column.name):
                raise ConfigurationError(
                    f"an .ak file: column {column.name!r}: names in .ak files cannot contain"
                    " spaces, commas, brackets or back-quotes: rename the column with alias"
                )
        self._schema = schema
        clock = JavaClock(zone)
        self._writers = [cell_writer(column.type.kind, clock) for column in schema]
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        columns = ",".join(f"{column.name} {_NAMES[column.type.kind]}" for column in schema)
        meta = {"fileFormat": "binary", "schemaStr": columns, "numFiles": 1, "version": "v0.1"}
        self._zip.writestr(META, json.dumps(meta, separators=(",", ":")))
        # The size is not known yet, and `zipfile` otherwise fails when it passes 2 GB.
        self._data = self._zip.open(_DATA, "w", force_zip64=True)
        self._data.write(MAGIC)
        self._rows = 0

    def write(self, row: Sequence[object]) -> None:
        """Write a row; one of more than 2 GB, or with a time that the zone skips, is refused."""
        # The null bits of a row fill whole bytes from the most significant bit on, and the spare
        # bits at the end are 0.
        mask = 0
        for cell in row:
            mask = mask << 1 | (cell is None)
        spare = -len(row) % 8
        parts = [(mask << spare).to_bytes((len(row) + spare) // 8, "big")]
        for column, write, cell in zip(self._schema, self._writers, row):
            if cell is not None:
                try:
                    parts.append(write(cell))
                except ValueError as error:
                    raise ConfigurationError(
                        f"an .ak file: row {self._rows}, column {column.name!r}: {error}: CAST the"
                        " column to STRING, or set timeZone to a zone without summer time, such"
                        " as UTC"
                    ) from None
        record = b"".join(parts)
        if len(record) > _MOST_BYTES:
            raise ConfigurationError(
                f"an .ak file: row {self._rows} has {len(record)} bytes; at most {_MOST_BYTES} are"
                " supported"
            )
        # Three bytes hold the length of a record. The largest value of these bytes says that four
        # more bytes with the length follow.
        short = len(record) < LONG
        length = (
            len(record).to_bytes(3, "big")
            if short
            else LONG.to_bytes(3, "big") + len(record).to_bytes(4, "big")
        )
        self._data.write(length + record)
        self._rows += 1

    def close(self) -> None:
        self._data.close()
        self._zip.close()


def _read_meta(path: str) -> tuple[Schema, frozenset[str]]:
    """Read the schema in a file, and the names of its columns of dense vectors."""
    damages = OSError, KeyError, ValueError, TypeError
    with refused_at(path, SchemaError), refused_at(f"{path} is not an .ak file", *damages):
        with damage_is_named(), zipfile.ZipFile(path) as file, file.open(META) as content:
            text = json.loads(content.read(PIECE_BYTES))["schemaStr"]
        parts = [part.strip().split(None, 1) for part in _COMMA.split(text)]
        columns = [_column(path, name, type_text.strip()) for name, type_text in parts]
        vectors = {name for name, type_text in parts if type_text.upper().endswith(_DENSE_VECTOR)}
        return Schema(tuple(columns)), frozenset(vectors)


def _column(path: str, name: str, text: str) -> Column:
    if text.upper().endswith(_DENSE_VECTOR):
        return Column(name, parse_type("STRING"))
    family = _FAMILY.search(text.upper())
    parsed = None
    if family is None:
        remedy = "without the column, or as text"
        with suppress(ValueError):
            parsed = parse_type(text)
    else:
        kind = "MTable" if family[0] == "MTABLE" else family[0].title()
        remedy = f"after {kind}SerializeBatchOp, which converts the cells to text"
    if parsed is None or parsed.is_array or parsed.kind not in _NAMES:
        raise ConfigurationError(
            f"{path}: column {name!r} has the type {text}, which only Java can read: write the file"
            f" in Alink {remedy}"
        )
    return Column(name, parse_type(_LARGEST.get(parsed.kind, parsed.sql)))


def _row(where: str, schema: Schema, readers: Sequence[Reader], record: Record) -> tuple[Any, ...]:
    """Read the cells of a record.

    Bytes that are left mean that the file is damaged.
    """
    place = (len(readers) + 7) // 8
    mask = int.from_bytes(record[:place], "big") >> (place * 8 - len(readers))
    cells: list[Any] = []
    for number, (column, read) in enumerate(zip(schema, readers)):
        if mask >> (len(readers) - 1 - number) & 1:
            cells.append(None)
            continue
        try:
            cell, place = read(record, place)
        except UNREADABLE as error:
            raise ConfigurationError(
                f"{where}, column {column.name!r}: the cell cannot be read: {error}"
            ) from None
        cells.append(cell)
    if place != len(record):
        raise ConfigurationError(f"{where} is damaged: expected {place} bytes, got {len(record)}")
    return tuple(cells)
