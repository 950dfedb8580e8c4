"""CSV text that this program reads itself."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.csv_rows import has_blank_line, read_csv

OPTIONS = {
    "field_delimiter": ",", "quote_char": '"', "row_delimiter": "\n", "ignore_first_line": False, "skip_blank_line": True,
    "lenient": False,
}  # fmt: skip


def rows(text: str, types: str, **options: Any) -> list[Any]:
    return list(read_csv("t.csv", text, Schema.parse(types), **{**OPTIONS, **options}))


def test_cells_of_every_type() -> None:
    text = 'true, 7 ,0.5,"a, ""b""",1.50,2024-02-29,01:02:03,2024-02-29 01:02:03.5\n,,,,,,,\n'
    types = "a BOOLEAN, b INT, c DOUBLE, d STRING, e DECIMAL(4, 2), f DATE, g TIME, h TIMESTAMP(3)"
    assert rows(text, types) == [
        (
            True, 7, 0.5, 'a, "b"', decimal.Decimal("1.50"), datetime.date(2024, 2, 29), datetime.time(1, 2, 3),
            datetime.datetime(2024, 2, 29, 1, 2, 3, 500000),
        ),
        (None,) * 8,
    ]  # fmt: skip


def test_blank_lines_are_no_rows() -> None:
    assert rows("1\n\n  \n2\n", "a INT") == [(1,), (2,)]
    assert rows("a\n\nb", "a STRING", skip_blank_line=False) == [("a",), (None,), ("b",)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"1\n2\n", False), (b"\n1\n", True), (b"1\n\n2", True), (b"1\r\n\r\n2", True), (b"1\n  ", True), (b"", False)],
)
def test_finding_blank_lines(data: bytes, expected: bool) -> None:
    assert has_blank_line(data) is expected


def test_another_row_delimiter_and_a_first_line() -> None:
    assert rows("id;1;2;", "a INT", row_delimiter=";", ignore_first_line=True) == [(1,), (2,)]


def test_what_cannot_be_read_is_an_error_or_null() -> None:
    with pytest.raises(ConfigurationError, match=r"t.csv, line 2: the column 'a': 'x' is no INT; setLenient\(True\)"):
        rows("1\nx\n", "a INT")
    with pytest.raises(ConfigurationError, match="t.csv, line 1: expected 2 cells, got 1"):
        rows("1\n", "a INT, b INT")
    with pytest.raises(ConfigurationError, match="the column 'a' of type ARRAY<INT>: read it as STRING"):
        rows("1\n", "a ARRAY<INT>")
    assert rows("x,2\n3\n4,5,6\n", "a INT, b INT", lenient=True) == [(None, 2), (3, None), (4, 5)]


def test_times_of_iso_8601() -> None:
    assert rows("2024-02-29T01:02:03\n", "a TIMESTAMP(3)") == rows("2024-02-29 01:02:03\n", "a TIMESTAMP(3)")
    with pytest.raises(ConfigurationError, match=r"'2024-02-29 01:02:03\+01:00' is no TIMESTAMP\(3\); it takes 2024-05-31 18"):
        rows("2024-02-29 01:02:03+01:00\n", "a TIMESTAMP(3)")


def test_the_error_says_what_to_do_about_a_decimal_comma() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'1.234,5' is no DOUBLE; a decimal comma: .* CAST\(REPLACE\(`a b`, ',', '\.'\)"
    ):
        rows("1.234,5\n", "`a b` DOUBLE", field_delimiter=";")


def test_the_line_with_the_names_is_taken_for_what_it_is() -> None:
    with pytest.raises(
        ConfigurationError, match=r"line 1: the column 'a': 'a' is no INT; is it the line .* setIgnoreFirstLine\(True\)"
    ):
        rows("a,b\n1,2\n", "a INT, b INT")
