"""Rows of CSV text, for files that Flink's reader cannot read. Pure."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.csv_cells import fits, has_no_cast, wrong_cell

_BLANK = re.compile(rb"(?:\A|\n)[ \t]*\r?\n|\n[ \t]+\Z")
_NO_TEXT = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte
LINE_ENDS = ("\n", "\r\n")


@dataclass(frozen=True)
class CsvForm:
    """Form of CSV text. A row delimiter other than an end of line cannot be quoted."""

    field_delimiter: str = ","
    quote_char: str = '"'
    row_delimiter: str = "\n"
    null_literals: tuple[str, ...] = ()
    ignore_first_line: bool = False
    skip_blank_line: bool = True


def has_blank_line(data: bytes) -> bool:
    return _BLANK.search(data) is not None


def open_bytes(path: str) -> io.BufferedReader:
    """Open a file, which is unpacked if its name ends in .gz, .bz2 or .zst, as Flink does."""
    return io.BufferedReader(pa.input_stream(path))


def open_csv(path: str, errors: str = "strict") -> IO[str]:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="\n", errors=errors)


def read_csv(where: str, file: IO[str], schema: Schema, form: CsvForm, lenient: bool) -> Iterator[tuple[str | None, ...]]:
    """Yield rows of texts, None for null. If `lenient`, rows may have any number of cells and cells any text."""
    for column in schema:
        if has_no_cast(column.type):
            raise ConfigurationError(
                f"{where}: column {column.name!r} has the type {column.type.sql}, which only Flink's own reader supports; "
                "it cannot be used with http, lenient, rowDelimiter or blank lines: read the column as STRING"
            )
    checks = [(lambda cell: True) if lenient else fits(column) for column in schema]
    nulls = {"", *form.null_literals}
    for line, row in records(where, file, form):
        place = f"{where}, line {line}"
        if len(row) != len(checks) and not lenient:
            raise wrong_number(place, len(checks), row, form.field_delimiter)
        cells = [None if cell in nulls else cell for cell in row[: len(checks)]]
        for column, fit, cell in zip(schema, checks, cells):
            if cell is not None and not fit(cell):
                raise wrong_cell(place, column, cell)
        yield (*cells, *[None] * (len(checks) - len(cells)))


def records(where: str, file: IO[str], form: CsvForm) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line of each row, and its cells."""
    by_line = form.row_delimiter in LINE_ENDS
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for number, line in enumerate(
            file if by_line else file.read().removesuffix(form.row_delimiter).split(form.row_delimiter)
        ):
            if number or not form.ignore_first_line:
                taken.append(line)
                yield line

    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(lines(), delimiter=form.field_delimiter, quotechar=form.quote_char, strict=True)
    while True:
        taken.clear()
        try:
            row = next(reader, None)
            if len(taken) > 1 and not by_line:
                raise csv.Error(f"the rowDelimiter {form.row_delimiter!r} is inside quotes")
        except csv.Error as error:
            place = f"{where}, line {reader.line_num + form.ignore_first_line}"
            raise ConfigurationError(
                f"{place}: this is not a row of CSV: {error}; set quoteChar if it is not {form.quote_char!r}"
            ) from None
        if row is None:
            return
        if form.skip_blank_line and len(row) <= 1 and not "".join(taken).strip():
            continue
        yield reader.line_num + form.ignore_first_line, row or [""]


def wrong_number(where: str, expected: int, row: Sequence[str], field_delimiter: str) -> ConfigurationError:
    line = field_delimiter.join(row)
    other = next((each for each in ",;\t|" if each != field_delimiter and line.count(each) == expected - 1 > 0), None)
    hint = f"if the cells are separated by {other!r}, set it as fieldDelimiter; " if other else ""
    return ConfigurationError(
        f"{where}: expected {expected} cells, got {len(row)}; {hint}setLenient(True) accepts rows of any length"
    )


def check_header(where: str, file: IO[str], schema: Schema, form: CsvForm) -> None:
    """Refuse a line of names that has a column of the schema in another place. Other names are renamed by the schema."""
    _, row = next(records(where, file, replace(form, ignore_first_line=False)), (1, []))
    names = [name.strip() for name in row]
    for place, name in enumerate(schema.names, 1):
        if name in names and names[place - 1 : place] != [name]:
            raise ConfigurationError(
                f"{where}, line 1: the column {name!r} is number {names.index(name) + 1} of the file, and number {place} in "
                f"schemaStr: declare the columns in the order of the file, which is {', '.join(names)}"
            )


def not_utf8(where: str, path: str, schema: Schema, form: CsvForm) -> ConfigurationError | None:
    """Error for the first cell that is not UTF-8."""
    with open_csv(path, "surrogateescape") as file:
        for line, row in records(where, file, replace(form, ignore_first_line=False)):
            for name, cell in itertools.zip_longest(schema.names, row, fillvalue=""):
                byte = _NO_TEXT.search(cell)
                if byte is not None:
                    return ConfigurationError(
                        f"{where}, line {line}, column {name!r}: the file is not UTF-8 (byte {ord(byte[0]) - 0xDC00:#04x}): "
                        "convert it with iconv, or read it with pandas.read_csv(path, encoding='latin-1') and fromDataframe"
                    )
    return None
