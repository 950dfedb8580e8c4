"""Rows of CSV text, read and written by this program: what Flink's own reader cannot do. Pure."""

from __future__ import annotations

import csv
import decimal
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.csv_cells import cannot_be_text, fits, wrong_cell

_BLANK = re.compile(rb"(?:\A|\n)[ \t]*\r?\n|\n[ \t]+\Z")
LINE_ENDS = ("\n", "\r\n")


@dataclass(frozen=True)
class CsvForm:
    """The form of CSV text.

    Args:
        row_delimiter: An end of line, or another string, which cannot stand inside quotes.
    """

    field_delimiter: str = ","
    quote_char: str = '"'
    row_delimiter: str = "\n"
    null_literals: tuple[str, ...] = ()
    ignore_first_line: bool = False
    skip_blank_line: bool = True


def has_blank_line(data: Any) -> bool:
    """Whether some line of the text, bytes or a mapped file, holds nothing but spaces."""
    return _BLANK.search(data) is not None


def read_csv(where: str, text: str, schema: Schema, form: CsvForm, lenient: bool) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows of the text, their cells as text; null is None.

    Args:
        lenient: Whether rows may have too many or too few cells, and cells be of another type than their column's.

    Raises:
        ConfigurationError: A row has too many or too few cells, or a cell is not of its column's type.
    """
    for column in schema:
        if cannot_be_text(column.type):
            raise ConfigurationError(f"{where}: the column {column.name!r} of type {column.type.sql}: read it as STRING")
    checks = [(lambda cell: True) if lenient else fits(column) for column in schema]
    nulls = {"", *form.null_literals}
    for line, row in _records(where, text, form):
        place = f"{where}, line {line}"
        if len(row) != len(checks) and not lenient:
            raise wrong_number(place, len(checks), row, form.field_delimiter)
        cells = [None if cell in nulls else cell for cell in row[: len(checks)]]
        for column, fit, cell in zip(schema, checks, cells):
            if cell is not None and not fit(cell):
                raise wrong_cell(place, column, cell)
        yield (*cells, *[None] * (len(checks) - len(cells)))


def _records(where: str, text: str, form: CsvForm) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its last line."""
    by_line = form.row_delimiter in LINE_ENDS
    lines = text.split("\n" if by_line else form.row_delimiter)
    if not lines[-1]:
        lines.pop()  # what stands behind the last delimiter
    taken: list[str] = []

    def kept() -> Iterator[str]:
        for line in lines[form.ignore_first_line :]:
            taken.append(line)
            yield f"{line}\n" if by_line else line  # a line feed inside quotes is part of a cell

    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(kept(), delimiter=form.field_delimiter, quotechar=form.quote_char, strict=True)
    while True:
        taken.clear()
        try:
            row = next(reader, None)
            if len(taken) > 1 and not by_line:
                raise csv.Error(f"the rowDelimiter {form.row_delimiter!r} stands inside quotes")
        except csv.Error as error:
            place = f"{where}, line {reader.line_num + form.ignore_first_line}"
            raise ConfigurationError(f"{place}: no row of CSV: {error}; is {form.quote_char!r} the quoteChar?") from None
        if row is None:
            return
        if form.skip_blank_line and len(row) <= 1 and not "".join(taken).strip():
            continue
        yield reader.line_num + form.ignore_first_line, row or [""]


def csv_line(cells: Sequence[Any], form: CsvForm) -> str:
    """Return a row as text. Null is an empty cell, and an empty string one in quotes."""
    texts = ["" if cell is None else _shown(cell) for cell in cells]
    special = re.compile(f"[\r\n{re.escape(form.field_delimiter + form.quote_char + form.row_delimiter)}]")
    quote, alone = form.quote_char, len(cells) == 1
    for place, (cell, text) in enumerate(zip(cells, texts)):
        # A line with nothing in it is a blank line, and no row.
        if (text == "" and (cell is not None or alone)) or special.search(text) or text != text.strip():
            texts[place] = f"{quote}{text.replace(quote, quote * 2)}{quote}"
    return form.field_delimiter.join(texts) + form.row_delimiter


def _shown(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):  # in Java's words where Python has others
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(cell), str(cell))
    return f"{cell:f}" if isinstance(cell, decimal.Decimal) else str(cell)


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
