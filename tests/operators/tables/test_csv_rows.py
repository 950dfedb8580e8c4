"""CSV text that this program reads and writes itself."""

from __future__ import annotations

import csv
import io
import pathlib
import random
import re
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.csv_rows import CsvForm, check_header, has_blank_line, not_utf8, read_csv


def rows(text: str, types: str, lenient: bool = False, **form: Any) -> list[Any]:
    return list(read_csv("t.csv", io.StringIO(text, newline="\n"), Schema.parse(types), CsvForm(**form), lenient))


def test_cells_are_text_or_null() -> None:
    text = 'true, 7 ,0.5,"a, ""b""",1.50\n,,,"",\n'
    types = "a BOOLEAN, b INT, c DOUBLE, d STRING, e DECIMAL(4, 2)"
    assert rows(text, types) == [("true", " 7 ", "0.5", 'a, "b"', "1.50"), (None,) * 5]
    assert rows("NA,NA\n-,\n", "a INT, b STRING", null_literals=("NA", "-")) == [(None, None), (None, None)]


def test_blank_lines_are_no_rows() -> None:
    assert rows("1\n\n  \n2\n", "a INT") == [("1",), ("2",)]
    assert rows("a\n\nb", "a STRING", skip_blank_line=False) == [("a",), (None,), ("b",)]
    assert rows('""\n"  "\n\n', "a STRING") == [(None,), ("  ",)]
    assert rows('"a\n\nb",1\n\n', "a STRING, b INT") == [("a\n\nb", "1")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"1\n2\n", False), (b"\n1\n", True), (b"1\n\n2", True), (b"1\r\n\r\n2", True), (b"1\n  ", True), (b"", False)],
)
def test_finding_blank_lines(data: bytes, expected: bool) -> None:
    assert has_blank_line(data) is expected


def test_another_row_delimiter_and_a_first_line() -> None:
    assert rows("id;1;2;", "a INT", row_delimiter=";", ignore_first_line=True) == [("1",), ("2",)]
    assert rows('"a\r\nb"\r\n', "a STRING", row_delimiter="\r\n") == [("a\r\nb",)]
    with pytest.raises(
        ConfigurationError, match="t.csv, line 2: this is not a row of CSV: the rowDelimiter ';' is inside quotes"
    ):
        rows('"a;b";', "a STRING", row_delimiter=";")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("age,visits\n", "number 2 of the file, and number 1 in schemaStr: .*the file, which is age, visits"),
        ("id,visits,age\n", "number 2 of the file, and number 1 in schemaStr"),
        (" age , visits \n", "number 2 of the file, and number 1"),
        ("visits,age\n", None),
        ("visits,years\n", None),
        ("a,b\n", None),
        ("", None),
    ],
)
@pytest.mark.fault("data", "A CSV file whose line of names has the columns of the schema in another order is an error")
def test_names_of_a_file_are_those_of_the_schema(header: str, words: str | None) -> None:
    given = "t.csv", io.StringIO(header + "1,2\n"), Schema.parse("visits INT, age INT"), CsvForm(ignore_first_line=True)
    if words is None:
        check_header(*given)
    else:
        with pytest.raises(ConfigurationError, match=f"^t.csv, line 1: the column 'visits' is {words}"):
            check_header(*given)


def test_the_cell_that_is_not_utf8(tmp_path: pathlib.Path) -> None:
    path, schema = tmp_path / "a.csv", Schema.parse("a INT, b STRING")
    for text, where in (
        (b"a,b\n1,ok\n2,caf\xe9\n", ", line 3, column 'b': the file is not UTF-8 \\(byte 0xe9\\)"),
        (b"a,\xff\n1,ok\n", ", line 1, column 'b': "),
        (b"a,b\n1,ok,\xff\n", ", line 2, column '': "),
    ):
        path.write_bytes(text)
        assert re.match(f"t{where}", str(not_utf8("t", str(path), schema, CsvForm(ignore_first_line=True))))


def test_what_cannot_be_read_is_an_error_or_kept_for_flink() -> None:
    with pytest.raises(ConfigurationError, match=r"t.csv, line 2, column 'a': expected INT, got 'x'; setLenient\(True\)"):
        rows("1\nx\n", "a INT")
    with pytest.raises(ConfigurationError, match="t.csv, line 1: expected 2 cells, got 1"):
        rows("1\n", "a INT, b INT")
    with pytest.raises(ConfigurationError, match="column 'a' has the type ARRAY<INT>, which only Flink's own reader supports"):
        rows("1\n", "a ARRAY<INT>")
    assert rows("x,2\n3\n4,5,6\n", "a INT, b INT", lenient=True) == [("x", "2"), ("3", None), ("4", "5")]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("text", ['1,"a\n2,b\n3,c\n', '1,"a"b\n'])
@pytest.mark.fault("data")
def test_quotes_that_would_swallow_rows_are_an_error(text: str, lenient: bool) -> None:
    with pytest.raises(
        ConfigurationError, match=r"t.csv, line \d: this is not a row of CSV: .*set quoteChar if it is not '\"'"
    ):
        rows(text, "a INT, b STRING", lenient)


def test_long_cells() -> None:
    assert rows(f"{'x' * 200_000}\n", "a STRING") == [("x" * 200_000,)]


def test_random_rows_come_back() -> None:
    rng = random.Random(5)
    for number in range(300):
        form = CsvForm(rng.choice(",;\t|"), rng.choice("\"'"))
        width = rng.randrange(1, 5)
        table = [
            tuple(
                rng.choice([None, "".join(rng.choice([*" ,;\t|\"'\r\nxß𝄞", ""]) for _ in range(rng.randrange(6)))])
                for _ in range(width)
            )
            for _ in range(5)
        ]
        written = io.StringIO(newline="")
        style = {"delimiter": form.field_delimiter, "quotechar": form.quote_char, "quoting": csv.QUOTE_ALL}
        csv.writer(written, lineterminator="\n", **style).writerows(table)  # type: ignore[arg-type]
        text = written.getvalue()
        schema = Schema.parse(", ".join(f"c{place} STRING" for place in range(width)))
        expected = [tuple(cell or None for cell in row) for row in table]  # an empty string is null, as it is for Flink
        assert list(read_csv("t.csv", io.StringIO(text, newline="\n"), schema, form, False)) == expected, number
        plain = csv.reader(io.StringIO(text, newline=""), delimiter=form.field_delimiter, quotechar=form.quote_char)
        assert [tuple(cell or None for cell in row) for row in plain] == expected, number
