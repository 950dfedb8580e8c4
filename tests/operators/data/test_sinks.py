"""Sinks: files that this program writes, and tables of Flink."""

from __future__ import annotations

import os
import pathlib

import pyarrow as pa
import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.publishing import FileSink
from bridge.schema import Schema
from operators import (
    AkSinkBatchOp,
    AkSourceBatchOp,
    BatchOperator,
    CsvSinkBatchOp,
    CsvSourceBatchOp,
    MemSourceBatchOp,
    ParquetSinkBatchOp,
    ParquetSourceBatchOp,
    TableSinkBatchOp,
    TableSourceBatchOp,
)
from operators.alink.ak_file import read_rows
from operators.alink.java_times import zone_of
from operators.data.sinks import _AkFile, _FileOfProgram
from operators.flink.joint_job import Receiver

pytestmark = pytest.mark.flink


def test_all_sinks_write_in_one_job(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE of_people (id INT, name STRING, score DECIMAL(2, 1)) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/table', 'format' = 'csv')"
    )
    sink = (
        CsvSinkBatchOp().setFilePath(str(tmp_path / "deep" / "people.csv")).setFieldDelimiter(";")
    )
    assert people.select("*, id = 1 AS ok, 'a;b' AS text").link(sink) is sink
    people.link(AkSinkBatchOp(filePath=str(tmp_path / "people.ak")))
    TableSinkBatchOp(tableName="of_people").linkFrom([people])
    assert not (tmp_path / "people.ak").exists(), "nothing runs before execute()"
    BatchOperator.execute()
    lines = (tmp_path / "deep" / "people.csv").read_text().splitlines()
    assert sorted(lines) == ['1;ann;0.5;true;"a;b"', '2;bob;1.5;false;"a;b"', '3;;2.5;false;"a;b"']
    assert sum(len(part.read_text().splitlines()) for part in (tmp_path / "table").iterdir()) == 3
    frame = (
        AkSourceBatchOp(filePath=str(tmp_path / "people.ak")).collectToDataframe().sort_values("id")
    )
    assert frame.name.tolist() == ["ann", "bob", None]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "people.ak", "table"]


@pytest.mark.fault("data", "The second job of an elastic training writes its file from the start")
@pytest.mark.parametrize("kind", ["ak", "csv"])
def test_abandoned_file_of_the_program_serves_another_job(
    kind: str, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / f"a.{kind}")
    file: Receiver = (
        _AkFile(path, Schema.parse("a BIGINT"), zone_of("UTC"))
        if kind == "ak"
        else _FileOfProgram(FileSink("", path, kind, "0" * 8, pa.schema({"a": "int64"}), True))
    )
    file.take(pa.record_batch({"a": [1]}))
    file.abandon()
    assert not list(tmp_path.iterdir())
    file.take(pa.record_batch({"a": [2]}))
    file.finish()
    rows = list(read_rows(path)) if kind == "ak" else pathlib.Path(path).read_text()
    assert rows in ([(2,)], "2\n")


@pytest.mark.fault("data", "Two sinks of a job with one place are refused")
def test_two_sinks_of_a_job_have_places_of_their_own(
    people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    folder, link = f"{tmp_path}/rows/", tmp_path / "link"
    link.symlink_to("rows")
    people.link(CsvSinkBatchOp(filePath=f"{link}/"))
    with pytest.raises(
        ConfigurationError, match="another sink of the next job writes to .*/rows: "
    ):
        people.link(ParquetSinkBatchOp(filePath=folder))
    BatchOperator.execute()
    people.firstN(1).link(ParquetSinkBatchOp(filePath=f"{link}/", overwriteSink=True))
    BatchOperator.execute()
    assert len(ParquetSourceBatchOp(filePath=folder).collectToDataframe()) == 1
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "rows"]


@pytest.mark.fault("data", "Two sinks of a job with one file of this program are refused")
@pytest.mark.parametrize("first", [AkSinkBatchOp, CsvSinkBatchOp])
@pytest.mark.parametrize("second", [AkSinkBatchOp, CsvSinkBatchOp])
def test_two_sinks_of_a_job_have_files_of_their_own(
    people: TableSourceBatchOp,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    first: type[CsvSinkBatchOp],
    second: type[CsvSinkBatchOp],
) -> None:
    # As on a cluster, where the program itself writes a single file.
    monkeypatch.setattr("operators.data.sinks.runs_elsewhere", lambda _: True)
    people.link(first(filePath=str(tmp_path / "a")))
    with pytest.raises(ConfigurationError, match="another sink of the next job writes to .*/a: "):
        people.link(second(filePath=f"file://{tmp_path}/a"))
    people.link(second(filePath=str(tmp_path / "b")))
    BatchOperator.execute()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.fault("data", "Two sinks of a job with one place in a storage are refused")
def test_an_address_with_a_slash_at_its_end_is_the_same_place(people: TableSourceBatchOp) -> None:
    people.link(ParquetSinkBatchOp(filePath="memory://sinks/out/"))
    with pytest.raises(ConfigurationError, match="another sink of the next job writes to memory:"):
        people.link(ParquetSinkBatchOp(filePath="memory://sinks/out"))
    BatchOperator._deferred.clear()


def test_times_of_ak_files_are_in_a_time_zone(
    people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    columns = "DATE '2020-02-03' AS d, TIME '10:11:12' AS t, TIMESTAMP '2020-02-03 10:11:12.345678' AS stamp"
    rows, path = people.select(columns).where("d IS NOT NULL").firstN(1), str(tmp_path / "t.ak")
    rows.link(AkSinkBatchOp(filePath=path, timeZone="Asia/Shanghai"))
    late = people.select("TIMESTAMP '2024-03-10 02:30:00' AS stamp")
    BatchOperator.execute()
    (row,) = read_rows(path, zone_of("Asia/Shanghai"))
    assert list(map(str, row)) == ["2020-02-03", "10:11:12", "2020-02-03 10:11:12.345678"]
    assert str(next(read_rows(path, zone_of("UTC")))[0]) == "2020-02-02"
    late.link(AkSinkBatchOp(filePath=str(tmp_path / "late.ak"), timeZone="America/New_York"))
    with pytest.raises(
        ConfigurationError,
        match="row 0, column 'stamp': 2024-03-10 02:30:00 does not exist in America/New_York",
    ):
        BatchOperator.execute()
    assert [each.name for each in tmp_path.iterdir()] == ["t.ak"]


@pytest.mark.long
def test_unusual_cells_of_csv_files_come_back(
    people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    source = MemSourceBatchOp([(1, float("nan"), float("-inf"))], "id INT, x DOUBLE, y FLOAT")
    path = str(tmp_path / "odd.csv")
    cells = {
        "s STRING": "'a' || CHR(13) || 'b'", "x DOUBLE": "x", "y FLOAT": "y",
        "d DECIMAL(38, 18)": "CAST(0.0000001 AS DECIMAL(38, 18))", "t TIME(3)": "TIME '01:02:03.500'", "b BOOLEAN": "id > 1",
        "m TIMESTAMP(6)": "TIMESTAMP '1960-02-29 01:02:03.000001'", "`day d` DATE": "DATE '0001-01-01'", "n STRING": "'  '",
    }  # fmt: skip
    names = [each.rsplit(" ", 1)[0] if "DECIMAL" not in each else "d" for each in cells]
    source.select(", ".join(f"{sql} AS {name}" for sql, name in zip(cells.values(), names))).link(
        CsvSinkBatchOp(filePath=path)
    )
    BatchOperator.execute()
    for lenient in (False, True):
        row = (
            CsvSourceBatchOp(filePath=path, schemaStr=", ".join(cells), lenient=lenient)
            .collectToDataframe()
            .iloc[0]
        )
        assert (row.s, str(row.x), str(row.y), str(row.d), row.n) == (
            "a\rb",
            "nan",
            "-inf",
            "1.00000000000E-7",
            "  ",
        )
        assert list(map(str, (row.t, row.m, row["day d"], row.b))) == [
            "01:02:03.500000", "1960-02-29 01:02:03.000001", "0001-01-01", "False"
        ]  # fmt: skip


def test_a_job_that_fails_leaves_no_file(
    people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    people.select("1 / (id - id) AS x").link(CsvSinkBatchOp(filePath=str(tmp_path / "a.csv")))
    with pytest.raises(BridgeError, match="(?i)zero"):
        BatchOperator.execute()
    assert list(tmp_path.iterdir()) == []


def test_sinks_refuse_tables_and_paths_that_they_cannot_write(
    people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    existing = tmp_path / "there.csv"
    existing.write_text("")
    with pytest.raises(
        ConfigurationError, match=r"there.csv exists already; setOverwriteSink\(True\) replaces it"
    ):
        people.link(CsvSinkBatchOp(filePath=str(existing)))
    with pytest.raises(
        ConfigurationError, match="filePath 's3://b/x.ak': only files on this host can be written"
    ):
        people.link(AkSinkBatchOp(filePath="s3://b/x.ak"))
    with pytest.raises(
        ConfigurationError,
        match="CsvSinkBatchOp: filePath: https://b/x.csv cannot be written: expected a path",
    ):
        people.link(CsvSinkBatchOp(filePath="https://b/x.csv"))
    with pytest.raises(
        ConfigurationError, match="column 'x' has the type ARRAY<INT.*CAST it to STRING"
    ):
        people.select("ARRAY[id] AS x").link(CsvSinkBatchOp(filePath=str(tmp_path / "x.csv")))
    with pytest.raises(
        ConfigurationError,
        match="column 'x' has the type ARRAY<INT.*which .ak files do not support",
    ):
        people.select("ARRAY[id] AS x").link(AkSinkBatchOp(filePath=str(tmp_path / "x.ak")))
    with pytest.raises(ConfigurationError, match="tableName: there is no table 'nowhere'"):
        people.link(TableSinkBatchOp(tableName="nowhere"))
    with pytest.raises(ConfigurationError, match="AkSinkBatchOp takes one BatchOperator, got none"):
        AkSinkBatchOp(filePath="x").linkFrom()
