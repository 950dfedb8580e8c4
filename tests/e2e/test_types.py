"""Cells of every type go through a script and come back as they were."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
from typing import Any

import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import RowError, SchemaError
from operators import BatchOperator, MemSourceBatchOp, getMLEnv, useLocalEnv
from tests.e2e.jobs import script_op, sequence

pytestmark = pytest.mark.flink

COLUMNS = {
    "flag": ("BOOLEAN", ["TRUE", "NULL", "FALSE"], [True, None, False]),
    "tiny": ("TINYINT", ["-128", "127", "NULL"], [-128, 127, None]),
    "small": ("SMALLINT", ["-32768", "NULL", "7"], [-32768, None, 7]),
    "whole": ("INT", ["-2147483648", "2147483647", "NULL"], [-(2**31), 2**31 - 1, None]),
    "big": (
        "BIGINT",
        ["9007199254740993", "-9223372036854775807", "NULL"],
        [2**53 + 1, 1 - 2**63, None],
    ),
    "single": ("FLOAT", ["0.75", "-2.5", "NULL"], [0.75, -2.5, None]),
    "twice": ("DOUBLE", ["0.1", "-1e300", "NULL"], [0.10000000149011612, -math.inf, None]),
    "text": ("STRING", ["''", "'żółć ☃'", "NULL"], ["", "żółć ☃", None]),
    "short_text": ("VARCHAR(3)", ["'abc'", "NULL", "'d'"], ["abc", None, "d"]),
    "octets": ("BYTES", ["x'00ff'", "x''", "NULL"], [b"\x00\xff", b"", None]),
    "money": (
        "DECIMAL(20, 3)",
        ["'12345678901234567.891'", "-0.001", "NULL"],
        ["12345678901234567.891", "-0.001", None],
    ),
    "the_day": (
        "DATE",
        ["DATE '0001-01-01'", "DATE '9999-12-31'", "NULL"],
        ["0001-01-01", "9999-12-31", None],
    ),
    "at_moment": (
        "TIMESTAMP(6)",
        [
            "TIMESTAMP '1969-12-31 23:59:59.999999'",
            "TIMESTAMP '2024-02-29 12:00:00.000001'",
            "NULL",
        ],
        ["1969-12-31 23:59:59.999999", "2024-02-29 12:00:00.000001", None],
    ),
    "at_instant": (
        "TIMESTAMP_LTZ(3)",
        ["TO_TIMESTAMP_LTZ(0, 3)", "TO_TIMESTAMP_LTZ(1700000000123, 3)", "NULL"],
        [0, 1700000000123, None],
    ),
    "clock": (
        "TIME(0)",
        ["TIME '00:00:00'", "TIME '23:59:59'", "NULL"],
        ["00:00:00", "23:59:59", None],
    ),
    "singles": (
        "ARRAY<FLOAT>",
        ["ARRAY[0.5, 1.5]", "NULL", "ARRAY[2.25]"],
        [[0.5, 1.5], None, [2.25]],
    ),
    "bigs": (
        "ARRAY<BIGINT>",
        ["ARRAY[9007199254740993, -1]", "ARRAY[1]", "NULL"],
        [[2**53 + 1, -1], [1], None],
    ),
    "flags": (
        "ARRAY<BOOLEAN>",
        ["ARRAY[TRUE, FALSE]", "ARRAY[TRUE]", "NULL"],
        [[True, False], [True], None],
    ),
    "texts": ("ARRAY<STRING>", ["ARRAY['', 'é']", "NULL", "ARRAY['x']"], [["", "é"], None, ["x"]]),
    "moneys": (
        "ARRAY<DECIMAL(5, 2)>",
        ["ARRAY[1.50, 2.00]", "NULL", "ARRAY[3]"],
        [["1.50", "2.00"], None, ["3.00"]],
    ),
}


def all_types(table_env: StreamTableEnvironment, rows_of_each: int) -> Any:
    rows = [
        ", ".join(
            f"CAST({literals[i]} AS {sql}) AS {name}"
            for name, (sql, literals, _) in COLUMNS.items()
        )
        for i in range(3)
    ]
    three = " UNION ALL ".join(f"SELECT {i} AS kind, {row}" for i, row in enumerate(rows))
    table_env.create_temporary_view("of_each_kind", table_env.sql_query(three))
    counted = sequence(table_env, rows_of_each).getOutputTable()
    table_env.create_temporary_view("counted", counted)
    return table_env.sql_query(
        f"SELECT CAST(id * 3 AS INT) + kind AS id, {', '.join(COLUMNS)} FROM counted, of_each_kind"
    )


@pytest.mark.parametrize("object_reuse", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.fault("data")
def test_every_type_and_null_survives_the_round_trip(object_reuse: bool) -> None:
    """Also where Flink does not copy rows between operators, and the same row object comes again
    and again.
    """
    useLocalEnv(1, config={"pipeline.object-reuse": str(object_reuse).lower()})
    table_env, rows_of_each = getMLEnv().btenv, 70
    schema = "id INT, " + ", ".join(f"{name} {sql}" for name, (sql, _, _) in COLUMNS.items())
    result = BatchOperator.fromTable(all_types(table_env, rows_of_each)).link(
        script_op("echo_cells.py", schema)
    )
    assert result.getColTypes() == [
        "INT",
        *(
            sql if sql != "TIMESTAMP_LTZ(3)" else "TIMESTAMP_LTZ(3)"
            for sql, _, _ in COLUMNS.values()
        ),
    ]
    shown = {"DATE", "TIMESTAMP(6)", "DECIMAL(20, 3)", "TIME(0)"}
    selected = [
        f"CAST({name} AS STRING) AS {name}" if sql in shown
        else f"CAST({name} AS ARRAY<STRING>) AS {name}" if sql == "ARRAY<DECIMAL(5, 2)>"
        else f"CAST(EXTRACT(EPOCH FROM {name}) * 1000 + EXTRACT(MILLISECOND FROM {name}) AS BIGINT) AS {name}" if name == "at_instant"
        else name
        for name, (sql, _, _) in COLUMNS.items()
    ]  # fmt: skip
    table = result.select("id, " + ", ".join(selected)).getOutputTable()
    with table.execute().collect() as rows:
        found = {row[0]: row[1:] for row in rows}
    assert len(found) == 3 * rows_of_each
    for index, (name, (_, _, expected)) in enumerate(COLUMNS.items()):
        cells = [found[row][index] for row in range(3 * rows_of_each)]
        assert same(cells, expected * rows_of_each), (
            f"{name}: {cells} is not {expected}, again and again"
        )


def same(left: list[Any], right: int) -> bool:
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return (type(left) is type(right) and left == right) or (
        isinstance(left, bytearray) and bytes(left) == right
    )


@pytest.mark.fault("data")
def test_columns_of_the_output_may_have_any_name() -> None:
    useLocalEnv(1)
    names = ["akdl_place", "akdl_places", "c0", "c1", "of_slice", "größe `1`"]
    quoted_names = ["`{}`".format(name.replace("`", "``")) for name in names]
    source = getMLEnv().btenv.sql_query(
        "SELECT " + ", ".join(f"{n} AS {name}" for n, name in enumerate(quoted_names))
    )
    op = script_op("echo_cells.py", ", ".join(f"{name} INT" for name in quoted_names))
    frame = BatchOperator.fromTable(source).link(op).collectToDataframe()
    assert frame.to_dict("records") == [{name: n for n, name in enumerate(names)}]


def test_nan_is_a_number_and_not_a_null() -> None:
    useLocalEnv(1)
    source = MemSourceBatchOp(
        [(0, math.nan, [math.nan]), (1, None, None)], "id INT, x FLOAT, y ARRAY<FLOAT>"
    )
    result = source.link(script_op("echo_cells.py", "id INT, x FLOAT, y ARRAY<FLOAT>"))
    # as text: PyFlink cannot collect a NaN
    result = result.select("id, CAST(x AS STRING) AS x, CAST(y[1] AS STRING) AS y")
    with result.getOutputTable().execute().collect() as rows:
        found = {row[0]: (row[1], row[2]) for row in rows}
    assert found == {0: ("NaN", "NaN"), 1: (None, None)}


def test_exact_doubles_come_back_exact() -> None:
    useLocalEnv(1)
    table = getMLEnv().btenv.sql_query(
        "SELECT CAST(0.1 AS DOUBLE) AS x, CAST(NULL AS DOUBLE) AS y, ARRAY[CAST(0.1 AS DOUBLE), CAST(1e300 AS DOUBLE)] AS z"
    )
    op = script_op("echo_cells.py", "x DOUBLE, y DOUBLE, z ARRAY<DOUBLE>", exactDoubles=True)
    frame = BatchOperator.fromTable(table).link(op).collectToDataframe()
    assert (frame.x[0], list(frame.z[0])) == (0.1, [0.1, 1e300]) and math.isnan(frame.y[0])


@pytest.mark.fault("data", "A cell of 10 MB comes back whole")
def test_cell_of_ten_megabytes_comes_back_whole() -> None:
    """It comes back in pieces."""
    useLocalEnv(1)
    table = getMLEnv().btenv.sql_query(
        "SELECT id, REPEAT(CONCAT('0123456', id), 1300000) AS text FROM (VALUES ('7'), ('8')) AS t (id)"
    )
    result = BatchOperator.fromTable(table).link(
        script_op("echo_cells.py", "id STRING, text STRING")
    )
    with result.select("id, MD5(text) AS text").getOutputTable().execute().collect() as rows:
        found = {row[0]: row[1] for row in rows}
    assert found == {
        id: hashlib.md5(f"0123456{id}".encode() * 1_300_000).hexdigest() for id in ("7", "8")
    }


@pytest.mark.fault("data")
def test_a_null_inside_an_array_is_refused() -> None:
    useLocalEnv(1)
    table = getMLEnv().btenv.sql_query("SELECT ARRAY[1, CAST(NULL AS INT)] AS numbers")
    with pytest.raises(
        RowError,
        match=r"^TensorFlow2BatchOp: column 'numbers' \(ARRAY<INT> NOT NULL\): row 0 .*holds a null",
    ):
        BatchOperator.fromTable(table).link(
            script_op("echo_cells.py", "numbers ARRAY<INT>")
        ).print()


@pytest.mark.fault("data")
def test_an_unsupported_type_is_refused_when_the_job_is_built() -> None:
    useLocalEnv(1)
    table = getMLEnv().btenv.sql_query("SELECT 1 AS id, MAP['a', 1] AS lookup")
    with pytest.raises(SchemaError, match="column 'lookup' has the type MAP"):
        BatchOperator.fromTable(table).link(script_op("echo_cells.py", "id INT"))
    kept = BatchOperator.fromTable(table).link(
        script_op("echo_cells.py", "id INT", selectedCols=["id"])
    )
    assert kept.collectToDataframe().id.tolist() == [1]


@pytest.mark.long
def test_temporal_and_decimal_columns_come_back_as_python_values() -> None:
    useLocalEnv(1)
    table = getMLEnv().btenv.sql_query(
        "SELECT DATE '2024-02-29' AS d, CAST(1.50 AS DECIMAL(5, 2)) AS m, TIMESTAMP '2024-02-29 12:00:00.5' AS t"
    )
    op = script_op("echo_cells.py", "d DATE, m DECIMAL(5, 2), t TIMESTAMP(3)")
    with BatchOperator.fromTable(table).link(op).getOutputTable().execute().collect() as rows:
        (row,) = rows
    assert row[0] == datetime.date(2024, 2, 29)
    assert row[1] == decimal.Decimal("1.50")
    assert row[2] == datetime.datetime(2024, 2, 29, 12, 0, 0, 500000)
