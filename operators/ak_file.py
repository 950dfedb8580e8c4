"""Alink's .ak files: rows with their schema in one zip file. Pure, but for the file itself.

`alink_meta.json` holds the schema. The other entry holds "ALK" and then, for each row, its length in three bytes and the row as
Flink 1.13 serializes it: bits, most significant first, two for the kind of the row and one for each column that says whether
it is null; then the cells that are not null, big-endian. Files of Alink on Flink 1.9 and 1.10 lack the two bits.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from akdl.storage.archive import ArchiveError, check_directory, damage_is_named
from akdl.wire.column_type import Kind, parse_type
from bridge.exceptions import ConfigurationError, SchemaError
from bridge.schema import Column, Schema

META = "alink_meta.json"
_DATA = "data"
_MAGIC = b"ALK"
_KIND_BITS = 2
_MOST_BYTES = (1 << 24) - 1
_EPOCH = datetime.datetime(1970, 1, 1)
_MS = datetime.timedelta(milliseconds=1)

# Alink's names of types, for its readers.
_NAMES = {
    Kind.BOOLEAN: "BOOLEAN", Kind.TINYINT: "TINYINT", Kind.SMALLINT: "SMALLINT", Kind.INT: "INT", Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "FLOAT", Kind.DOUBLE: "DOUBLE", Kind.STRING: "VARCHAR", Kind.BYTES: "VARBINARY", Kind.DECIMAL: "DECIMAL",
    Kind.DATE: "DATE", Kind.TIME: "TIME", Kind.TIMESTAMP: "TIMESTAMP",
}  # fmt: skip
_NUMBERS = {
    Kind.BOOLEAN: "?", Kind.TINYINT: "b", Kind.SMALLINT: "h", Kind.INT: "i", Kind.BIGINT: "q", Kind.FLOAT: "f",
    Kind.DOUBLE: "d",
}  # fmt: skip


def is_ak_file(path: str) -> bool:
    """Whether a path is that of an .ak file."""
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):
        return False
    try:
        with damage_is_named(), zipfile.ZipFile(path) as file:
            return META in file.namelist()
    except ArchiveError:
        return False


def read_schema(path: str) -> Schema:
    """Return the columns of a file.

    Raises:
        ConfigurationError: It is no .ak file, or has a column of a type that is not supported.
    """
    try:
        with damage_is_named(), zipfile.ZipFile(path) as file:
            text = json.loads(file.read(META))["schemaStr"]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} is no .ak file: {error}") from None
    try:
        schema = Schema.parse(text)
    except SchemaError as error:
        raise ConfigurationError(f"{path}: {error}; an .ak file with such a column cannot be read here") from None
    for column in schema:
        _check(path, column)
    return Schema(tuple(map(_with_largest, schema)))


def read_rows(path: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a file.

    Raises:
        ConfigurationError: It is no .ak file, or a damaged one.
    """
    try:
        with damage_is_named():
            yield from _rows(path, read_schema(path))
    except ArchiveError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _rows(path: str, schema: Schema) -> Iterator[tuple[Any, ...]]:
    with zipfile.ZipFile(path) as file:
        check_directory(file)
        names = [name for name in file.namelist() if name.lower() != META and not name.endswith("/")]
        if not names:
            raise ConfigurationError(f"{path}: it has no entry with rows")
        kind_bits = None
        for name in names:
            with file.open(name) as data:
                if data.read(len(_MAGIC)) != _MAGIC:
                    raise ConfigurationError(f"{path}: the entry {name} does not begin with {_MAGIC.decode()}")
                for number, record in enumerate(_records(path, data)):
                    for bits in (_KIND_BITS, 0) if kind_bits is None else (kind_bits,):
                        row = _row(schema, record, bits)
                        if row is not None:
                            break
                    else:
                        raise ConfigurationError(f"{path}: row {number} of {name} is damaged")
                    if record[0] or kind_bits is None and len(schema.columns) % 8 in (0, 7):
                        kind_bits = bits  # now the two forms differ
                    yield row


class AkWriter:
    """Writes rows into a file.

    Args:
        file: Opened for writing.
        schema: The columns.

    Raises:
        ConfigurationError: A column of a type that such files do not have.
    """

    def __init__(self, file: IO[bytes], schema: Schema) -> None:
        for column in schema:
            _check("an .ak file", column)
        self._kinds = [column.type.kind for column in schema]
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        columns = ",".join(f"{column.name} {_NAMES[column.type.kind]}" for column in schema)
        meta = {"fileFormat": "binary", "schemaStr": columns, "numFiles": 1, "version": "v0.1"}
        self._zip.writestr(META, json.dumps(meta))
        self._data = self._zip.open(_DATA, "w", force_zip64=True)
        self._data.write(_MAGIC)

    def write(self, row: Sequence[Any]) -> None:
        """Write a row.

        Raises:
            ConfigurationError: It has more than 16 MB.
        """
        mask = 0
        for cell in row:
            mask = mask << 1 | (cell is None)
        bits = _KIND_BITS + len(row)
        spare = -bits % 8
        record = (mask << spare).to_bytes((bits + spare) // 8, "big")
        record += b"".join(_written(kind, cell) for kind, cell in zip(self._kinds, row) if cell is not None)
        if len(record) > _MOST_BYTES:
            raise ConfigurationError(f"a row of {len(record)} bytes; .ak files have rows of at most {_MOST_BYTES} bytes")
        self._data.write(len(record).to_bytes(3, "big") + record)

    def close(self) -> None:
        """Write the end of the file."""
        self._data.close()
        self._zip.close()


def _check(where: str, column: Column) -> None:
    if column.type.is_array or column.type.kind not in _NAMES:
        raise ConfigurationError(
            f"{where}: the column {column.name!r} has the type {column.type.sql}, which is not supported in .ak files: CAST it "
            "to STRING, or toVector makes a vector of an ARRAY"
        )


def _with_largest(column: Column) -> Column:
    """Return a column with room for all values that Alink may have written; its files do not tell digits of decimals."""
    return replace(column, type=parse_type("DECIMAL(38, 18)")) if column.type.kind is Kind.DECIMAL else column


def _records(path: str, data: IO[bytes]) -> Iterator[bytes]:
    while True:
        size = data.read(3)
        if not size:
            return
        record = data.read(int.from_bytes(size, "big"))
        if len(size) < 3 or len(record) < int.from_bytes(size, "big") or not record:
            raise ConfigurationError(f"{path}: the file ends inside a row")
        yield record


def _row(schema: Schema, record: bytes, kind_bits: int) -> tuple[Any, ...] | None:
    """Return the cells of a row, or None where the bytes are none with that many bits in front."""
    bits = kind_bits + len(schema.columns)
    size = (bits + 7) // 8
    mask = int.from_bytes(record[:size], "big") >> (size * 8 - bits)
    cells: list[Any] = []
    place = size
    try:
        for number, column in enumerate(schema):
            if mask >> (len(schema.columns) - 1 - number) & 1:
                cells.append(None)
                continue
            cell, place = _read(column.type.kind, record, place)
            cells.append(cell)
    except (struct.error, IndexError, ValueError, OverflowError):
        return None
    return tuple(cells) if place == len(record) else None


def _read(kind: Kind, record: bytes, place: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        code = ">" + _NUMBERS[kind]
        return struct.unpack_from(code, record, place)[0], place + struct.calcsize(code)
    return _READERS[kind](record, place)


def _read_string(record: bytes, place: int) -> tuple[str | None, int]:
    length, place = _read_varint(record, place)
    units = []
    for _ in range(length - 1):
        unit, place = _read_varint(record, place)
        units.append(unit)
    text = struct.pack(f"<{len(units)}H", *units).decode("utf-16-le")
    return (text if length else None), place


def _read_varint(record: bytes, place: int) -> tuple[int, int]:
    number, shift = record[place], 0
    place += 1
    if number >= 0x80:
        number, shift = number & 0x7F, 7
        while record[place] >= 0x80:
            number |= (record[place] & 0x7F) << shift
            shift, place = shift + 7, place + 1
        number |= record[place] << shift
        place += 1
    return number, place


def _read_bytes(record: bytes, place: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">i", record, place)
    end = place + 4 + length
    if length < 0 or end > len(record):
        raise ValueError("no bytes")
    return record[place + 4 : end], end


def _read_time(make: Callable[[datetime.datetime], Any]) -> Callable[[bytes, int], tuple[Any, int]]:
    def read(record: bytes, place: int) -> tuple[Any, int]:
        (milliseconds,) = struct.unpack_from(">q", record, place)
        return make(_EPOCH + milliseconds * _MS), place + 8

    return read


def _read_timestamp(record: bytes, place: int) -> tuple[datetime.datetime, int]:
    milliseconds, nanoseconds = struct.unpack_from(">qi", record, place)
    whole = _EPOCH + datetime.timedelta(seconds=milliseconds // 1000)
    return whole + datetime.timedelta(microseconds=nanoseconds // 1000), place + 12


def _read_decimal(record: bytes, place: int) -> tuple[decimal.Decimal | None, int]:
    (length,) = struct.unpack_from(">i", record, place)
    if length < 4:  # small ones: null, 0, 1 and 10, each of scale 0
        return (None if length == 0 else decimal.Decimal((0, 0, 1, 10)[length])), place + 4
    end = place + 4 + length - 4
    digits = int.from_bytes(record[place + 4 : end], "big", signed=True)
    (scale,) = struct.unpack_from(">i", record, end)
    return decimal.Decimal(digits).scaleb(-scale), end + 4


_READERS: dict[Kind, Callable[[bytes, int], tuple[Any, int]]] = {
    Kind.STRING: _read_string,
    Kind.BYTES: _read_bytes,
    Kind.DATE: _read_time(datetime.datetime.date),
    Kind.TIME: _read_time(datetime.datetime.time),
    Kind.TIMESTAMP: _read_timestamp,
    Kind.DECIMAL: _read_decimal,
}


def _written(kind: Kind, cell: Any) -> bytes:
    if kind in _NUMBERS:
        return struct.pack(">" + _NUMBERS[kind], cell)
    if kind is Kind.STRING:
        encoded = str(cell).encode("utf-16-le", "surrogatepass")
        units = struct.unpack(f"<{len(encoded) // 2}H", encoded)
        return _varint(len(units) + 1) + b"".join(map(_varint, units))
    if kind is Kind.BYTES:
        return struct.pack(">i", len(cell)) + bytes(cell)
    if kind is Kind.DECIMAL:
        sign, _, exponent = cell.as_tuple()
        number, scale = int(cell.scaleb(-exponent)), int(-exponent)
        octets = number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)
        if scale == 0 and not sign and number in (0, 1, 10):
            return ((0, 1, 10).index(number) + 1).to_bytes(4, "big")
        return (len(octets) + 4).to_bytes(4, "big") + octets + scale.to_bytes(4, "big", signed=True)
    if kind is Kind.TIME:
        cell = datetime.datetime.combine(_EPOCH.date(), cell)
    elif kind is Kind.DATE:
        cell = datetime.datetime.combine(cell, datetime.time())
    if kind is Kind.TIMESTAMP:
        seconds, rest = divmod(cell - _EPOCH, datetime.timedelta(seconds=1))
        return struct.pack(">qi", seconds * 1000 + rest.microseconds // 1000, rest.microseconds * 1000)
    return struct.pack(">q", (cell - _EPOCH) // _MS)


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
