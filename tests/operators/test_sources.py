"""Sources: the rows they make and what they refuse."""

from __future__ import annotations

import datetime
import decimal
import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError
from operators import (
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
from tests.support.http import served


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(2)
    resetEnv()


@pytest.mark.flink
def test_random_columns_follow_their_distributions(env: MLEnv) -> None:
    confs = "u:uniform(2,4);o:uniform_open(-1,0);g:gauss(10,2);w:weight_set(1,1,5,3);p:poisson(3);n:uniform(0,1,nullper=0.25)"
    source = RandomTableSourceBatchOp(numRows=20_000, numCols=7, outputCols=list("uogwpnd"), outputColConfs=confs, idCol="id")
    assert source.getColNames() == ["id", *"uogwpnd"]
    assert {kind.replace(" NOT NULL", "") for kind in source.getColTypes()[1:]} == {"DOUBLE"}
    frame = source.collectToDataframe()
    assert sorted(frame.id) == list(range(20_000))
    assert frame.u.between(2, 4).all() and frame.u.mean() == pytest.approx(3, abs=0.05)
    assert frame.o.between(-1, 0).all() and (frame.o < 0).all()
    assert frame.g.mean() == pytest.approx(10, abs=0.1) and frame.g.std() == pytest.approx(2, abs=0.1)
    assert set(frame.w) == {1, 5} and (frame.w == 5).mean() == pytest.approx(0.75, abs=0.02)
    assert frame.p.mean() == pytest.approx(3, abs=0.1) and frame.p.var() == pytest.approx(3, abs=0.2)
    assert frame.n.isna().mean() == pytest.approx(0.25, abs=0.02)
    assert frame.d.between(0, 1).all()
    assert np.allclose(frame[["u", "o", "g", "d"]].corr(), np.eye(4), atol=0.05)  # columns do not share draws


@pytest.mark.flink
def test_random_columns_have_names_by_default(env: MLEnv) -> None:
    assert RandomTableSourceBatchOp().setNumRows(5).setNumCols(3).getColNames() == ["col0", "col1", "col2"]


@pytest.mark.flink
@pytest.mark.parametrize("rows", [0, 1])
def test_few_random_rows(env: MLEnv, rows: int) -> None:
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
def test_names_that_do_not_fit_the_number_of_columns(env: MLEnv) -> None:
    with pytest.raises(ConfigurationError, match="outputCols has 2 names, numCols is 3"):
        RandomTableSourceBatchOp(numRows=1, numCols=3, outputCols=["a", "b"]).getColNames()
    with pytest.raises(ConfigurationError, match="idCol 'a' is a name in outputCols too"):
        RandomTableSourceBatchOp(numRows=1, numCols=1, outputCols=["a"], idCol="a").getColNames()


CSV_SCHEMA = "id LONG, name STRING, score DOUBLE, day DATE, at TIMESTAMP(3), ok BOOLEAN, money DECIMAL(4, 1)"
CSV_ROWS = '1;"a;b";0.5;2024-02-29;2024-02-29 01:02:03.004;true;1.5\n2;;;;;;\n'


@pytest.mark.flink
@pytest.mark.parametrize("header", ["", "the;header;is;not;read;here;at all\n"])
def test_csv(env: MLEnv, tmp_path: pathlib.Path, header: str) -> None:
    (tmp_path / "one.csv").write_text(header + CSV_ROWS, encoding="utf-8")
    (tmp_path / "two.csv").write_text(header + CSV_ROWS.replace("29 01", "29T01"), encoding="utf-8")  # as ISO 8601 has it
    source = CsvSourceBatchOp().setFilePath(str(tmp_path)).setSchemaStr(CSV_SCHEMA).setFieldDelimiter(";")
    frame = source.setIgnoreFirstLine(bool(header)).collectToDataframe().sort_values("id")
    assert source.getColTypes() == ["BIGINT", "STRING", "DOUBLE", "DATE", "TIMESTAMP(3)", "BOOLEAN", "DECIMAL(4, 1)"]
    assert frame.id.tolist() == [1, 1, 2, 2]
    for _, row in frame[:2].iterrows():
        assert row.tolist()[1:4] == ["a;b", 0.5, datetime.date(2024, 2, 29)]
        assert row.tolist()[4:] == [pd.Timestamp("2024-02-29 01:02:03.004"), True, decimal.Decimal("1.5")]
    assert frame[2:].drop(columns="id").isna().all(axis=None)


@pytest.mark.flink
def test_csv_that_cannot_be(env: MLEnv, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="'filePath': there is no file /nowhere/at.csv"):
        CsvSourceBatchOp(filePath="/nowhere/at.csv", schemaStr="a INT").getColNames()
    with pytest.raises(ConfigurationError, match="ignoreFirstLine cannot be used with the column 'a' of type ARRAY<INT>"):
        CsvSourceBatchOp(filePath=str(tmp_path), schemaStr="a ARRAY<INT>", ignoreFirstLine=True).getColNames()


@pytest.mark.flink
def test_csv_with_wrong_cells(env: MLEnv, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "own.csv"

    def read(text: str, schema: str, header: bool) -> pd.DataFrame:
        path.write_text("a,b\n" * header + text, encoding="utf-8")
        return CsvSourceBatchOp(filePath=str(path), schemaStr=schema, ignoreFirstLine=header).collectToDataframe()

    for cell, kind, header in (
        ("three", "INT", True),
        ("3.7", "INT", True),
        ("x", "DECIMAL(5, 2)", True),
        ("x", "DATE", False),
    ):
        with pytest.raises(ConfigurationError) as raised:
            read(f"1,\n2,{cell}\n", f"a INT, b {kind}", header)
        told = f"CsvSourceBatchOp: {path}, line {2 + header}: the column 'b': {cell!r} is no {kind}; "
        assert str(raised.value).startswith(told) and str(raised.value).endswith("; setLenient(True) makes it null")
    with pytest.raises(ConfigurationError, match="own.csv, line 3: expected 2 cells, got 1; setLenient"):
        read("1,2\n3\n", "a INT, b INT", True)
    path.write_bytes(b"a,b\n1,K\xf6ln\n")
    with pytest.raises(ConfigurationError, match="own.csv: the file is not UTF-8"):
        CsvSourceBatchOp(filePath=str(path), schemaStr="a INT, b STRING", ignoreFirstLine=True).collectToDataframe()
    assert read("1,yes\n2,false\n", "a INT, b BOOLEAN", False).b.tolist() == [True, False]


@pytest.mark.flink
def test_csv_that_this_program_reads(env: MLEnv, tmp_path: pathlib.Path) -> None:
    (tmp_path / "blank.csv").write_text("1,x\n\n2,\n", encoding="utf-8")
    (tmp_path / "odd.csv").write_text("1,x;y,z;", encoding="utf-8")
    blank = CsvSourceBatchOp(filePath=str(tmp_path / "blank.csv"), schemaStr="a INT, b STRING")
    odd = (
        CsvSourceBatchOp(filePath=str(tmp_path / "odd.csv"), schemaStr="a INT, b STRING").setRowDelimiter(";").setLenient(True)
    )
    with served(files={"/a.csv": "h,h\n3,żółć\n".encode()}) as site:
        http = CsvSourceBatchOp(filePath=f"{site.url}/a.csv", schemaStr="a INT, b STRING", ignoreFirstLine=True)
        http.getColNames()
    frame = blank.unionAll(odd, http).collectToDataframe()
    assert sorted(map(str, zip(frame.a, frame.b))) == ["(1, 'x')", "(1, 'x')", "(2, None)", "(3, 'żółć')", "(None, 'z')"]
    with pytest.raises(ConfigurationError, match="CsvSourceBatchOp: .*odd.csv, line 1: expected 2 cells, got 3"):
        CsvSourceBatchOp(filePath=str(tmp_path / "odd.csv"), schemaStr="a INT, b STRING", rowDelimiter="\r").getColNames()


@pytest.mark.flink
def test_time_zones_are_the_time_between_rows(env: MLEnv) -> None:
    source = RandomTableSourceStreamOp(maxRows=3, numCols=1).setTimeZones([0.0, 0.02])
    assert source.getColNames() == ["num", "col0"]
    with pytest.raises(ConfigurationError, match="'timeZones': expected two numbers of seconds, the smaller one first, got"):
        RandomTableSourceStreamOp(timeZones=[2.0, 1.0])


@pytest.mark.flink
def test_a_source_declares_an_event_time(env: MLEnv, tmp_path: pathlib.Path) -> None:
    times = [datetime.datetime(1969, 12, 31, 23, 59, second) for second in (1, 5, 12, 3)]
    (tmp_path / "rows.csv").write_text("".join(f"{time:%F %T},{number}\n" for number, time in enumerate(times)))
    schema = "`the time` TIMESTAMP(3), n INT, WATERMARK FOR `the time` AS `the time` - INTERVAL '5' SECOND"
    csv = {"filePath": str(tmp_path), "schemaStr": schema}
    rows = [(time, number) for number, time in enumerate(times)]
    sources = [
        CsvSourceStreamOp(**csv),
        CsvSourceStreamOp(**csv, lenient=True),
        MemSourceStreamOp(rows, schema),
        MemSourceStreamOp(pd.DataFrame(rows, columns=["the time", "n"]), schema),
    ]
    for source in sources:
        assert source.getColTypes() == ["TIMESTAMP(3) *ROWTIME*", "INT"]
        window = f"TUMBLE(TABLE {source.getOutputTable()}, DESCRIPTOR(`the time`), INTERVAL '10' SECOND)"
        counts = env.stenv.sql_query(f"SELECT COUNT(*), SUM(n) FROM TABLE({window}) GROUP BY window_start, window_end")
        with counts.execute().collect() as found:
            assert sorted(tuple(row) for row in found) == [(1, 2), (3, 4)]
    for batch in (CsvSourceBatchOp(**csv), MemSourceBatchOp(rows, schema)):  # which has no watermarks
        assert batch.getColTypes() == ["TIMESTAMP(3)", "INT"]
