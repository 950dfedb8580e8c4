"""What a table in files is found to be; `tests.bridge.files.test_reading` reads such tables."""

from __future__ import annotations

import pathlib
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import BridgeError
from bridge.files.description import describe
from bridge.schema import Schema


def test_columns_and_format_are_read_from_the_first_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "day=3").mkdir()
    pq.write_table(pa.table({"a b": [1], "c": [0.5]}), tmp_path / "day=3" / "x.parquet")
    table = describe("Source", [str(tmp_path)])
    assert table.format == "parquet" and table.all_columns and table.bytes_per_row == 24
    assert [(column.name, column.sql) for column in table.columns] == [
        ("a b", "BIGINT"),
        ("c", "DOUBLE"),
        ("day", "BIGINT"),
    ]
    table = describe(
        "Source",
        [str(tmp_path)],
        selected=["c"],
        condition="`a b` > 0",
        schema=Schema.parse("c FLOAT"),
    )
    assert [(column.name, column.sql) for column in table.columns] == [("c", "FLOAT")]
    assert [column.name for column in table.filtered] == ["a b"] and not table.all_columns


@pytest.mark.parametrize(("first", "second"), [("", '{"a": 1}'), ('{"a": 1}', ""), ("", "")])
def test_folders_of_empty_files_count_for_the_types_of_their_names(
    tmp_path: pathlib.Path, first: str, second: str
) -> None:
    for day, text in {"0": "", "0x": first, "1": second}.items():
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "x.json").write_text(text)
    assert describe("Source", [str(tmp_path)]).columns[-1].sql == "STRING"


def test_unknown_empty_and_damaged_files_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    unknown, empty, damaged = (
        tmp_path / "table.data",
        tmp_path / "empty.json",
        tmp_path / "damaged.parquet",
    )
    for path in (unknown, empty, damaged):
        path.write_bytes(b"" if path == empty else b"PAR1")
    twice = tmp_path / "twice.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), twice)
    for path, words in {
        unknown: f"parameter 'format': the name '{unknown}' has no known ending: set it to one of parquet, feather, orc, json, csv",
        empty: f"{empty}: it has no columns: declare them in schemaStr",
        damaged: f"{damaged} cannot be read: expected the format parquet, a whole Parquet file: ",
        twice: f"{twice}: it has two columns 'a': rename one",
    }.items():
        with pytest.raises(BridgeError, match=f"^Source: {re.escape(words)}"):
            describe("Source", [str(path)])


def test_folder_that_is_empty_at_first_needs_a_schema(tmp_path: pathlib.Path) -> None:
    schema = Schema.parse("a INT")
    assert (
        describe("Source", [str(tmp_path)], "parquet", schema=schema, may_be_empty=True)
        .columns[0]
        .sql
        == "INT"
    )
    with pytest.raises(BridgeError, match="is a folder without files"):
        describe("Source", [str(tmp_path)], "parquet", schema=schema)
    with pytest.raises(BridgeError, match="is a folder without files"):  # which tell the columns
        describe("Source", [str(tmp_path)], "parquet", may_be_empty=True)
