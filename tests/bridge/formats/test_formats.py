"""Formats by name, and the memory that their readers take."""

from __future__ import annotations

import datetime
import decimal
import gzip
import pathlib
from typing import Any

import pyarrow as pa
import pytest

from bridge.exceptions import BridgeError
from bridge.files.description import describe
from bridge.formats import csv_text
from bridge.formats.formats import format_of
from bridge.schema import Schema
from tests.bridge.files.test_reading import read
from tests.bridge.formats.test_texts import csv_lines


@pytest.mark.parametrize(
    ("path", "format_"),
    [
        ("/a/b.parquet", "parquet"), ("s3://a/b.PQ", "parquet"), ("b.arrow", "feather"), ("b.feather", "feather"),
        ("b.arrows", "feather"), ("b.orc", "orc"), ("b.json", "json"), ("b.jsonl.gz", "json"), ("b.csv.gz", "csv"), ("b", None),
    ],
)  # fmt: skip
def test_format_follows_the_ending_of_the_name(path: str, format_: str | None) -> None:
    assert format_of(path) == format_


def read_csv(
    folder: pathlib.Path, text: str | bytes, sql: str | None = None, **wanted: Any
) -> pa.Table:
    path = folder / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(path), schema=None if sql is None else Schema.parse(sql), **wanted)


LATER = "x,a,t\n" + f"1.5,1,{'t' * 999}\n" * 4_500  # more than a block


@pytest.mark.parametrize(
    ("text", "sql", "words"),
    [
        ("x,a\n1,18446744073709551615\n", None, "line 2, column 'a': .*18446744073709551615 needs more digits.*DECIMAL\\(20, 0\\)"),
        ("a\n1\n-9223372036854775809\n", None, "line 3, column 'a': .*-9223372036854775809 needs more digits"),
        ("a\n1.5\n+9007199254740993\n", None, "line 3, column 'a': .*9007199254740993 needs more digits"),
        ("a\n" + "9" * 5000 + "\n", None, "line 2, column 'a': .*9999 needs more digits"),
        ("a\n1e400\n", None, "line 2, column 'a': .*it is beyond DOUBLE"),
        ("a\n1\n1e39\n", "a FLOAT", "line 3, column 'a': .*it is beyond FLOAT"),
        (LATER + "1.5,9223372036854775808,t\n", None, "line 4502, column 'a': .*'9223372036854775808' as a scalar of type int64"),
        (LATER + "9223372036854775808,1,t\n", None, "line 4502, column 'x': .*9223372036854775808 needs more digits"),
        (LATER + "1.5,007,t\n", None, "line 4502, column 'a': .*its first digit is 0"),
        (LATER + "007.5,1,t\n", None, "line 4502, column 'x': .*its first digit is 0"),
        (LATER + "x,1,t\n", None, "line 4502, column 'x': .*'x' as a scalar of type double"),
    ],
)  # fmt: skip
def test_numbers_of_csv_are_exact_or_refused(
    tmp_path: pathlib.Path, text: str, sql: str | None, words: str
) -> None:
    with pytest.raises(BridgeError, match=f"^Source: {tmp_path}/a.csv: {words}"):
        read_csv(tmp_path, text, sql)


@pytest.mark.parametrize(
    ("cells", "sql", "expected"),
    [
        (["00501", "2134"], "STRING", ["00501", "2134"]),
        (["00501", "1.5"], "STRING", ["00501", "1.5"]),
        (["1.5", "-007.5"], "STRING", ["1.5", "-007.5"]),
        (["0x1F", "1"], "STRING", ["0x1F", "1"]),
        (["+4915112345678", "1"], "DOUBLE", [4915112345678.0, 1.0]),
        (["0", "-5", " 7 ", "-0"], "BIGINT", [0, -5, 7, 0]),
        (
            ["0.5", "1e300", "-inf", "9007199254740992", "-0.5", "0e1"],
            "DOUBLE",
            [0.5, 1e300, float("-inf"), 2.0**53, -0.5, 0],
        ),
    ],
)
def test_types_of_csv_columns_follow_their_cells(
    tmp_path: pathlib.Path, cells: list[str], sql: str, expected: list[Any]
) -> None:
    text = "\n".join(["a", *cells])
    assert read_csv(tmp_path, text)["a"].to_pylist() == expected
    assert [column.sql for column in describe("Source", [str(tmp_path)]).columns] == [sql]


def test_declared_csv_types_hold_large_integers(tmp_path: pathlib.Path) -> None:
    text = "a,b\n18446744073709551615,007\n"
    assert read_csv(tmp_path, text, "a DECIMAL(20, 0), b BIGINT").to_pylist() == [
        {"a": decimal.Decimal(2**64 - 1), "b": 7}
    ]
    assert read_csv(tmp_path, text, "a DOUBLE, b STRING").to_pylist() == [
        {"a": 2.0**64, "b": "007"}
    ]
    assert read_csv(tmp_path, text, "b INT")["b"].to_pylist() == [7]


def test_times_with_an_offset_in_csv_are_instants(tmp_path: pathlib.Path) -> None:
    text = "t\n2024-04-29T14:38:00+02:00\n2024-04-29 12:38:00.5Z\n\n"
    expected = [
        datetime.datetime(2024, 4, 29, 12, 38),
        datetime.datetime(2024, 4, 29, 12, 38, 0, 500_000),
    ]
    for sql in (None, "t TIMESTAMP_LTZ(3)", "t TIMESTAMP_LTZ(6)"):
        assert read_csv(tmp_path, text, sql)["t"].to_pylist() == expected
    assert [column.sql for column in describe("Source", [str(tmp_path)]).columns] == [
        "TIMESTAMP_LTZ(6)"
    ]
    for sql, cell, words in (
        ("t TIMESTAMP(3)", "12:38:00Z", "expected no zone offset.*: declare TIMESTAMP_LTZ for it"),
        ("t TIMESTAMP_LTZ(3)", "12:38:00", "expected a zone offset.*: declare TIMESTAMP for it"),
    ):
        with pytest.raises(
            BridgeError, match=f"^Source: {tmp_path}/a.csv: line 2, column 't': .*{words}"
        ):
            read_csv(tmp_path, f"t\n2024-04-29 {cell}\n", sql)


def test_cells_written_by_a_csv_sink_are_read_unchanged(tmp_path: pathlib.Path) -> None:
    at = datetime.datetime(2024, 4, 29, 12, 38, 0, 250_000)
    columns = {
        "at TIMESTAMP(3)": pa.array([at, None], pa.timestamp("ms")),
        "hour TIME(3)": pa.array([at.time(), None], pa.time32("ms")),
        "short TIME(0)": pa.array([datetime.time(6, 30), None], pa.time32("s")),
        "f FLOAT": pa.array([0.1, float("inf")], pa.float32()),
        "price DECIMAL(20, 2)": pa.array([decimal.Decimal("123456789012345678.90"), None]),
    }
    names = [sql.split()[0] for sql in columns]
    batch = pa.record_batch(list(columns.values()), names)
    text = ",".join(names) + "\n" + csv_lines(batch).decode()
    assert read_csv(tmp_path, text, ", ".join(columns)).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("text", "sql", "words"),
    [
        (b"x,a\n1,ok\n2,caf\xe9\n", None, "line 3, column 'a': .*not UTF-8"),
        (b"x,a\n1,ok\n2,caf\xe9\n", "a STRING", "line 3, column 'a': .*not UTF-8"),
        (b"a\n" + b"%s\n" % (b"k" * 999) * 4_500 + b"\xff\n", None, "line 4502, column 'a': .*not UTF-8"),
        (b"caf\xe9\n1\n", None, "cannot be read: expected the format csv, .*'utf-8' codec can't decode byte 0xe9"),
    ],
)  # fmt: skip
def test_csv_that_is_not_utf8_is_refused(
    tmp_path: pathlib.Path, text: bytes, sql: str | None, words: str
) -> None:
    with pytest.raises(BridgeError, match=f"^Source: {tmp_path}/a.csv:? {words}"):
        read_csv(tmp_path, text, sql)
    if sql is None and text.startswith(b"x"):
        assert read_csv(tmp_path, text, "a BYTES")["a"].to_pylist() == [b"ok", b"caf\xe9"]
        assert read_csv(tmp_path, text, "x INT")["x"].to_pylist() == [1, 2]


def test_two_csv_columns_of_one_name_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "0.csv").write_text("a\n1\n")
    (tmp_path / "1.csv").write_text("a,b,a\n1,2,3\n")
    for wanted in ({}, {"selected": ["a"]}, {"schema": Schema.parse("a INT")}):
        with pytest.raises(
            BridgeError, match=f"^Source: {tmp_path}/1.csv: it has two columns 'a': rename one"
        ):
            read(str(tmp_path), **wanted)


@pytest.mark.fault("security", "A row of CSV without an end is an error")
def test_a_row_of_csv_without_an_end_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "_BLOCK_BYTES", 1 << 20)
    path = tmp_path / "a.csv.gz"
    for line in (b"A" * (1 << 20), b"A\n" * (1 << 19)):
        with gzip.open(path, "wb", 1) as file:
            file.write(b'a\n"')
            for _ in range(9):
                file.write(line)
        with pytest.raises(
            BridgeError,
            match=f"^Source: {path}: a row has more than 1 MB, or a quote is not closed",
        ):
            read(str(path))
