"""Finding the cell of a CSV file that an exception of Java is about."""

from __future__ import annotations

import pathlib

import pytest

from bridge.schema import Schema
from operators.errors import csv_faults
from operators.errors.csv_faults import CsvFiles, fault, remember
from operators.tables.csv_rows import CsvForm

SCHEMA = "a INT, `b c` DOUBLE, d STRING, e DATE"
TEXT = 'a,b c,d,e\n1,0.5,three,2025-01-01\n2,nan,x,\n\n4,,"two\nlines",2025-13-01\nthree,1,x,\n'


@pytest.fixture
def path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(csv_faults, "_read", [])
    path = tmp_path / "own.csv"
    path.write_text(TEXT, encoding="utf-8")
    remember(CsvFiles("Source", (str(tmp_path / "gone.csv"), str(path)), Schema.parse(SCHEMA), CsvForm(ignore_first_line=True)))
    return str(path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "NumberFormatException: For input string: 'not a value: three'. Invalid character found.",
            7,
            "column 'a': expected INT, got 'three'",
        ),
        ('NumberFormatException: For input string: "nan"\n\tat java', 3, "column 'b c': expected DOUBLE, got 'nan'"),
        ("DateTimeException: For input string: '2025-13-01'.", 6, "column 'e': expected DATE, got '2025-13-01'"),
        ("DateTimeException: For input string: 'not a value: 2025-13-01'.", 6, "column 'e': expected DATE, got '2025-13-01'"),
    ],
)
def test_the_cell_that_an_exception_names(path: str, text: str, line: int, words: str) -> None:
    told = str(fault(f"java.lang.{text}"))
    assert told.startswith(f"Source: {path}, line {line}, {words}")


def test_too_many_cells(path: str) -> None:
    pathlib.Path(path).write_text("a,b c,d,e\n1,2,3\n1,2,3,,5\n", encoding="utf-8")
    told = str(fault("CsvReadException: Too many entries: expected at most 4"))
    assert told == f"Source: {path}, line 3: expected 4 cells, got 5; setLenient(True) accepts rows of any length"


def test_too_few_cells(path: str) -> None:
    pathlib.Path(path).write_text("a;b c;d;e\n1;2,5;3;\n", encoding="utf-8")
    told = str(fault("java.lang.RuntimeException: Row length mismatch. 4 fields expected but was 2."))
    assert told.endswith(
        ", line 2: expected 4 cells, got 2; if the cells are separated by ';', set it as fieldDelimiter; setLenient(True) accepts rows of any length"
    )


def test_a_file_in_another_encoding(path: str) -> None:
    pathlib.Path(path).write_bytes("a,b c,d,e\n1,2,Köln,\n".encode("latin-1"))
    told = str(fault("java.io.CharConversionException: Invalid UTF-8 middle byte 0x6c (at char #12, byte #11)"))
    assert told.startswith(f"Source: {path}, line 2, column 'd': the file is not UTF-8 (byte 0xf6): convert it with iconv")


def test_exceptions_about_something_else(path: str) -> None:
    assert fault("java.lang.ArithmeticException: / by zero, 'three'") is None
    pathlib.Path(path).write_text("a,b c,d,e\n1,2,3,\n", encoding="utf-8")
    assert fault("NumberFormatException: For input string: 'four'") is None


def test_large_files_are_named_and_not_searched(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_faults, "_MOST_BYTES", 10)
    told = str(fault("NumberFormatException: For input string: 'three'. Invalid character found."))
    assert told.startswith(f"Source: {path}: the cell 'three' does not fit the type of its column. Files of more than ")
    assert "TRY_CAST" in told
