"""Which cell of a CSV file has failed a job: Flink reads the files, and its exceptions name neither file nor line."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.csv_cells import fits, wrong_cell
from operators.tables.csv_rows import CsvForm, not_utf8, wrong_number

_MOST_BYTES = 500 << 20  # of a file; a larger one takes too long
_UNREADABLE = re.compile(
    r"NumberFormatException|DateTime(?:Parse)?Exception|CsvReadException|Fail to deserialize at field|Cannot parse '"
    r"|Row length mismatch|Invalid UTF-8"
)
_QUOTED = re.compile(
    r"""(?:For input string: |Cannot parse |Text |format: )(?:'(.*?)'|"(.*?)")(?=\.|,| as | could|[ \t]*$)""", re.MULTILINE
)
_TOO_MANY = "Too many entries"
_TOO_FEW = "Row length mismatch"
_NO_UTF8 = "Invalid UTF-8"


class CsvFiles(NamedTuple):
    """Files that Flink reads for an operator."""

    operator: str
    files: tuple[str, ...]
    schema: Schema
    form: CsvForm


_read: list[CsvFiles] = []


def remember(files: CsvFiles) -> None:
    """Look into these files when a job fails with an exception about a string, as long as this program runs."""
    if files not in _read:
        _read.append(files)


def fault(text: str) -> ConfigurationError | None:
    """Return the error about the cell that an exception of Java is about; None where it is about something else."""
    if not _UNREADABLE.search(text):
        return None
    if _NO_UTF8 in text:
        return _not_utf8()
    said = {(one or other).removeprefix("? ") for one, other in _QUOTED.findall(text)}
    likely = None
    for files in reversed(_read):
        checks = [fits(column) for column in files.schema]
        nulls = {"", *files.form.null_literals}
        for where, row in _rows(files):
            width = len(files.schema.columns)
            if (len(row) > width and _TOO_MANY in text) or (len(row) < width and _TOO_FEW in text and row):
                return wrong_number(where, width, row, files.form.field_delimiter)
            for column, fit, cell in zip(files.schema, checks, row):
                if cell not in nulls and not fit(cell):
                    if {cell, cell.strip(" "), cell.replace(".", "?"), cell.replace("T", " ")} & said:
                        return wrong_cell(where, column, cell)
                    likely = likely or wrong_cell(where, column, cell)
    return _not_searched(said) if said else (likely or _not_searched(said))


def _not_searched(said: set[str]) -> ConfigurationError | None:
    """Return the error about a cell of some file that is too large to be searched; None where all were searched."""
    large = [(files.operator, path) for files in reversed(_read) for path in files.files if _is_large(path)]
    if not large:
        return None
    cell = f"the cell {' or '.join(map(repr, sorted(said)))}" if said else "a cell"
    return ConfigurationError(
        f"{large[0][0]}: {' or '.join(path for _, path in large)}: {cell} does not fit the type of its column. Files of more "
        f"than {_MOST_BYTES >> 20} MB are not searched for it: look with grep -n, or read the column as STRING and TRY_CAST it "
        "in select, which makes it null"
    )


def _not_utf8() -> ConfigurationError | None:
    """Return the error about the first file that is not UTF-8; None where all are."""
    for files in reversed(_read):
        for path in files.files:
            try:
                with open(path, encoding="utf-8") as file:
                    for _ in file:
                        pass
            except UnicodeDecodeError as error:
                return not_utf8(f"{files.operator}: {path}", error)
            except OSError:
                continue
    return None


def _is_large(path: str) -> bool:
    try:
        return os.path.getsize(path) > _MOST_BYTES
    except OSError:
        return False


def _rows(files: CsvFiles) -> Iterator[tuple[str, list[str]]]:
    """Yield each row with its place."""
    for path in files.files:
        try:
            if _is_large(path):
                continue
            with open(path, encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, delimiter=files.form.field_delimiter, quotechar=files.form.quote_char)
                for number, row in enumerate(reader):
                    if number or not files.form.ignore_first_line:
                        yield f"{files.operator}: {path}, line {reader.line_num}", row
        except (OSError, UnicodeError, csv.Error):
            continue
