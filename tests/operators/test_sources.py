"""Sources: the rows they make and what they refuse."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, CsvSourceBatchOp, MemSourceBatchOp, RandomTableSourceBatchOp, resetEnv, useLocalEnv
from operators.sources import _distributions, _expression, _poisson

NAMES = ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a:uniform(0,1)", {"a": ("uniform", [0, 1], 0)}),
        (" a : gauss( 0 , 1.5 , nullper=0.1 ) ; b:poisson(3);", {"a": ("gauss", [0, 1.5], 0.1), "b": ("poisson", [3], 0)}),
        ("b:weight_set(1,0.3,2,0.7)", {"b": ("weight_set", [1, 0.3, 2, 0.7], 0)}),
        ("a:uniform_open(-1e3,+2)", {"a": ("uniform_open", [-1000, 2], 0)}),
        ("a:poisson(3,nullper=0.25)", {"a": ("poisson", [3], 0.25)}),
    ],
)
def test_distributions(text, expected):
    assert _distributions(text, NAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "c:uniform(0,1)", "a", "a:uniform", "a:uniform(0)", "a:normal(0,1)", "a:gauss(0,x)", "a:poisson(-1)",
        "a:weight_set(1,0.5,2)", "a:weight_set(1,0)", "a:uniform(0,1,nullper=2)",
    ],
)  # fmt: skip
def test_distributions_that_cannot_be(text):
    with pytest.raises(ConfigurationError, match="'outputColConfs': expected .*, got "):
        _distributions(text, NAMES)


def test_each_expression_draws_its_own_numbers():
    draws = []
    _expression(("gauss", [0.0, 1.0], 0.5), draws)
    _expression(None, draws)
    assert draws == ["u0", "u1", "u2", "u3"]


def test_probabilities_of_poisson():
    probabilities = _poisson(2.5)
    assert sum(probabilities) == pytest.approx(1)
    assert sum(k * p for k, p in enumerate(probabilities)) == pytest.approx(2.5)


def test_rows_from_memory_that_do_not_fit():
    with pytest.raises(ConfigurationError, match="expected a list of rows or a pandas DataFrame, got a str"):
        MemSourceBatchOp("abc", "a INT")
    with pytest.raises(ConfigurationError, match="MemSourceBatchOp: parameter 'schemaStr': .*unknown type 'INTT'"):
        MemSourceBatchOp([], "a INTT")


@pytest.fixture(scope="module")
def env():
    yield useLocalEnv(2)
    resetEnv()


@pytest.mark.flink
def test_random_columns_follow_their_distributions(env):
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
def test_random_columns_have_names_by_default(env):
    assert RandomTableSourceBatchOp().setNumRows(5).setNumCols(3).getColNames() == ["col0", "col1", "col2"]


@pytest.mark.flink
@pytest.mark.parametrize("rows", [0, 1])
def test_few_random_rows(env, rows):
    frame = RandomTableSourceBatchOp(numRows=rows, numCols=2).collectToDataframe()
    assert len(frame) == rows and list(frame.columns) == ["col0", "col1"]


@pytest.mark.flink
def test_parameters_are_fixed_once_there_is_a_table(env):
    source = RandomTableSourceBatchOp().setNumRows(5)
    with pytest.raises(ConfigurationError, match="set 'numCols' before"):
        source.getColNames()
    assert source.setNumCols(1).getColNames() == ["col0"]
    with pytest.raises(ConfigurationError, match="'numRows' is set too late"):
        source.setNumRows(6)


@pytest.mark.flink
def test_names_that_do_not_fit_the_number_of_columns(env):
    with pytest.raises(ConfigurationError, match="outputCols has 2 names, numCols is 3"):
        RandomTableSourceBatchOp(numRows=1, numCols=3, outputCols=["a", "b"]).getColNames()
    with pytest.raises(ConfigurationError, match="idCol 'a' is a name in outputCols too"):
        RandomTableSourceBatchOp(numRows=1, numCols=1, outputCols=["a"], idCol="a").getColNames()


SCHEMA = (
    "flag BOOLEAN, big LONG, x DOUBLE, name STRING, data BYTES, money DECIMAL(5, 2), day DATE, at TIMESTAMP(3), v ARRAY<INT>"
)
ROWS = [
    (True, 2**53 + 1, 0.5, "żółć", b"\x00", decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
     datetime.datetime(2024, 1, 2, 3, 4, 5, 6000), [1, 2]),
    (None,) * 9,
]  # fmt: skip


@pytest.mark.flink
def test_rows_from_memory(env):
    frame = MemSourceBatchOp(ROWS, SCHEMA).collectToDataframe()
    full = frame[frame.big.notna()].iloc[0]
    assert full.flag is True and full.big == 2**53 + 1 and full.x == 0.5 and full["name"] == "żółć"
    assert full.data == b"\x00" and full.money == decimal.Decimal("1.25") and full.day == datetime.date(2024, 2, 29)
    assert full["at"] == pd.Timestamp("2024-01-02 03:04:05.006") and list(full.v) == [1, 2]
    assert frame[frame.big.isna()].isna().all(axis=None)


@pytest.mark.flink
def test_no_rows_from_memory(env):
    empty = MemSourceBatchOp([], "a LONG, b ARRAY<STRING>")
    assert empty.getColTypes() == ["BIGINT", "ARRAY<STRING>"]
    assert len(empty.collectToDataframe()) == 0
    frame = BatchOperator.fromDataframe(pd.DataFrame({"a": [], "b": []}), "a LONG, b STRING")
    assert len(frame.collectToDataframe()) == 0


@pytest.mark.flink
def test_a_dataframe_with_nulls(env):
    frame = pd.DataFrame({"i": [1.0, None], "f": [0.5, float("nan")], "s": [None, "x"], "b": [True, None]}, index=[7, 9])
    back = BatchOperator.fromDataframe(frame, "i LONG, f DOUBLE, s STRING, b BOOLEAN").collectToDataframe()
    assert back.i.tolist() == [1, None]
    assert back.f.tolist() == [0.5, None]
    assert back.s.tolist() == [None, "x"]
    assert back.b.tolist() == [True, None]


@pytest.mark.flink
def test_instants_of_a_dataframe_stay_the_same_in_every_time_zone(env):
    config = env.btenv.get_config()
    frame = pd.DataFrame({"t": pd.to_datetime([0], unit="s", utc=True).tz_convert("Europe/Berlin"), "n": [1]})
    before = config.get_local_timezone()
    config.set_local_timezone("Asia/Shanghai")
    try:
        source = BatchOperator.fromDataframe(frame, "t TIMESTAMP_LTZ(3), n LONG")
        back = source.select("t, CAST(t AS STRING) AS s").collectToDataframe()
    finally:
        config.set_local_timezone(before)
    assert back.s.tolist() == ["1970-01-01 08:00:00.000"] and back.t.tolist() == frame.t.tolist()


@pytest.mark.flink
@pytest.mark.parametrize("columns", [["b", "a"], ["a", "b"]])
def test_columns_of_a_dataframe_are_taken_by_their_names(env, columns):
    back = BatchOperator.fromDataframe(pd.DataFrame({"a": [1, 2], "b": [3, 4]})[columns], "a LONG, b LONG").collectToDataframe()
    assert back.a.tolist() == [1, 2] and back.b.tolist() == [3, 4]


@pytest.mark.flink
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"b": [1], "c": [2]}), "has the columns b, c, the schema a, b: b would get another column's values"),
        ([(1, "a"), (2,)], r"row 1 has 1 cells for a schema of 2"),
        ([(1, "a"), 5], r"row 1"),
        ([("x", "a")], r"MemSourceBatchOp: .*a"),
        (pd.DataFrame({"a": [1]}), "1 columns for a schema of 2"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "MemSourceBatchOp: "),
    ],
)
def test_rows_from_memory_that_do_not_fit_the_schema(env, data, message):
    with pytest.raises(ConfigurationError, match=message):
        MemSourceBatchOp(data, "a LONG, b STRING").getOutputTable()


CSV_SCHEMA = "id LONG, name STRING, score DOUBLE, day DATE, at TIMESTAMP(3), ok BOOLEAN, money DECIMAL(4, 1)"
CSV_ROWS = '1;"a;b";0.5;2024-02-29;2024-02-29 01:02:03.004;true;1.5\n2;;;;;;\n'


@pytest.mark.flink
@pytest.mark.parametrize("header", ["", "the;header;is;not;read;here;at all\n"])
def test_csv(env, tmp_path, header):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(header + CSV_ROWS, encoding="utf-8")
    source = CsvSourceBatchOp().setFilePath(str(tmp_path)).setSchemaStr(CSV_SCHEMA).setFieldDelimiter(";")
    frame = source.setIgnoreFirstLine(bool(header)).collectToDataframe().sort_values("id")
    assert source.getColTypes() == ["BIGINT", "STRING", "DOUBLE", "DATE", "TIMESTAMP(3)", "BOOLEAN", "DECIMAL(4, 1)"]
    assert frame.id.tolist() == [1, 1, 2, 2]
    for _, row in frame[:2].iterrows():
        assert row.tolist()[1:4] == ["a;b", 0.5, datetime.date(2024, 2, 29)]
        assert row.tolist()[4:] == [pd.Timestamp("2024-02-29 01:02:03.004"), True, decimal.Decimal("1.5")]
    assert frame[2:].drop(columns="id").isna().all(axis=None)


@pytest.mark.flink
def test_csv_that_cannot_be(env, tmp_path):
    with pytest.raises(ConfigurationError, match="'filePath': there is no file /nowhere/at.csv"):
        CsvSourceBatchOp(filePath="/nowhere/at.csv", schemaStr="a INT").getColNames()
    with pytest.raises(ConfigurationError, match="ignoreFirstLine cannot be used with the column 'a' of type ARRAY<INT>"):
        CsvSourceBatchOp(filePath=str(tmp_path), schemaStr="a ARRAY<INT>", ignoreFirstLine=True).getColNames()
