"""The wrong cell of a CSV file that failed a job: Flink reads the files, and its exceptions name neither file nor line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.csv_cells import WRONG, fits, wrong_cell
from operators.tables.csv_rows import CsvForm, not_utf8, open_csv, records, wrong_number

_MOST_BYTES = 500 << 20  # of a file; searching a larger one takes too long
_UNREADABLE = re.compile(
    r"NumberFormatException|DateTime(?:Parse)?Exception|CsvReadException|Fail to deserialize at field|Cannot parse '"
    r"|Row length mismatch|Invalid UTF-8"
)
_QUOTED = re.compile(
    r"""(?:For input string: |Cannot parse |Text |format: )(?:'(.*?)'|"(.*?)")(?=\.|,| as | could|[ \t]*$)""", re.MULTILINE
)
_TOO_MANY = "Too many entries"
_TOO_FEW = "Row length mismatch"
_NOT_UTF8 = "Invalid UTF-8"


class CsvFiles(NamedTuple):
    """Files that Flink reads for an operator."""

    operator: str
    files: tuple[str, ...]
    schema: Schema
    form: CsvForm


_read: list[CsvFiles] = []


def remember(files: CsvFiles) -> None:
    if files not in _read:
        _read.append(files)


def fault(text: str) -> ConfigurationError | None:
    """Find the cell that the text of a Java exception refers to; None if it is about something else."""
    if not _read or not _UNREADABLE.search(text):
        return None
    if _NOT_UTF8 in text:
        return _not_utf8()
    quoted = {(one or other).removeprefix(WRONG) for one, other in _QUOTED.findall(text)}
    likely = None
    for files in reversed(_read):
        checks = [fits(column) for column in files.schema]
        nulls = {"", *files.form.null_literals}
        for where, row in _rows(files):
            width = len(files.schema.columns)
            if (len(row) > width and _TOO_MANY in text) or (len(row) < width and _TOO_FEW in text):
                return wrong_number(where, width, row, files.form.field_delimiter)
            for column, fit, cell in zip(files.schema, checks, row):
                if cell not in nulls and not fit(cell):
                    if {cell, cell.strip(" ")} & quoted:
                        return wrong_cell(where, column, cell)
                    likely = likely or wrong_cell(where, column, cell)
    return _not_searched(quoted) if quoted else (likely or _not_searched(quoted))


def _not_searched(quoted: set[str]) -> ConfigurationError | None:
    large = [(files.operator, path) for files in reversed(_read) for path in files.files if _is_large(path)]
    if not large:
        return None
    cell = f"the cell {' or '.join(map(repr, sorted(quoted)))}" if quoted else "a cell"
    return ConfigurationError(
        f"{large[0][0]}: {' or '.join(path for _, path in large)}: {cell} does not fit the type of its column. Files "
        f"of more than {_MOST_BYTES >> 20} MB are not searched for it: use grep -n, or read the column as STRING and TRY_CAST "
        "it in select, which makes it null"
    )


def _not_utf8() -> ConfigurationError | None:
    for files in reversed(_read):
        for path in files.files:
            with suppress(OSError):
                found = not_utf8(f"{files.operator}: {path}", path, files.schema, files.form)
                if found is not None:
                    return found
    return None


def _is_large(path: str) -> bool:
    with suppress(OSError):
        return os.path.getsize(path) > _MOST_BYTES
    return False


def _rows(files: CsvFiles) -> Iterator[tuple[str, list[str]]]:
    for path in files.files:
        where = f"{files.operator}: {path}"
        with suppress(OSError, UnicodeError, ConfigurationError):
            if not _is_large(path):
                with open_csv(path) as file:
                    for line, row in records(where, file, files.form):
                        yield f"{where}, line {line}", row
