"""Finding the cell of a CSV file that an exception of Java is about."""

from __future__ import annotations

import pathlib

import pytest

from bridge.schema import Schema
from operators import csv_faults
from operators.csv_faults import CsvFiles, fault, remember

SCHEMA = "a INT, `b c` DOUBLE, d STRING, e DATE"
TEXT = 'a,b c,d,e\n1,0.5,three,2025-01-01\n2,nan,x,\n\n4,,"two\nlines",2025-13-01\nthree,1,x,\n'


@pytest.fixture
def path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(csv_faults, "_read", [])
    monkeypatch.setattr(csv_faults, "explain_java_errors", lambda explain: None)
    path = tmp_path / "own.csv"
    path.write_text(TEXT, encoding="utf-8")
    remember(CsvFiles("Source", (str(tmp_path / "gone.csv"), str(path)), Schema.parse(SCHEMA), ",", '"', True))
    return str(path)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("NumberFormatException: For input string: 'three'. Invalid character found.", 7, "the column 'a': 'three' is no INT"),
        ('NumberFormatException: For input string: "nan"\n\tat java', 3, "the column 'b c': 'nan' is no DOUBLE"),
        ("DateTimeException: For input string: '2025-13-01'.", 6, "the column 'e': '2025-13-01' is no DATE"),
        (
            "RuntimeException: Fail to deserialize at field: e.\nCaused by: java.lang.IllegalArgumentException",
            6,
            "the column 'e': '2025-13-01' is no DATE",
        ),
        ("NumberFormatException: For input string: '3?7'", 6, "the column 'e'"),
    ],
)
def test_the_cell_that_an_exception_names(path: str, text: str, line: int, words: str) -> None:
    told = str(fault(f"java.lang.{text}"))
    assert told.startswith(f"Source: {path}, line {line}: {words}")


def test_too_many_cells(path: str) -> None:
    pathlib.Path(path).write_text("a,b c,d,e\n1,2,3\n1,2,3,,5\n", encoding="utf-8")
    told = str(fault("CsvReadException: Too many entries: expected at most 4"))
    assert told == f"Source: {path}, line 3: expected 4 cells, got 5; setLenient(True) takes such lines too"


def test_exceptions_about_something_else(path: str) -> None:
    assert fault("java.lang.ArithmeticException: / by zero, 'three'") is None
    pathlib.Path(path).write_text("a,b c,d,e\n1,2,3,\n", encoding="utf-8")
    assert fault("NumberFormatException: For input string: 'four'") is None
