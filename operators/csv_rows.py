"""Rows of CSV text, read by this program: what Flink's own reader cannot do. Pure."""

from __future__ import annotations

import csv
import datetime
import decimal
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from akdl.wire.column_type import FLOATS, INTEGERS, Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, quoted

_BLANK = re.compile(rb"(?:\A|\n)[ \t]*\r?\n|\n[ \t]+\Z")
_FLAGS = {"true": True, "false": False}
_TIMES = {
    Kind.DATE: "2024-05-31",
    Kind.TIME: "18:00:00",
    Kind.TIMESTAMP: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
    Kind.TIMESTAMP_LTZ: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
}
UNREADABLE = (ValueError, ArithmeticError, KeyError)  # of `reader_of`


def has_blank_line(data: Any) -> bool:
    """Whether some line of the text, bytes or a mapped file, holds nothing but spaces."""
    return _BLANK.search(data) is not None


def read_csv(
    where: str,
    text: str,
    schema: Schema,
    *,
    field_delimiter: str,
    quote_char: str,
    row_delimiter: str,
    ignore_first_line: bool,
    skip_blank_line: bool,
    lenient: bool,
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the text; empty cells are None.

    Args:
        where: Of the text, for errors.
        text: The text.
        schema: The columns.
        field_delimiter: One character.
        quote_char: One character.
        row_delimiter: A line feed, or another string; it may not stand inside quotes if it is another one.
        ignore_first_line: Whether the first line is none of the rows.
        skip_blank_line: Whether lines of spaces are no rows.
        lenient: Whether what cannot be read is None.

    Raises:
        ConfigurationError: A row has too many or too few cells, or a cell is not of its column's type.
    """
    for column in schema:
        if column.type.is_array or column.type.kind in (Kind.BYTES, Kind.TIMESTAMP_LTZ):
            raise ConfigurationError(f"{where}: the column {column.name!r} of type {column.type.sql}: read it as STRING")
    lines = text.split(row_delimiter)
    if not lines[-1]:
        lines.pop()  # what stands behind the last delimiter
    # A line feed inside quotes is part of a cell, so the reader gets it back.
    kept = (f"{line}\n" if row_delimiter == "\n" else line for line in lines[ignore_first_line:])
    reader = csv.reader(kept, delimiter=field_delimiter, quotechar=quote_char)
    reads = [reader_of(column) for column in schema]
    for row in reader:
        if not row or len(row) == 1 and not row[0].strip():
            if skip_blank_line:
                continue
            row = row or [""]
        place = f"{where}, line {reader.line_num + ignore_first_line}"
        if len(row) != len(reads) and not lenient:
            raise wrong_number(place, len(reads), row, field_delimiter)
        yield _cells(place, row, schema, reads, lenient)


def _cells(
    where: str, row: Sequence[str], schema: Schema, reads: Sequence[Callable[[str], Any]], lenient: bool
) -> tuple[Any, ...]:
    cells: list[Any] = []
    for place, (column, read) in enumerate(zip(schema, reads)):
        text = row[place] if place < len(row) else ""
        try:
            cells.append(read(text) if text else None)
        except UNREADABLE:
            if not lenient:
                raise wrong_cell(where, column, text) from None
            cells.append(None)
    return tuple(cells)


def wrong_cell(where: str, column: Column, text: str) -> ConfigurationError:
    """Return the error about a cell that is not of its column's type."""
    return ConfigurationError(
        f"{where}: the column {column.name!r}: {text!r} is no {column.type.sql}; {_remedy(column, text)}setLenient(True) makes "
        "it null"
    )


def _remedy(column: Column, text: str) -> str:
    """Return what helps where all cells of the column are alike."""
    sql, name = column.type.sql, quoted(column.name)
    if text.strip() == column.name:
        return "is it the line with the names of the columns? setIgnoreFirstLine(True) leaves it out; "
    if column.type.kind in _TIMES:
        return f"it takes {_TIMES[column.type.kind]}: read another form as STRING, and make a {sql} of it in select; "
    if column.type.kind in {*FLOATS, Kind.DECIMAL} and re.fullmatch(r"[-+]?[\d.' ]+,\d+", text.strip()):
        return f"a decimal comma: read it as STRING, and CAST(REPLACE({name}, ',', '.') AS {sql}) in select; "
    return ""


def wrong_number(where: str, expected: int, row: Sequence[str], field_delimiter: str) -> ConfigurationError:
    """Return the error about a row with too many or too few cells."""
    line = field_delimiter.join(row)
    other = next((each for each in ",;\t|" if each != field_delimiter and line.count(each) == expected - 1 > 0), None)
    hint = f"is {other!r} the fieldDelimiter? " if other else ""
    return ConfigurationError(
        f"{where}: expected {expected} cells, got {len(row)}; {hint}setLenient(True) takes such lines too"
    )


def not_utf8(where: str, error: UnicodeDecodeError) -> ConfigurationError:
    """Return the error about a file in another encoding."""
    byte = error.object[error.start]
    return ConfigurationError(
        f"{where}: the file is not UTF-8 ({error.reason}: {byte:#04x}): convert it, as with iconv, or read it with "
        "pandas.read_csv(path, encoding='latin-1') and fromDataframe"
    )


def reader_of(column: Column) -> Callable[[str], Any]:
    """Return what makes a value of the text of a cell, or raises one of `UNREADABLE`."""
    kind = column.type.kind
    if kind in INTEGERS:
        return lambda text: int(text.strip())
    if kind in FLOATS:
        return float
    readers: dict[Kind, Callable[[str], Any]] = {
        Kind.BOOLEAN: lambda text: _FLAGS[text.strip().lower()],
        Kind.DECIMAL: lambda text: decimal.Decimal(text.strip()),
        Kind.DATE: lambda text: datetime.date.fromisoformat(text.strip()),
        Kind.TIME: lambda text: datetime.time.fromisoformat(text.strip()),
        Kind.TIMESTAMP: _timestamp,
        Kind.TIMESTAMP_LTZ: _timestamp,
    }
    return readers.get(kind, str)


def _timestamp(text: str) -> datetime.datetime:
    """Read a time as Flink does, without a time zone: that of the session counts, or none."""
    found = datetime.datetime.fromisoformat(text.strip())
    if found.tzinfo is not None:
        raise ValueError("a time zone")
    return found
