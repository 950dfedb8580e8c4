"""Rows that come back as a DataFrame."""

from __future__ import annotations

import datetime
import decimal
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyflink.table import StreamTableEnvironment, Table

from operators import MLEnv
from operators.flink.collect import arrow_of, frame_of, still_there
from operators.flink.joint_job import collect

pytestmark = pytest.mark.flink


TYPES = {
    "BOOLEAN": ("TRUE", True, "bool"),
    "TINYINT": ("1", 1, "int8"),
    "SMALLINT": ("2", 2, "int16"),
    "INT": ("3", 3, "int32"),
    "BIGINT": ("9007199254740993", 9007199254740993, "int64"),
    "FLOAT": ("0.5", 0.5, "float32"),
    "DOUBLE": ("0.1", 0.1, "float64"),
    "STRING": ("'żółć'", "żółć", "object"),
    "BYTES": ("x'00ff'", b"\x00\xff", "object"),
    "DECIMAL(20, 3)": (
        "'12345678901234567.891'",
        decimal.Decimal("12345678901234567.891"),
        "object",
    ),
    "DATE": ("DATE '0001-02-03'", datetime.date(1, 2, 3), "object"),
    "TIME(0)": ("TIME '01:02:03'", datetime.time(1, 2, 3), "object"),
    "TIMESTAMP(3)": (
        "TIMESTAMP '2024-02-29 01:02:03.004'",
        pd.Timestamp("2024-02-29 01:02:03.004"),
        "datetime64[ms]",
    ),
    "ARRAY<BIGINT>": ("ARRAY[9007199254740993]", [9007199254740993], "object"),
}


def to_dataframe(table: Table) -> pd.DataFrame:
    return frame_of(arrow_of(table, still_there(*collect(table))))


def test_dataframe_has_cells_and_dtypes_of_every_type(table_env: StreamTableEnvironment) -> None:
    names = [f"c{i}" for i in range(len(TYPES))]
    cells = ", ".join(
        f"CAST({sql} AS {kind}) AS {name}"
        for name, (kind, (sql, _, _)) in zip(names, TYPES.items())
    )
    nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in TYPES)
    full = to_dataframe(table_env.sql_query(f"SELECT {cells}"))
    holed = to_dataframe(table_env.sql_query(f"SELECT {cells} UNION ALL SELECT {nulls}"))
    assert list(full.columns) == names
    for name, (kind, (_, value, dtype)) in zip(names, TYPES.items()):
        for frame in (full, holed):
            cell = frame[name].dropna().iloc[0]
            assert (list(cell) if isinstance(cell, (list, np.ndarray)) else cell) == value, kind
        assert str(full[name].dtype) == dtype, kind
        assert pd.isna(holed[name]).sum() == 1, kind
        if kind in ("FLOAT", "DOUBLE"):
            assert str(holed[name].dtype) == dtype, kind
        elif not kind.startswith("TIMESTAMP"):
            assert holed[name].dtype == object and None in list(holed[name]), kind


def test_a_table_without_rows_keeps_its_columns(table_env: StreamTableEnvironment) -> None:
    frame = to_dataframe(
        table_env.sql_query("SELECT * FROM (VALUES (1, 'x')) AS v(id, `a name`) WHERE id > 1")
    )
    assert list(frame.columns) == ["id", "a name"] and len(frame) == 0


def test_a_table_without_rows_keeps_its_types(table_env: StreamTableEnvironment) -> None:
    cells = ", ".join(
        f"CAST({sql} AS {kind}) AS c{i}" for i, (kind, (sql, _, _)) in enumerate(TYPES.items())
    )
    nested = "TO_TIMESTAMP_LTZ(0, 3) AS t, MAP['a', 1] AS m, ROW(1, TO_TIMESTAMP_LTZ(0, 3)) AS r, ARRAY[ARRAY[1]] AS aa"
    table_env.create_temporary_view("one_row", table_env.sql_query(f"SELECT {cells}, {nested}"))
    try:
        one, none = (
            table_env.sql_query(f"SELECT * FROM one_row WHERE c3 > {least}") for least in (0, 9)
        )
        full, empty = (arrow_of(table, still_there(*collect(table))) for table in (one, none))
    finally:
        table_env.drop_temporary_view("one_row")
    assert (full.num_rows, empty.num_rows) == (1, 0) and empty.schema == full.schema
    assert full.schema.field("t").type == pa.timestamp(
        "ms", table_env.get_config().get_local_timezone()
    )


def test_many_rows_are_one_frame(table_env: StreamTableEnvironment) -> None:
    values = ", ".join(f"({number})" for number in range(1000))
    table_env.get_config().set("python.fn-execution.arrow.batch.size", "300")
    try:
        frame = to_dataframe(table_env.sql_query(f"SELECT * FROM (VALUES {values}) AS v(id)"))
    finally:
        table_env.get_config().set("python.fn-execution.arrow.batch.size", "8000")
    assert frame.id.tolist() == list(range(1000)) and frame.index.tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("zone", "seconds", "expected"),
    [
        ("Asia/Shanghai", [0], ["1970-01-01 08:00:00+08:00"]),
        # In the night when the clock goes back, 02:30 comes twice.
        (
            "Europe/Berlin",
            [1_603_585_800, 1_603_589_400],
            ["2020-10-25 02:30:00+02:00", "2020-10-25 02:30:00+01:00"],
        ),
    ],
)
@pytest.mark.fault("data")
def test_instants_are_in_the_time_zone_of_the_environment(
    table_env: StreamTableEnvironment, zone: str, seconds: list[int], expected: list[str]
) -> None:
    rows = " UNION ALL ".join(f"SELECT TO_TIMESTAMP_LTZ({second}, 0) AS t" for second in seconds)
    before = table_env.get_config().get_local_timezone()
    table_env.get_config().set_local_timezone(zone)
    try:
        frame = to_dataframe(
            table_env.sql_query(f"{rows} UNION ALL SELECT CAST(NULL AS TIMESTAMP_LTZ(3))")
        )
    finally:
        table_env.get_config().set_local_timezone(before)
    assert [str(instant) for instant in frame.t.dropna().sort_values()] == expected
    assert len(frame) == len(seconds) + 1


def test_retracted_rows_are_not_in_the_dataframe() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 1, 1, 3], "x": ["a", None, "a", "b", "c"]})
    kinds = bytes([0, 0, 1, 2, 0])
    left = pa.Table.from_batches(still_there([batch, batch.slice(0, 1)], [kinds, None]))
    assert left.to_pylist() == [
        {"id": 2, "x": None},
        {"id": 1, "x": "b"},
        {"id": 3, "x": "c"},
        {"id": 1, "x": "a"},
    ]
    assert still_there([batch], [None]) == [batch]


def test_table_with_updates_is_collected_in_its_final_state(env: MLEnv) -> None:
    words = env.stenv.sql_query(
        "SELECT w, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a'), ('a')) AS v(w) GROUP BY w"
    )
    frame = to_dataframe(words)
    assert dict(zip(frame.w, frame.n)) == {"a": 3, "b": 1}


BIG = 2**53 + 1
INSTANT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.timezone.utc)
NESTED = {
    f"ARRAY[{BIG}, CAST(NULL AS BIGINT)]": [BIG, None],
    "ARRAY[TRUE, CAST(NULL AS BOOLEAN)]": [True, None],
    "ARRAY['a', CAST(NULL AS STRING)]": ["a", None],
    "ARRAY[CAST(0.1 AS DOUBLE), CAST(NULL AS DOUBLE)]": [0.1, None],
    "ARRAY[CAST(0.5 AS FLOAT), CAST(NULL AS FLOAT)]": [0.5, None],
    "ARRAY[1.50, CAST(NULL AS DECIMAL(5, 2))]": [decimal.Decimal("1.50"), None],
    "ARRAY[x'00', CAST(NULL AS BYTES)]": [b"\0", None],
    "ARRAY[DATE '0001-01-01', CAST(NULL AS DATE)]": [datetime.date(1, 1, 1), None],
    "ARRAY[TIME '01:02:03.004', CAST(NULL AS TIME(3))]": [datetime.time(1, 2, 3, 4000), None],
    "ARRAY[TIMESTAMP '1969-12-31 23:59:59.999999', CAST(NULL AS TIMESTAMP(6))]": [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), None,
    ],
    "ARRAY[TO_TIMESTAMP_LTZ(-1, 3), CAST(NULL AS TIMESTAMP_LTZ(3))]": [INSTANT, None],
    "ARRAY[TO_TIMESTAMP_LTZ(-1, 3)]": [INSTANT],
    f"ARRAY[ARRAY[{BIG}, CAST(NULL AS BIGINT)]]": [[BIG, None]],
    f"ARRAY[ROW({BIG}, CAST(NULL AS BIGINT))]": [{"EXPR$0": BIG, "EXPR$1": None}],
    f"MAP['a', {BIG}, 'b', CAST(NULL AS BIGINT)]": [("a", BIG), ("b", None)],
    "MAP['a', TIMESTAMP '1969-12-31 23:59:59.999999999']": [("a", pd.Timestamp("1969-12-31 23:59:59.999999999"))],
    f"ROW({BIG}, CAST(NULL AS BIGINT), TO_TIMESTAMP_LTZ(-1, 3))": {"EXPR$0": BIG, "EXPR$1": None, "EXPR$2": INSTANT},
}  # fmt: skip


@pytest.mark.fault("data")
def test_nested_cells_are_exact_next_to_nulls(table_env: StreamTableEnvironment) -> None:
    columns = ", ".join(f"{sql} AS c{place}" for place, sql in enumerate(NESTED))
    beside = f"ARRAY[{BIG}] AS beside, ARRAY[CAST({BIG} AS BIGINT)] AS plain"
    first = table_env.sql_query(f"SELECT {columns}, {beside}")
    second = table_env.sql_query(
        f"SELECT {columns}, ARRAY[CAST(NULL AS BIGINT)] AS beside, ARRAY[CAST(1 AS BIGINT)] AS plain"
    )
    frame = to_dataframe(first.union_all(second))
    for place, (sql, expected) in enumerate(NESTED.items()):
        assert frame[f"c{place}"].tolist() == [expected] * 2, sql
    assert sorted(map(repr, frame.beside)) == ["[9007199254740993]", "[None]"]
    assert sorted(array.tolist()[0] for array in frame.plain) == [1, BIG] and {
        array.dtype for array in frame.plain
    } == {np.dtype("i8")}


@pytest.mark.parametrize(
    ("zone", "hours"), [("GMT+08:00", 8), ("-03:00", -3), ("UTC", 0), ("Z", 0)]
)
def test_instants_come_back_in_time_zones_given_by_offset(
    table_env: StreamTableEnvironment, zone: str, hours: int
) -> None:
    before = table_env.get_config().get_local_timezone()
    table_env.get_config().set_local_timezone(zone)
    try:
        (instant,) = to_dataframe(table_env.sql_query("SELECT TO_TIMESTAMP_LTZ(0, 3) AS t")).t
    finally:
        table_env.get_config().set_local_timezone(before)
    assert instant.timestamp() == 0 and instant.utcoffset() == datetime.timedelta(hours=hours)


@pytest.mark.fault("data", "More than 2 GB of text in a column of updated rows are collected")
def test_rows_that_are_left_stay_in_their_batches() -> None:
    """Arrow cannot put more than 2 GB of text into one column: `Table.take` fails with "offset
    overflow".
    """
    batch = pa.record_batch([pa.array(["a", "b"])], names=["s"])
    left = still_there([batch, batch, batch], [b"\0\0", b"\3\0", b"\0\3"])
    assert [each.to_pydict() for each in left] == [{"s": ["b"]}, {"s": ["a"]}]


@pytest.mark.skipif(
    "AKDL_TEST_LARGE_ROWS" not in os.environ,
    reason="takes some GB of memory: set AKDL_TEST_LARGE_ROWS",
)
def test_rows_with_two_gigabytes_of_text_stay_in_batches() -> None:
    batch = pa.record_batch([pa.array(["x" * 300_000_000])], names=["s"])
    left = still_there([batch] * 9, [b"\0"] * 8 + [b"\3"])
    assert [each.num_rows for each in left] == [1] * 7
