"""Sources: the rows they make and what they refuse."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import pathlib
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError, RowError
from bridge.schema import Schema
from operators import (
    USUAL_NULLS,
    AkSourceBatchOp,
    AkSourceStreamOp,
    BatchOperator,
    CsvSourceBatchOp,
    CsvSourceStreamOp,
    MemSourceBatchOp,
    MemSourceStreamOp,
    MLEnv,
    RandomTableSourceBatchOp,
    RandomTableSourceStreamOp,
    resetEnv,
    useLocalEnv,
)
from operators.alink.ak_file import AkWriter
from tests.e2e.jobs import frames
from tests.support.http import served


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(2)
    resetEnv()


@pytest.mark.flink
def test_random_columns_follow_their_distributions(env: MLEnv) -> None:
    confs = "u:uniform(2,4);o:uniform_open(-1,0);g:gauss(10,2);w:weight_set(1,1,5,3);p:poisson(3);n:uniform(0,1,nullper=0.25)"
    source = RandomTableSourceBatchOp(
        numRows=20_000, numCols=7, outputCols=list("uogwpnd"), outputColConfs=confs, idCol="id"
    )
    assert source.getColNames() == ["id", *"uogwpnd"]
    assert {kind.replace(" NOT NULL", "") for kind in source.getColTypes()[1:]} == {"DOUBLE"}
    frame = source.collectToDataframe()
    assert sorted(frame.id) == list(range(20_000))
    assert frame.u.between(2, 4).all() and frame.u.mean() == pytest.approx(3, abs=0.05)
    assert frame.o.between(-1, 0).all() and (frame.o < 0).all()
    assert frame.g.mean() == pytest.approx(10, abs=0.1) and frame.g.std() == pytest.approx(
        2, abs=0.1
    )
    assert set(frame.w) == {1, 5} and (frame.w == 5).mean() == pytest.approx(0.75, abs=0.02)
    assert frame.p.mean() == pytest.approx(3, abs=0.1) and frame.p.var() == pytest.approx(
        3, abs=0.2
    )
    assert frame.n.isna().mean() == pytest.approx(0.25, abs=0.02)
    assert frame.d.between(0, 1).all()
    # columns do not share draws
    assert np.allclose(frame[["u", "o", "g", "d"]].corr(), np.eye(4), atol=0.05)


@pytest.mark.flink
def test_random_columns_have_names_by_default(env: MLEnv) -> None:
    assert RandomTableSourceBatchOp().setNumRows(5).setNumCols(3).getColNames() == [
        "col0",
        "col1",
        "col2",
    ]


@pytest.mark.flink
@pytest.mark.parametrize("rows", [0, 1])
def test_random_table_may_have_few_or_no_rows(env: MLEnv, rows: int) -> None:
    frame = RandomTableSourceBatchOp(numRows=rows, numCols=2).collectToDataframe()
    assert len(frame) == rows and list(frame.columns) == ["col0", "col1"]


@pytest.mark.flink
def test_parameters_are_fixed_once_there_is_a_table(env: MLEnv) -> None:
    source = RandomTableSourceBatchOp().setNumRows(5)
    with pytest.raises(ConfigurationError, match="set 'numCols' before"):
        source.getColNames()
    assert source.setNumCols(1).getColNames() == ["col0"]
    with pytest.raises(ConfigurationError, match="'numRows' is set too late"):
        source.setNumRows(6)


@pytest.mark.flink
def test_names_of_random_columns_have_to_fit_their_number(env: MLEnv) -> None:
    with pytest.raises(
        ConfigurationError, match="outputCols: expected 3 names \\(numCols\\), got 2"
    ):
        RandomTableSourceBatchOp(numRows=1, numCols=3, outputCols=["a", "b"]).getColNames()
    with pytest.raises(ConfigurationError, match="idCol 'a' is also in outputCols"):
        RandomTableSourceBatchOp(numRows=1, numCols=1, outputCols=["a"], idCol="a").getColNames()


CSV_SCHEMA = (
    "id LONG, name STRING, score DOUBLE, day DATE, at TIMESTAMP(3), ok BOOLEAN, money DECIMAL(4, 1)"
)
CSV_ROWS = '1;"a;b";0.5;2024-02-29;2024-02-29 01:02:03.004;true;1.5\n2;;;;;;\n'


@pytest.mark.flink
@pytest.mark.parametrize(
    "header",
    [pytest.param("", marks=pytest.mark.long), "the;header;is;not;read;here;at all\n"],
)
def test_csv_source_reads_files_with_and_without_a_header(
    env: MLEnv, tmp_path: pathlib.Path, header: str
) -> None:
    (tmp_path / "one.csv").write_text(header + CSV_ROWS, encoding="utf-8")
    # as ISO 8601 has it
    (tmp_path / "two.csv").write_text(header + CSV_ROWS.replace("29 01", "29T01"), encoding="utf-8")
    source = (
        CsvSourceBatchOp()
        .setFilePath(str(tmp_path))
        .setSchemaStr(CSV_SCHEMA)
        .setFieldDelimiter(";")
    )
    frame = source.setIgnoreFirstLine(bool(header)).collectToDataframe().sort_values("id")
    assert source.getColTypes() == [
        "BIGINT",
        "STRING",
        "DOUBLE",
        "DATE",
        "TIMESTAMP(3)",
        "BOOLEAN",
        "DECIMAL(4, 1)",
    ]
    assert frame.id.tolist() == [1, 1, 2, 2]
    for _, row in frame[:2].iterrows():
        assert row.tolist()[1:4] == ["a;b", 0.5, datetime.date(2024, 2, 29)]
        assert row.tolist()[4:] == [
            pd.Timestamp("2024-02-29 01:02:03.004"),
            True,
            decimal.Decimal("1.5"),
        ]
    assert frame[2:].drop(columns="id").isna().all(axis=None)


@pytest.mark.flink
def test_csv_source_refuses_missing_files(env: MLEnv) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"CsvSourceBatchOp: parameter 'filePath': /nowhere/\*.csv matches no files",
    ):
        CsvSourceBatchOp(filePath="/nowhere/*.csv", schemaStr="a INT").getOutputTable()
    with pytest.raises(ConfigurationError, match="'filePath': there is no file /nowhere/at.csv$"):
        CsvSourceBatchOp(filePath="/nowhere/at.csv", schemaStr="a INT").getColNames()


@pytest.mark.flink
def test_csv_source_reads_arrays_and_bytes(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "arrays.csv").write_bytes(b"a,b,c\n1;2,\xff=,3\n,,\n4,,\n")
    csv = {
        "filePath": f"{tmp_path}/*.csv",
        "schemaStr": "a ARRAY<INT>, b BYTES, c INT",
        "ignoreFirstLine": True,
    }
    frame = CsvSourceBatchOp(**csv).collectToDataframe()
    assert [cell and list(cell) for cell in frame.a] == [[1, 2], None, [4]]
    assert frame.b.tolist() == [b"\xff=", None, None] and frame.c.dropna().tolist() == [3]


@pytest.mark.flink
def test_csv_source_refuses_wrong_cells_with_their_place_and_the_remedy(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "own.csv"

    def read(text: str, schema: str, header: bool) -> pd.DataFrame:
        path.write_text("a,b\n" * header + text, encoding="utf-8")
        return CsvSourceBatchOp(
            filePath=str(path), schemaStr=schema, ignoreFirstLine=header
        ).collectToDataframe()

    for cell, kind, header in (
        ("three", "INT", True),
        ("3.7", "INT", True),
        ("x", "DECIMAL(5, 2)", True),
        ("x", "DATE", False),
    ):
        with pytest.raises(RowError) as raised:
            read(f"1,\n2,{cell}\n", f"a INT, b {kind}", header)
        told = f"CsvSourceBatchOp: {path}: line {2 + header}, column 'b': expected {kind}, got {cell!r}; "
        assert str(raised.value).startswith(told) and str(raised.value).endswith(
            "; setLenient(True) reads it as null"
        )
    with pytest.raises(RowError, match="own.csv: line 3: expected 2 cells, got 1; setLenient"):
        read("1,2\n3\n", "a INT, b INT", True)
    path.write_bytes(b"a,b\n1,K\xf6ln\n")
    with pytest.raises(RowError, match="own.csv: line 2, column 'b': the file is not UTF-8"):
        CsvSourceBatchOp(
            filePath=str(path), schemaStr="a INT, b STRING", ignoreFirstLine=True
        ).collectToDataframe()
    path.write_text("a,b\n1,2\n")
    for lenient in (False, True):
        with pytest.raises(
            ConfigurationError,
            match="^CsvSourceBatchOp: .*own.csv: line 1: the column 'b' is number 2 of the file",
        ):
            CsvSourceBatchOp(
                filePath=str(path),
                schemaStr="b STRING, a STRING",
                ignoreFirstLine=True,
                lenient=lenient,
            ).getColNames()
    assert read("1,yes\n2,false\n", "a INT, b BOOLEAN", False).b.tolist() == [True, False]


@pytest.mark.flink
def test_csv_source_reads_blank_lines_other_delimiters_and_http(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "blank.csv").write_text("1,x\n\n2,\n", encoding="utf-8")
    (tmp_path / "odd.csv").write_text("1,x;y,z;", encoding="utf-8")
    blank = CsvSourceBatchOp(filePath=str(tmp_path / "blank.csv"), schemaStr="a INT, b STRING")
    odd = (
        CsvSourceBatchOp(filePath=str(tmp_path / "odd.csv"), schemaStr="a INT, b STRING")
        .setRowDelimiter(";")
        .setLenient(True)
    )
    with served(files={"/a.csv": "h,h\n3,żółć\n".encode()}) as site:
        http = CsvSourceBatchOp(
            filePath=f"{site.url}/a.csv", schemaStr="a INT, b STRING", ignoreFirstLine=True
        )
        http.getColNames()
    frame = blank.unionAll(odd, http).collectToDataframe()
    assert sorted(map(str, zip(frame.a, frame.b))) == [
        "(1, 'x')",
        "(1, 'x')",
        "(2, None)",
        "(3, 'żółć')",
        "(None, 'z')",
    ]
    with pytest.raises(
        RowError, match="CsvSourceBatchOp: .*odd.csv: line 1: expected 2 cells, got 3"
    ):
        CsvSourceBatchOp(
            filePath=f"{tmp_path}/odd.csv", schemaStr="a INT, b STRING", rowDelimiter="\r"
        ).collectToDataframe()


@pytest.mark.flink
@pytest.mark.fault(
    "data", "Packed CSV files are not searched for blank lines and wrong cells as if they were text"
)
def test_csv_source_reads_packed_files(env: MLEnv, tmp_path: pathlib.Path) -> None:
    for name, text in {"plain": "1,x\n2,y\n", "blank": "1,x\n\n2,y\n", "bad": "1,x\nb,y\n"}.items():
        packed = gzip.compress(text.encode(), mtime=0x0A0A0A0A)  # bytes that look like blank lines
        (tmp_path / f"{name}.csv.gz").write_bytes(packed)

    def source(name: str, **params: bool) -> BatchOperator:
        return CsvSourceBatchOp(
            filePath=str(tmp_path / f"{name}.csv.gz"), schemaStr="a INT, b STRING", **params
        )

    for frame in frames(source("plain"), source("blank"), source("bad", lenient=True)):
        assert sorted(frame.b) == ["x", "y"]
    with pytest.raises(RowError, match="bad.csv.gz: line 2, column 'a': expected INT, got 'b'"):
        source("bad").collectToDataframe()


CSV_FILES = pathlib.Path(__file__).parents[2] / "data" / "alink" / "csv"
TIMES_ROW = ["2020-02-03", "10:11:12", "2020-02-03 10:11:12.345", "1.500000000000000000"]
PLAIN = [["1", "1.5", "x", "True"], [None] * 4, ["3", None, "a,b", "False"], ["4", "1e+300", 'say "hi"', "True"],
         ["5", "-0.0", "two", None], [None] * 4]  # fmt: skip
# Each file with parameters and its rows as text; where an error is given, only lenient rows are
# these.
READ: dict[str, tuple[dict[str, Any], list[list[Any]], str]] = {
    "bool.csv": ({"schemaStr": "id INT, flag BOOLEAN, n INT"},
                 [["1", "True", "5"], ["2", "True", "6"], ["3", "True", "7"], ["4", "False", "8"]], ""),
    "crlf.csv": ({"schemaStr": "a STRING, b STRING"}, [["1", "a"], ["2", "b"]], ""),
    "csv_plain.csv": ({"schemaStr": "a BIGINT, b DOUBLE, c STRING, d BOOLEAN"}, PLAIN, ""),
    "csv_tab.csv": ({"schemaStr": "a BIGINT, b DOUBLE, c STRING, d BOOLEAN", "fieldDelimiter": "\t"}, PLAIN, ""),
    "csv_times.csv": ({"schemaStr": "k INT, d DATE, t TIME, ts TIMESTAMP(3), de decimal, b BOOLEAN"},
                      [["2", *TIMES_ROW, "True"], ["3", *TIMES_ROW, "False"]], ""),
    "csv_vec.csv": ({"schemaStr": "v VECTOR, s VECTOR, t TENSOR, x DOUBLE, y DOUBLE"},
                    [["1.0 2.0 3.0", "$4$0:0.5 2:1.0", "FLOAT#2,1#0.5 1.0 ", "0.5", "1.0"],
                     ["0.1 0.2 -3.0", "1:2", "DOUBLE#2#0.1 0.2 ", "1.5", "2.0"]], ""),
    "del.txt": ({"schemaStr": "a INT, b INT", "fieldDelimiter": ";", "rowDelimiter": "|"}, [["1", "2"], ["3", "4"]], ""),
    "num.csv": ({"schemaStr": "a INT, b INT"}, [[None, "2"], [None, "3"], ["4", "5"]], "line 1, column 'a': expected INT, got '1.0'"),
    "q.csv": ({"schemaStr": "id INT, name STRING, x DOUBLE", "ignoreFirstLine": True},
              [["1", "a,b", "1.5"], ["2", None, None], ["3", 'say "hi"', None], ["4", "  sp ", "2500.0"], ["5", "two\nlines", "1.0"]],
              "line 5, column 'x': expected DOUBLE, got 'abc'"),
    "ragged.csv": ({"schemaStr": "a INT, b INT"}, [["1", "2"], ["3", None], ["4", "5"]], "line 2: expected 2 cells, got 1"),
    "single.csv": ({"schemaStr": "a INT, b STRING", "quoteChar": "'"}, [["1", "a,b"], ["2", "it's"]], ""),
    "t.csv": ({"schemaStr": "a INT, b DOUBLE, c BOOLEAN, d TIMESTAMP(3), e DATE, f DECIMAL(38, 2), g STRING", "nullLiteral": "a"},
              [["1", "1.5", "True", "2020-01-02 03:04:05.000", "2020-01-02", "1.50", None], ["2", *[None] * 6],
               ["3", None, "False", "2020-01-02 03:04:05.678", "2020-01-02", "100.00", None]], ""),
    "tab.tsv": ({"schemaStr": "a INT, b INT", "fieldDelimiter": "\t"}, [["1", "2"], ["3", "4"]], ""),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.flink
def test_lenient_and_strict_readers_have_the_same_rules(env: MLEnv) -> None:
    found: dict[tuple[str, bool], pd.DataFrame] = {}
    for name, (params, _, error) in READ.items():
        for lenient in (False, True):
            source = CsvSourceBatchOp(filePath=str(CSV_FILES / name), lenient=lenient, **params)
            if error and not lenient:
                with pytest.raises(RowError, match=re.escape(error)):
                    source.collectToDataframe()
                continue
            key = (name, lenient)
            source.lazyCollectToDataframe(lambda frame, key=key: found.update({key: frame}))
    BatchOperator.execute()
    for (name, lenient), frame in found.items():
        rows = [
            [None if pd.isna(cell) else str(cell) for cell in row]
            for row in frame.astype(object).values.tolist()
        ]
        assert [
            [cell and re.sub(r"(\d\.\d{3})000$", r"\1", cell) for cell in row] for row in rows
        ] == [[cell and cell.removesuffix(".000") for cell in row] for row in READ[name][1]], (
            name,
            lenient,
        )


@pytest.mark.flink
def test_cells_equal_to_a_null_literal_are_null(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "r.csv").write_text("sex,mass\nMALE,3750\nNA,NA\n-,n/a\n", encoding="utf-8")
    csv = {
        "filePath": str(tmp_path / "r.csv"),
        "ignoreFirstLine": True,
        "schemaStr": "sex STRING, mass INT",
    }
    for lenient in (False, True):
        frame = CsvSourceBatchOp(
            **csv, nullLiteral=[*USUAL_NULLS, "-"], lenient=lenient
        ).collectToDataframe()
        assert frame.sex.tolist() == ["MALE", None, None] and frame.mass.dropna().tolist() == [3750]
    with pytest.raises(
        RowError,
        match=r"line 4, column 'mass': expected INT, got 'n/a'; setNullLiteral\('n/a'\) reads",
    ):
        CsvSourceBatchOp(**csv).setNullLiteral("NA").collectToDataframe()


@pytest.mark.flink
@pytest.mark.fault("data", "A CSV file beyond AKDL_CSV_MB is refused where this program reads it")
def test_csv_file_beyond_the_limit_is_refused_where_this_program_reads_it(
    env: MLEnv, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.csv").write_text("12345678901\n" * 1000)
    monkeypatch.setenv("AKDL_CSV_MB", "0.01")
    with served(files={"/large.csv": (tmp_path / "large.csv").read_bytes()}) as site:
        with pytest.raises(
            ConfigurationError, match="large.csv: it has more than 10485 bytes; .*set AKDL_CSV_MB"
        ):
            CsvSourceBatchOp(filePath=f"{site.url}/large.csv", schemaStr="a BIGINT").getColNames()
    for lenient in (False, True):
        source = CsvSourceBatchOp(
            filePath=str(tmp_path / "large.csv"), schemaStr="a BIGINT", lenient=lenient
        )
        assert source.getColNames() == ["a"]


@pytest.mark.flink
@pytest.mark.fault(
    "data", "A folder of CSV files with a foreign file in it is an error that names the file"
)
def test_foreign_file_in_a_folder_of_csv_files_is_named(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "1.csv").write_text("1,2\n")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".1.crc").write_bytes(b"\xff")
    csv = {"filePath": str(tmp_path), "schemaStr": "a INT, b INT"}
    for frame in frames(*(CsvSourceBatchOp(**csv, lenient=each) for each in (False, True))):
        assert frame.values.tolist() == [[1, 2]]
    odd = tmp_path / "odd.csv"
    for text, words in (
        ("1,2,3\n", "line 1: expected 2 cells, got 3"),
        ("\nx,1\n", "line 2, column 'a': expected INT, got 'x'"),
    ):
        odd.write_text(text)
        with pytest.raises(RowError, match=re.escape(f"CsvSourceBatchOp: {odd}: {words}")):
            CsvSourceBatchOp(**csv).collectToDataframe()


@pytest.mark.flink
def test_time_zones_are_the_time_between_rows(env: MLEnv) -> None:
    source = RandomTableSourceStreamOp(maxRows=3, numCols=1).setTimeZones([0.0, 0.02])
    assert source.getColNames() == ["num", "col0"]
    with pytest.raises(
        ConfigurationError,
        match="'timeZones': expected two numbers of seconds, the smaller one first, got",
    ):
        RandomTableSourceStreamOp(timeZones=[2.0, 1.0])


@pytest.mark.flink
def test_a_source_declares_an_event_time(env: MLEnv, tmp_path: pathlib.Path) -> None:
    times = [datetime.datetime(1969, 12, 31, 23, 59, second) for second in (1, 5, 12, 3)]
    (tmp_path / "rows.csv").write_text(
        "".join(f"{time:%F %T},{number}\n" for number, time in enumerate(times))
    )
    schema = "`the time` TIMESTAMP(3), n INT, WATERMARK FOR `the time` AS `the time` - INTERVAL '5' SECOND"
    csv = {"filePath": str(tmp_path), "schemaStr": schema}
    rows = [(time, number) for number, time in enumerate(times)]
    sources = [
        CsvSourceStreamOp(**csv),
        CsvSourceStreamOp(**csv, lenient=True),
        MemSourceStreamOp(rows, schema),
        MemSourceStreamOp(pd.DataFrame(rows, columns=["the time", "n"]), schema),
    ]
    counts = []
    for number, source in enumerate(sources):
        assert source.getColTypes() == ["TIMESTAMP(3) *ROWTIME*", "INT"]
        window = (
            f"TUMBLE(TABLE {source.getOutputTable()}, DESCRIPTOR(`the time`), INTERVAL '10' SECOND)"
        )
        counts.append(
            f"SELECT {number}, COUNT(*), SUM(n) FROM TABLE({window}) GROUP BY window_start, window_end"
        )
    with env.stenv.sql_query(" UNION ALL ".join(counts)).execute().collect() as found:
        assert sorted(tuple(row) for row in found) == [
            (number, *sums) for number in range(len(sources)) for sums in ((1, 2), (3, 4))
        ]
    # which has no watermarks
    for batch in (CsvSourceBatchOp(**csv), MemSourceBatchOp(rows, schema)):
        assert batch.getColTypes() == ["TIMESTAMP(3)", "INT"]


SCHEMA = Schema.parse("id BIGINT, name STRING, day DATE, at TIMESTAMP(3), x DOUBLE")
ROWS = [
    (
        2**60 + 1,
        "żółć",
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4000),
        0.1,
    ),
    (None,) * 5,
]


def ak_bytes(rows: list[tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    writer = AkWriter(file, SCHEMA)
    for row in rows:
        writer.write(row)
    writer.close()
    return file.getvalue()


@pytest.mark.flink
def test_ak_source_reads_folders_and_addresses(env: MLEnv, tmp_path: pathlib.Path) -> None:
    for name in "12":
        (tmp_path / name).write_bytes(ak_bytes(ROWS))
    for unfinished in ("_SUCCESS", "3.ak.0badcafe0badcafe.incomplete"):
        (tmp_path / unfinished).touch()
    with served(files={"/t.ak": ak_bytes(ROWS)}) as site:
        single = AkSourceBatchOp().setFilePath(f"{site.url}/t.ak")
        assert (
            single.getSchemaStr() == "id BIGINT, name STRING, day DATE, at TIMESTAMP(6), x DOUBLE"
        )
    both = AkSourceBatchOp(filePath=str(tmp_path)).unionAll(single)
    frame = both.collectToDataframe()
    assert (
        len(frame) == 6 and set(frame.id.dropna()) == {2**60 + 1} and frame.name.isna().sum() == 3
    )
    assert set(frame["at"].dropna()) == {datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)}
    stream = AkSourceStreamOp(filePath=str(tmp_path / "1"))
    assert stream.getColNames() == SCHEMA.names


@pytest.mark.flink
def test_ak_source_reads_files_of_alink(env: MLEnv) -> None:
    folder = pathlib.Path(__file__).parents[2] / "data" / "alink"
    shanghai = AkSourceBatchOp(
        filePath=str(folder / "tz_Asia_Shanghai.ak"), timeZone="Asia/Shanghai"
    ).collectToDataframe()
    assert shanghai.astype(str).values.tolist() == [
        ["1", "2020-02-03", "10:11:12", "2020-02-03 10:11:12.345", "2020-07-03 10:11:12.000"]
    ]
    config, before = env.btenv.get_config(), env.btenv.get_config().get_local_timezone()
    config.set_local_timezone("America/New_York")
    try:
        source = AkSourceBatchOp(filePath=str(folder / "tz_America_New_York.ak"))
        assert source.collectToDataframe().d.tolist() == [datetime.date(2020, 2, 3)]
    finally:
        config.set_local_timezone(before)
    large = AkSourceBatchOp(filePath=str(folder / "dec38.ak"))
    assert large.getSchemaStr() == "k INT, x DECIMAL(38, 8), y DECIMAL(38, 18), z DECIMAL(38, 18)"
    assert large.collectToDataframe().x.tolist() == [123456789012345678901234567890]
    assert (
        str(
            AkSourceBatchOp(filePath=str(folder / "tms.ak"), timeZone="UTC")
            .collectToDataframe()
            .x[0]
        )
        == "10:11:12.345000"
    )


@pytest.mark.flink
@pytest.mark.fault("data", "An .ak file with decimals of more than 38 digits is refused")
def test_ak_source_refuses_too_long_decimals_and_folders_of_different_tables(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "1").write_bytes(ak_bytes(ROWS))
    with zipfile.ZipFile(tmp_path / "2", "w") as file:
        file.writestr("alink_meta.json", '{"schemaStr":"x DECIMAL"}')
        file.writestr("data", b"ALK\0\0\x0a\0\0\0\0\5\7\x7f\xff\xff\xff")
    with pytest.raises(
        ConfigurationError,
        match="column 'x' has numbers of .* 2147483647 after the decimal point; at most 38 in all",
    ):
        AkSourceBatchOp(filePath=str(tmp_path / "2")).getColNames()
    with pytest.raises(
        ConfigurationError,
        match="AkSourceBatchOp: .* .*/2 and .*/1 have different columns: use one folder per table",
    ):
        AkSourceBatchOp(filePath=str(tmp_path)).getColNames()


@pytest.mark.flink
def test_ak_source_refuses_missing_files_and_empty_folders(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(
        ConfigurationError, match="AkSourceBatchOp: parameter 'filePath': there is no file /nowhere"
    ):
        AkSourceBatchOp(filePath="/nowhere").getColNames()
    with pytest.raises(
        ConfigurationError,
        match="^AkSourceBatchOp: parameter 'filePath': .* is a folder without files$",
    ):
        AkSourceBatchOp(filePath=str(tmp_path)).getColNames()


@pytest.mark.flink
def test_nan_in_an_ak_file_is_a_number(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.ak").write_bytes(ak_bytes([(1, None, None, None, float("nan"))]))
    frame = (
        AkSourceBatchOp(filePath=str(tmp_path / "t.ak"))
        .select("x IS NULL AS is_null")
        .collectToDataframe()
    )
    assert frame.is_null.tolist() == [False]
