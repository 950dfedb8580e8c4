"""Which SQL types hold the columns of a DataFrame, and which DataFrames are refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import MemSourceBatchOp
from operators.flink.arrow_columns import columns_of_frame, schema_of_frame


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
        (
            pd.DataFrame({"a": [None]}),
            "op: column 'a' has no rows or only null cells, and so no type: set schemaStr",
        ),
        (pd.DataFrame({"a": ["x"]})[:0], "has no rows"),
        (pd.DataFrame({"a": [1, "x"]}), "op: column 'a' has cells without a common type"),
        (
            pd.DataFrame({"a": pd.to_timedelta(["1s"])}),
            "op: column 'a' has cells of the type duration",
        ),
        (pd.DataFrame({"a": [[[1]]]}), "cells of the type list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns named a"),
        (pd.DataFrame(), "has no columns"),
    ],
)
def test_dataframes_whose_columns_have_no_type_are_refused(
    frame: pd.DataFrame, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schema_of_frame("op", frame)


def test_columns_are_taken_by_name_and_numbered_ones_in_order() -> None:
    schema = Schema.parse("a BIGINT, b STRING")
    for frame in (pd.DataFrame({"b": ["x"], "a": [1]}), pd.DataFrame([[1, "x"]])):
        assert [cells.to_pylist() for cells in columns_of_frame("op", schema, frame)] == [
            [1],
            ["x"],
        ]
    with pytest.raises(ConfigurationError, match="lacks a, b and has 1, 0"):
        columns_of_frame("op", schema, pd.DataFrame([[1, "x"]])[[1, 0]])


def test_missing_values_are_nulls_and_instants_are_in_utc() -> None:
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2024-02-29", None]),
            "i": pd.array([1, None], "Int64"),
            "x": [1.0, None],
            "c": pd.Categorical(["x", None]),
            "z": pd.to_datetime([0, 1], unit="s", utc=True).tz_convert("Asia/Shanghai"),
        }
    )
    schema = Schema.parse("day DATE, i BIGINT, x DOUBLE, c STRING, z TIMESTAMP_LTZ(3)")
    day, i, x, c, z = columns_of_frame("op", schema, frame)
    # nanoseconds
    assert day.is_null().to_pylist() == [False, True] and z.cast("int64").to_pylist() == [0, 10**9]
    assert [cells.to_pylist() for cells in (i, x)] == [[1, None], [1.0, None]]
    assert c.cast("string").to_pylist() == ["x", None]


def test_only_dataframes_need_no_schema() -> None:
    MemSourceBatchOp(pd.DataFrame({"a": [1]}))
    with pytest.raises(ConfigurationError, match="got None: types are not guessed"):
        MemSourceBatchOp([(1,)])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"city": ["Rome"], "n": [1]}).groupby("city").sum(),
            "index of the DataFrame (city) is not part of",
        ),
        (
            pd.DataFrame({"a": [1], "b": [2], "n": [1]}).set_index(["a", "b"]),
            "index of the DataFrame (a, b) is not part of",
        ),
        (
            pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
            "index of the DataFrame (2 levels) is not",
        ),
        (pd.DataFrame({"n": [1]}, index=[7]), ""),
        (pd.DataFrame({"n": [1]}), ""),
    ],
)
@pytest.mark.fault("data", "A named index of a DataFrame that is left out leads to a warning")
def test_dropped_index_of_a_dataframe_is_warned_of(
    frame: pd.DataFrame, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    MemSourceBatchOp(frame)
    assert [message in text for text in caplog.messages] == [True] * bool(message)


@pytest.mark.parametrize(
    ("cells", "is_told"),
    [
        (pd.Categorical(["s", "l", None], ["s", "l"]), False),
        (pd.Categorical(["s", "l"], ["s", "l"], ordered=True), True),
        (pd.Categorical(["s", None], ["s", "l"]), True),
        (pd.Categorical([1, 1], [2, 1]), True),
        (["s", "l"], False),
    ],
)
def test_order_and_unused_labels_of_categories_are_warned_of(
    cells: Any, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    MemSourceBatchOp(pd.DataFrame({"size": cells, "n": 1}))
    assert (
        "the order and the unused labels of categories (size) are not part of the table"
        in caplog.text
    ) is is_told


def test_attrs_are_warned_of_and_columns_of_several_levels_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = pd.DataFrame({"n": [1]})
    frame.attrs["unit"] = "km"
    MemSourceBatchOp(frame)
    assert "the attrs of the DataFrame (unit) are not part of the table" in caplog.text
    with pytest.raises(ConfigurationError, match="have 2 levels: join them"):
        MemSourceBatchOp(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])))
