"""Rows from memory: what becomes of them and which are refused."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.program_folder import program_folder
from operators import (
    BatchOperator,
    CsvSourceBatchOp,
    MemSourceBatchOp,
    MLEnv,
    resetEnv,
    useLocalEnv,
)
from tests.bridge.flink.test_input_types import CELLS


def test_other_objects_and_unknown_types_are_refused() -> None:
    with pytest.raises(
        ConfigurationError,
        match="expected a list of rows, a pandas DataFrame or an object .*; got a str",
    ):
        MemSourceBatchOp("abc", "a INT")
    with pytest.raises(
        ConfigurationError, match="MemSourceBatchOp: parameter 'schemaStr': .*unknown type 'INTT'"
    ):
        MemSourceBatchOp([], "a INTT")


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(2)
    resetEnv()


SCHEMA = "flag BOOLEAN, big LONG, x DOUBLE, name STRING, data BYTES, money DECIMAL(5, 2), day DATE, at TIMESTAMP(3), v ARRAY<INT>"
ROWS = [
    (True, 2**53 + 1, 0.5, "żółć", b"\x00", decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
     datetime.datetime(2024, 1, 2, 3, 4, 5, 6000), [1, 2]),
    (None,) * 9,
]  # fmt: skip


@pytest.mark.flink
def test_rows_from_memory_come_back_exact(env: MLEnv) -> None:
    frame = MemSourceBatchOp(ROWS, SCHEMA).collectToDataframe()
    full = frame[frame.big.notna()].iloc[0]
    assert full.flag is True and full.big == 2**53 + 1 and full.x == 0.5 and full["name"] == "żółć"
    assert (
        full.data == b"\x00"
        and full.money == decimal.Decimal("1.25")
        and full.day == datetime.date(2024, 2, 29)
    )
    assert full["at"] == pd.Timestamp("2024-01-02 03:04:05.006") and list(full.v) == [1, 2]
    assert frame[frame.big.isna()].isna().all(axis=None)


@pytest.mark.flink
@pytest.mark.fault("data")
def test_tables_from_memory_leave_no_folders(
    env: MLEnv, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_folder()  # goes with the program
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = MemSourceBatchOp([(1, "a")], "id BIGINT, s STRING")
    frame = BatchOperator.fromDataframe(pd.DataFrame({"id": [2]}), "id BIGINT")
    assert [len(op.collectToDataframe()) for op in (rows, frame)] == [1, 1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


@pytest.mark.flink
def test_tables_from_memory_may_have_no_rows(env: MLEnv) -> None:
    empty = MemSourceBatchOp([], "a LONG, b ARRAY<STRING>")
    assert empty.getColTypes() == ["BIGINT", "ARRAY<STRING>"]
    assert len(empty.collectToDataframe()) == 0
    frame = BatchOperator.fromDataframe(pd.DataFrame({"a": [], "b": []}), "a LONG, b STRING")
    assert len(frame.collectToDataframe()) == 0


@pytest.mark.flink
def test_nulls_of_a_dataframe_come_back(env: MLEnv) -> None:
    frame = pd.DataFrame(
        {"i": [1.0, None], "f": [0.5, float("nan")], "s": [None, "x"], "b": [True, None]},
        index=[7, 9],
    )
    back = BatchOperator.fromDataframe(
        frame, "i LONG, f DOUBLE, s STRING, b BOOLEAN"
    ).collectToDataframe()
    assert back.i.tolist() == [1, None]
    assert back.f.dtype == "float64" and back.f[0] == 0.5 and np.isnan(back.f[1])
    assert back.s.tolist() == [None, "x"]
    assert back.b.tolist() == [True, None]


@pytest.mark.flink
@pytest.mark.parametrize("columns", [["b", "a"], ["a", "b"]])
def test_columns_of_a_dataframe_are_taken_by_their_names(env: MLEnv, columns: list[str]) -> None:
    back = BatchOperator.fromDataframe(
        pd.DataFrame({"a": [1, 2], "b": [3, 4]})[columns], "a LONG, b LONG"
    ).collectToDataframe()
    assert back.a.tolist() == [1, 2] and back.b.tolist() == [3, 4]


@pytest.mark.flink
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pd.DataFrame({"b": ["x"], "c": [2]}),
            "the data lacks a and has c, which the schema lacks: .*frame\\[\\['a', 'b'\\]\\]",
        ),
        (pd.DataFrame({"a": [1], "b": ["x"], "c": [2]}), "the data has c, which the schema lacks"),
        ([(1, "a"), (2,)], r"row 1: expected 2 cells, got 1"),
        ([(1, "a"), 5], r"row 1"),
        ([("x", "a")], r"MemSourceBatchOp: .*a"),
        (pd.DataFrame({"a": [1]}), "MemSourceBatchOp: .*lacks b: "),
        (pd.DataFrame([[1]]), "expected 2 columns, got 1"),
        (
            pd.DataFrame({"a": ["x"], "b": ["y"]}),
            "MemSourceBatchOp: column 'a' does not fit BIGINT: ",
        ),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused(env: MLEnv, data: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MemSourceBatchOp(data, "a LONG, b STRING").getOutputTable()


@pytest.mark.flink
def test_a_dataframe_without_schema_comes_back(env: MLEnv) -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([2**53 + 1, None], "Int64"),
            "s": pd.array(["żółć", None], "string"),
            "b": pd.array([True, None], "boolean"),
            "c": pd.Categorical(["high", None], ["low", "high"]),
            "n": pd.Categorical([7, 9]),
            "d": [datetime.date(2024, 2, 29), None],
            "t": pd.to_datetime(["2024-02-29 12:00", None]),
            "x": [0.5, None],
            "v": [np.array([1.0, 2.0], "float32"), None],
        }
    )
    source = BatchOperator.fromDataframe(frame)
    types = [
        "BIGINT",
        "STRING",
        "BOOLEAN",
        "STRING",
        "BIGINT",
        "DATE",
        "TIMESTAMP(6)",
        "DOUBLE",
        "ARRAY<FLOAT>",
    ]
    assert source.getColTypes() == types
    back = source.collectToDataframe()
    assert (
        back.i.tolist() == [2**53 + 1, None]
        and back.s.tolist() == ["żółć", None]
        and back.b.tolist() == [True, None]
    )
    assert (
        back.c.tolist() == ["high", None]
        and back.n.tolist() == [7, 9]
        and back.d.tolist() == frame.d.tolist()
    )
    assert back.t[0] == frame.t[0] and back.t.isna().tolist() == [False, True]
    assert (
        back.x.isna().tolist() == [False, True]
        and list(back.v[0]) == [1.0, 2.0]
        and back.v[1] is None
    )


@pytest.mark.flink
def test_instants_of_a_dataframe_stay_the_same_in_every_time_zone(env: MLEnv) -> None:
    config = env.btenv.get_config()
    frame = pd.DataFrame(
        {"t": pd.to_datetime([0], unit="s", utc=True).tz_convert("Europe/Berlin"), "n": [1]}
    )
    before = config.get_local_timezone()
    config.set_local_timezone("Asia/Shanghai")
    try:
        source = BatchOperator.fromDataframe(frame, "t TIMESTAMP_LTZ(3), n LONG")
        back = source.select("t, CAST(t AS STRING) AS s").collectToDataframe()
    finally:
        config.set_local_timezone(before)
    assert back.s.tolist() == ["1970-01-01 08:00:00.000"] and back.t.tolist() == frame.t.tolist()


@pytest.mark.flink
def test_tensors_are_their_elements(env: MLEnv) -> None:
    tensor = np.array([[1.5, 2.0], [3.0, 4.0]], np.float32)
    source = MemSourceBatchOp([(tensor, "0.5 1")], "t FLOAT_TENSOR, v VECTOR")
    assert source.getColTypes() == ["ARRAY<FLOAT>", "STRING"]
    (row,) = source.collectToDataframe().itertuples(index=False)
    assert (list(row.t), row.v) == ([1.5, 2.0, 3.0, 4.0], "0.5 1")


NEVER_NULL = {
    sql: f"{sql[:-1]} NOT NULL> NOT NULL" if sql.startswith("ARRAY") else f"{sql} NOT NULL"
    for sql, _, _ in CELLS
}


@pytest.mark.flink
def test_types_that_are_never_null(env: MLEnv, tmp_path: pathlib.Path) -> None:
    """On all doors that make a CAST of a type, which takes no NOT NULL; the cells are those of
    test_input_types.py.
    """
    schema = ", ".join(f"c{place} {sql}" for place, sql in enumerate(NEVER_NULL.values()))
    empty = MemSourceBatchOp([], schema)
    assert empty.getColTypes() == list(NEVER_NULL.values())
    for place, sql in enumerate(NEVER_NULL.values()):
        empty = empty.convertTypes(f"c{place}", sql)
    scalars = [sql for sql in NEVER_NULL if not sql.startswith(("ARRAY", "BYTES", "BINARY"))]
    (tmp_path / "rows.csv").write_text("," * len(scalars) + "\n")
    schema = ", ".join(f"c{place} {NEVER_NULL[sql]}" for place, sql in enumerate(scalars))
    read = CsvSourceBatchOp(
        filePath=str(tmp_path), schemaStr=f"{schema}, s STRING", ignoreFirstLine=True
    )
    assert read.getColTypes() == [*scalars, "STRING"]


@pytest.mark.flink
@pytest.mark.parametrize("lenient", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.fault("data", "An empty cell of a file is null, even in a NOT NULL column")
def test_an_empty_cell_of_a_file_is_null_whatever_its_schema_says(
    env: MLEnv, tmp_path: pathlib.Path, lenient: bool
) -> None:
    (tmp_path / "rows.csv").write_text("1,a\n,\n")
    read = CsvSourceBatchOp(
        filePath=str(tmp_path), schemaStr="n INT NOT NULL, s STRING NOT NULL", lenient=lenient
    )
    assert sorted(
        read.select("n, s IS NULL AS absent").collectToDataframe().values.tolist(), key=str
    ) == [
        [1, False],
        [None, True],
    ]


@pytest.mark.flink
@pytest.mark.fault("data", "A missing cell of a DataFrame in a NOT NULL column is refused")
def test_a_missing_cell_of_a_dataframe_is_refused_where_null_is(env: MLEnv) -> None:
    """Flink would make -1 of it."""
    frame = pd.DataFrame({"a": [1, None], "b": ["x", "y"]})
    with pytest.raises(
        ConfigurationError,
        match="column 'a' does not fit INT NOT NULL: row 1: expected a value, since it is NOT NULL",
    ):
        BatchOperator.fromDataframe(frame, "a INT NOT NULL, b STRING NOT NULL").getColNames()
