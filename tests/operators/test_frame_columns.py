"""Which SQL types hold the columns of a DataFrame, and which DataFrames are refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import MemSourceBatchOp
from operators.frame_columns import fitted, misfit, schema_of_frame


@pytest.mark.parametrize(
    ("cells", "sql"),
    [
        (np.array([1], "int8"), "TINYINT"),
        (np.array([1], "uint8"), "SMALLINT"),
        (np.array([1], "uint32"), "BIGINT"),
        (np.array([1.0], "float32"), "FLOAT"),
        ([1.5, None], "DOUBLE"),
        ([True], "BOOLEAN"),
        (["x", None], "STRING"),
        (["x", float("nan")], "STRING"),
        ([b"x"], "BYTES"),
        (pd.array([1, None], "Int64"), "BIGINT"),
        (pd.array([1, None], "UInt16"), "INT"),
        (pd.array([0.5, None], "Float32"), "FLOAT"),
        (pd.array(["x", None], "string"), "STRING"),
        (pd.array([1, None], "int32[pyarrow]"), "INT"),
        (pd.array([True, None], "boolean"), "BOOLEAN"),
        (pd.Categorical(["x", None]), "STRING"),
        (pd.Categorical([1, 2]), "BIGINT"),
        (pd.to_datetime(["2024-01-01"]), "TIMESTAMP(6)"),
        (pd.to_datetime(["2024-01-01"], utc=True), "TIMESTAMP_LTZ(6)"),
        ([datetime.date(2024, 1, 1)], "DATE"),
        ([datetime.time(1, 2)], "TIME(3)"),
        ([decimal.Decimal("12.50")], "DECIMAL(4, 2)"),
        ([[1, 2], None], "ARRAY<BIGINT>"),
        ([np.array([1.0], "float32")], "ARRAY<FLOAT>"),
    ],
)
def test_types_hold_the_cells(cells: Any, sql: str) -> None:
    schema = schema_of_frame("op", pd.DataFrame({"a b": cells}))
    assert schema == Schema.parse(f"`a b` {sql}")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": [None]}), "op: column 'a' has no cell that is not null: give schemaStr"),
        (pd.DataFrame({"a": []}, dtype=object), "no cell that is not null"),
        (pd.DataFrame({"a": [1, "x"]}), "op: column 'a' has cells of no common type"),
        (pd.DataFrame({"a": pd.to_timedelta(["1s"])}), "op: column 'a' has cells of the type duration"),
        (pd.DataFrame({"a": [[[1]]]}), "cells of the type list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns a"),
        (pd.DataFrame(), "has no columns"),
    ],
)
def test_frames_without_types(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schema_of_frame("op", frame)


def test_columns_are_taken_by_name_and_numbered_ones_in_order() -> None:
    schema = Schema.parse("a BIGINT, b STRING")
    for frame in (pd.DataFrame({"b": ["x"], "a": [1]}), pd.DataFrame([[1, "x"]])):
        assert fitted("op", schema, frame).to_dict("list") == {"a": [1], "b": ["x"]}
    with pytest.raises(ConfigurationError, match="misses a, b and has 1, 0"):
        fitted("op", schema, pd.DataFrame([[1, "x"]])[[1, 0]])


def test_cells_become_what_pyflink_takes() -> None:
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2024-02-29", None]),
            "i": pd.array([1, None], "Int64"),
            "c": pd.Categorical(["x", None]),
            "z": pd.to_datetime([0, 1], unit="s", utc=True).tz_convert("Asia/Shanghai"),
        }
    )
    fit = fitted("op", Schema.parse("day DATE, i BIGINT, c STRING, z TIMESTAMP_LTZ(3)"), frame)
    assert fit.day[0] == datetime.date(2024, 2, 29) and pd.isna(fit.day[1])
    assert fit.i[0] == 1 and fit.i.isna().tolist() == fit.c.isna().tolist() == [False, True]
    assert fit.z[0] == pd.Timestamp(0) and fit.c[0] == "x"


def test_a_cell_that_does_not_fit_is_found_by_its_column() -> None:
    schema, arrow = Schema.parse("a BIGINT, t TIMESTAMP(3)"), pa.schema([("a", pa.int64()), ("t", pa.timestamp("ms"))])
    good = pd.DataFrame({"a": [1], "t": [pd.Timestamp("2024-01-01")]})
    assert misfit("op", schema, good, arrow) is None
    error = misfit("op", schema, good.assign(t=[pd.Timestamp("2024-01-01 00:00:00.123456")]), arrow)
    assert str(error).startswith("op: column 't' does not fit TIMESTAMP(3): ") and str(error).endswith(".dt.floor")
    assert "column 'a' does not fit BIGINT" in str(misfit("op", schema, good.assign(a=["x"]), arrow))


def test_only_dataframes_need_no_schema() -> None:
    MemSourceBatchOp(pd.DataFrame({"a": [1]}))
    with pytest.raises(ConfigurationError, match="got None: types are not guessed"):
        MemSourceBatchOp([(1,)])
