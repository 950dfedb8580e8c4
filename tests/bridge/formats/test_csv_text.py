"""Rows of CSV text in all forms: blank lines, quotes, other ends of rows, and rows of several
lengths.
"""

from __future__ import annotations

import csv
import io
import itertools
import pathlib
import random
import re
from typing import Any

import pytest

from bridge.exceptions import BridgeError, ConfigurationError, RowError
from bridge.files.description import describe
from bridge.files.reading import FileParts
from bridge.formats.csv_text import CsvForm
from bridge.schema import Schema

numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path


def rows(folder: pathlib.Path, text: str | bytes, types: str, **form: Any) -> list[Any]:
    path = folder / f"{next(numbers)}.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    schema = Schema.parse(types).all_nullable
    table = describe(
        "t", [str(path)], "csv", schema=schema, csv=CsvForm(names=tuple(schema.names), **form)
    )
    parts = FileParts(table)
    return [
        tuple(row.values())
        for part, _ in parts.parts_of(str(path))
        for batch in parts.batches_of(part)
        for row in batch.to_pylist()
    ]


def test_cells_are_values_or_null(folder: pathlib.Path) -> None:
    text = 'true, 7 ,0.5,"a, ""b""",1.50\n,,,"",\n'
    types = "a BOOLEAN, b INT, c DOUBLE, d STRING, e STRING"
    assert rows(folder, text, types) == [(True, 7, 0.5, 'a, "b"', "1.50"), (None,) * 5]
    assert rows(folder, "NA,NA\n-,\n", "a INT, b STRING", null_literals=("NA", "-")) == [
        (None, None),
        (None, None),
    ]


def test_arrays_have_their_elements_between_semicolons(folder: pathlib.Path) -> None:
    text = "1;+2,x\n,\n3,a;b\n"
    assert rows(folder, text, "a ARRAY<INT>, b ARRAY<STRING>") == [
        ([1, 2], ["x"]),
        (None, None),
        ([3], ["a", "b"]),
    ]
    assert rows(folder, "1;x,a\n2,b\n", "a ARRAY<INT>, b STRING", lenient=True) == [
        (None, "a"),
        ([2], "b"),
    ]
    with pytest.raises(
        RowError, match="csv: line 2, column 'a': expected ARRAY<INT>, got '1;x'; setLenient"
    ):
        rows(folder, "1\n1;x\n", "a ARRAY<INT>")


def test_blank_lines_are_no_rows(folder: pathlib.Path) -> None:
    assert rows(folder, "1\n\n  \n2\n", "a INT") == [(1,), (2,)]
    assert rows(folder, "1,x\n\n  \r\n2,y", "a INT, b STRING") == [(1, "x"), (2, "y")]
    assert rows(folder, "a\n\nb", "a STRING", skip_blank_line=False) == [("a",), (None,), ("b",)]
    assert rows(folder, '""\n"  "\n\n', "a STRING") == [(None,), ("  ",)]
    assert rows(folder, '"a\n\nb",1\n\n', "a STRING, b INT") == [("a\n\nb", 1)]


@pytest.mark.parametrize("cell", ["y", '"y"'])
@pytest.mark.parametrize("end", ["\n", "\r\n", "|"])
def test_empty_lines_are_rows_of_nulls_if_they_are_not_skipped(
    folder: pathlib.Path, cell: str, end: str
) -> None:
    text = end.join(["1,x", "", f"2,{cell}", ""])
    found = rows(folder, text, "a INT, b STRING", skip_blank_line=False, row_delimiter=end)
    assert found == [(1, "x"), (None, None), (2, "y")]


def test_files_without_rows_are_empty_tables(folder: pathlib.Path) -> None:
    for text, first in (("a,b\n", True), ("a,b", True), ("\n\n", False)):
        assert rows(folder, text, "a INT, b INT", ignore_first_line=first) == []


@pytest.mark.fault(
    "data", "A CSV file whose lines end in \\r alone, with names in the first, keeps its rows"
)
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_first_line_ends_as_the_other_lines_do(end: str, folder: pathlib.Path) -> None:
    types, text = "a INT, b INT", end.join(["a,b", "1,2", "3,4", ""])
    assert rows(folder, text, types, ignore_first_line=True) == [(1, 2), (3, 4)]
    with pytest.raises(RowError, match="line 3, column 'b': expected INT, got 'x'"):
        rows(folder, text.replace("4", "x"), types, ignore_first_line=True)


@pytest.mark.fault("data", "A quote in a name of a CSV file, as in inches, does not take rows away")
def test_a_quote_in_a_name_takes_no_rows(folder: pathlib.Path) -> None:
    types = "a INT, b STRING"
    for text in ('size in",b\n1,2\n', '\n  \nsize in",b\r1,2\r', '"size\nin","b"\n1,2\n'):
        for skips in (True, False):
            found = rows(folder, text, types, ignore_first_line=True, skip_blank_line=skips)
            assert found == [(1, "2")]
    with pytest.raises(RowError, match="not a row of CSV: unexpected end of data; set quoteChar"):
        rows(folder, 'a,"b\n1,2\n', types, ignore_first_line=True)


@pytest.mark.fault(
    "data", "A block of CSV with quotes, whose lines end in \\r alone, keeps its rows"
)
def test_long_text_whose_lines_end_in_carriage_returns_keeps_its_rows(folder: pathlib.Path) -> None:
    cell = "x" * 1_000_000
    text = '"x",1\r' + f"{cell},2\r" * 9
    assert rows(folder, text, "a STRING, b INT") == [("x", 1), *[(cell, 2)] * 9]


def test_row_delimiter_and_first_line_can_be_set(folder: pathlib.Path) -> None:
    assert rows(folder, "id;1;2;", "a INT", row_delimiter=";", ignore_first_line=True) == [
        (1,),
        (2,),
    ]
    assert rows(folder, "1,x||2,y", "a INT, b STRING", row_delimiter="||") == [(1, "x"), (2, "y")]
    assert rows(folder, '"a\r\nb"\r\n', "a STRING", row_delimiter="\r\n") == [("a\r\nb",)]
    with pytest.raises(
        RowError, match=r"line 2: this is not a row of CSV: the rowDelimiter ';' is inside quotes"
    ):
        rows(folder, '"a;b";', "a STRING", row_delimiter=";")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "age,visits\n",
            "number 2 of the file, and number 1 in schemaStr: .*the file, which is age, visits",
        ),
        ("id,visits,age\n", "number 2 of the file, and number 1 in schemaStr"),
        (" age , visits \n", "number 2 of the file, and number 1"),
        ("visits,age\n", None),
        ("visits,years\n", None),
        ("a,b\n", None),
        ("a", None),
    ],
)
@pytest.mark.fault(
    "data",
    "A CSV file whose line of names has the columns of the schema in another order is an error",
)
def test_header_of_a_file_has_to_follow_the_schema(
    folder: pathlib.Path, header: str, words: str | None
) -> None:
    given = folder, f"{header}1,2\n" if "\n" in header else header, "visits INT, age INT"
    if words is None:
        rows(*given, ignore_first_line=True)
    else:
        with pytest.raises(
            ConfigurationError, match=f"csv: line 1: the column 'visits' is {words}"
        ):
            rows(*given, ignore_first_line=True)


def test_cell_that_is_not_utf8_is_named(folder: pathlib.Path) -> None:
    for text in (
        b"a,b\n1,ok\n2,caf\xe9\n",
        b'a,b\n"1",ok\n2,"caf\xe9"\n',
        b'a,b\n1,"o\nk"\n2,caf\xe9\n',
    ):
        line = 3 + text.count(b"o\n")
        with pytest.raises(
            RowError,
            match=f"csv: line {line}, column 'b': the file is not UTF-8 .*0xe9\\): convert it with",
        ):
            rows(folder, text, "a INT, b STRING", ignore_first_line=True)
        assert rows(folder, text, "a INT, b BYTES", ignore_first_line=True)[1] == (2, b"caf\xe9")


def test_rows_that_do_not_fit_are_errors_with_their_line_or_null(folder: pathlib.Path) -> None:
    with pytest.raises(
        RowError, match=r"csv: line 2, column 'a': expected INT, got 'x'; setLenient\(True\)"
    ):
        rows(folder, "1\nx\n", "a INT")
    with pytest.raises(
        RowError, match=r"csv: line 5, column 'a': expected INT, got 'x'; setLenient\(True\)"
    ):
        rows(folder, '1,"two\nlines"\n\n2,\nx,', "a INT, b STRING")
    with pytest.raises(
        RowError,
        match=r"csv: line 1: expected 2 cells, got 1; setLenient\(True\) accepts rows of any length",
    ):
        rows(folder, "1\n", "a INT, b INT")
    with pytest.raises(
        RowError,
        match="csv: line 1: expected 4 cells, got 2; if the cells are separated by ';', set it as field",
    ):
        rows(folder, "1;2,5;3;\n", "a INT, b DOUBLE, c INT, d INT")
    assert rows(folder, "x,2\n3\n4,5,6\n", "a INT, b INT", lenient=True) == [
        (None, 2),
        (3, None),
        (4, 5),
    ]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("text", ['1,"a\n2,b\n3,c\n', '1,"a"b\n', '1,"a\n2,x\n3,"b\n'])
@pytest.mark.fault("data")
def test_quotes_that_would_swallow_rows_are_an_error(
    folder: pathlib.Path, text: str, lenient: bool
) -> None:
    with pytest.raises(
        RowError, match=r"csv: line \d: this is not a row of CSV: .*set quoteChar if it is not '\"'"
    ):
        rows(folder, text, "a INT, b STRING", lenient=lenient)


def test_long_cells_and_rows_across_blocks_are_read(folder: pathlib.Path) -> None:
    assert rows(folder, f"{'x' * 200_000}\n", "a STRING") == [("x" * 200_000,)]
    cells = [f"{number}{'x' * 99_000}" for number in range(60)]
    for quote in ("", '"'):
        text = "".join(f"{number},{quote}{cell}{quote}\n" for number, cell in enumerate(cells))
        assert rows(folder, text, "a INT, b STRING") == list(enumerate(cells))
    with pytest.raises(BridgeError, match="a row has more than 4 MB, or a quote is not closed"):
        rows(folder, f"1,{'x' * (9 << 20)}\n2,\n", "a INT, b STRING")
    lines = "".join(f'{number},"a{number}\n{"b" * 1000}"\n' for number in range(5_000))
    with pytest.raises(RowError, match="csv: line 10001, column 'a': expected INT, got 'x'"):
        rows(folder, f"{lines}x,\n", "a INT, b STRING")


def test_random_rows_come_back(folder: pathlib.Path) -> None:
    rng = random.Random(5)
    for number in range(300):
        delimiter, quote = rng.choice(",;\t|"), rng.choice("\"'")
        width = rng.randrange(1, 5)
        table = [
            tuple(
                rng.choice(
                    [
                        None,
                        "".join(
                            rng.choice([*" ,;\t|\"'\r\nxß𝄞", ""]) for _ in range(rng.randrange(6))
                        ),
                    ]
                )
                for _ in range(width)
            )
            for _ in range(5)
        ]
        written = io.StringIO(newline="")
        style = {"delimiter": delimiter, "quotechar": quote, "quoting": csv.QUOTE_ALL}
        csv.writer(written, lineterminator="\n", **style).writerows(table)  # type: ignore[arg-type]
        text = written.getvalue()
        types = ", ".join(f"c{place} STRING" for place in range(width))
        expected = [tuple(cell or None for cell in row) for row in table]  # an empty string is null
        found = rows(folder, text, types, field_delimiter=delimiter, quote_char=quote)
        assert found == expected, number
        plain = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote)
        assert [tuple(cell or None for cell in row) for row in plain] == expected, number


def test_plain_text_is_read_as_text_with_quotes(folder: pathlib.Path) -> None:
    """pyarrow reads the one, and Python the other."""
    rng = random.Random(7)
    for _ in range(100):
        table = [[rng.choice(["", " ", "x", "7", "NA", "ß"]) for _ in range(3)] for _ in range(9)]
        plain = "".join(
            ",".join(row) + rng.choice(["\n", "\r\n", "\n\n", "\n  \n"]) for row in table
        )
        odd = re.sub("x", '"x"', plain) + 'q,"",\n'
        form: dict[str, Any] = {"null_literals": ("NA",), "lenient": rng.random() < 0.5}
        types = "a STRING, b STRING, c STRING"
        assert [*rows(folder, plain, types, **form), ("q", None, None)] == rows(
            folder, odd, types, **form
        )
