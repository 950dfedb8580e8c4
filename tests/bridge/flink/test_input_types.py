"""Every SQL type on its way from Flink to a script: what arrives is what Flink has, with nulls and
in odd time zones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyflink.table import StreamTableEnvironment

from akdl.wire import BYTES, Column, Rows
from akdl.wire.cells import read_cells
from bridge.codec.to_columns import to_columns
from bridge.exceptions import RowError
from bridge.flink.arrow_operators import rows_for_members
from bridge.schema import Schema, quoted
from bridge.settings import Gathering
from operators import useLocalEnv
from tests.bridge.flink.test_arrow_operators import collected

pytestmark = pytest.mark.flink

# microseconds of the years 1 to 9999
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
NAN = "IF(RAND_INTEGER(1) = 0, 'NaN', '')"  # the planner fails at a constant that is no number

# Type, SQL expressions of the cells, what arrives. The session's time zone is New York.
CELLS = [
    ("BOOLEAN", ["TRUE", "FALSE", "NULL"], [True, False, None]),
    ("TINYINT", ["-128", "NULL", "127"], [-128, None, 127]),
    ("SMALLINT", ["-32768", "NULL", "32767"], [-32768, None, 32767]),
    ("INT", ["-2147483648", "2147483647", "NULL"], [-(2**31), 2**31 - 1, None]),
    ("BIGINT", ["9007199254740993", "-9223372036854775807", "NULL"], [2**53 + 1, 1 - 2**63, None]),
    ("FLOAT", ["0.75", NAN, "NULL"], [0.75, "nan", None]),
    ("DOUBLE", ["0.5", NAN.replace("NaN", "-Infinity"), "NULL"], [0.5, -np.inf, None]),
    ("STRING", ["''", "'żółć'", "NULL"], [b"", "żółć".encode(), None]),
    ("CHAR(3)", ["'ab'", "'abc'", "NULL"], [b"ab ", b"abc", None]),
    ("BYTES", ["x'00ff'", "x''", "NULL"], [b"\x00\xff", b"", None]),
    ("BINARY(2)", ["x'00ff'", "x'0102'", "NULL"], [b"\x00\xff", b"\x01\x02", None]),
    ("DECIMAL(38, 18)", ["'0.000000000000000001'", "'-12345678901234567890.5'", "NULL"],
     [b"0.000000000000000001", b"-12345678901234567890.500000000000000000", None]),
    ("DATE", ["'0001-01-01'", "'9999-12-31'", "NULL"], [-719_162, 2_932_896, None]),
    ("TIME(0)", ["'00:00:01'", "'23:59:59'", "NULL"], [1000, 86_399_000, None]),
    ("TIME(3)", ["'00:00:01.005'", "'23:59:59.999'", "NULL"], [1005, 86_399_999, None]),
    ("TIMESTAMP(0)", ["'1970-01-01 00:00:01'", "'9999-12-31 00:00:00'", "NULL"], [10**6, LAST - 86_399_999_999, None]),
    ("TIMESTAMP(6)", ["'0001-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'", "NULL"], [FIRST + 1, -1, None]),
    # an instant whose UTC time New York skips, one whose UTC time New York has twice
    ("TIMESTAMP_LTZ(3)", ["TO_TIMESTAMP_LTZ(1678588200001, 3)", "TO_TIMESTAMP_LTZ(1699147800000, 3)", "NULL"],
     [1_678_588_200_001_000, 1_699_147_800_000_000, None]),
    ("TIMESTAMP_LTZ(6)", ["'1969-12-31 18:59:59.999999'", "'9999-12-31 18:59:59.999999'", "NULL"], [-1, LAST, None]),
    ("ARRAY<BOOLEAN>", ["ARRAY[TRUE, FALSE]", "ARRAY[TRUE]", "NULL"], [[True, False], [True], None]),
    ("ARRAY<TINYINT>", ["ARRAY[1, -128]", "ARRAY[1]", "NULL"], [[1, -128], [1], None]),
    ("ARRAY<BIGINT>", ["ARRAY[9007199254740993, -1]", "ARRAY[1]", "NULL"], [[2**53 + 1, -1], [1], None]),
    ("ARRAY<FLOAT>", ["ARRAY[0.5, 1.5]", f"ARRAY[CAST({NAN} AS FLOAT)]", "NULL"], [[0.5, 1.5], ["nan"], None]),
    ("ARRAY<DOUBLE>", ["ARRAY[0.5, 1.5]", "ARRAY[2.5]", "NULL"], [[0.5, 1.5], [2.5], None]),
    ("ARRAY<STRING>", ["ARRAY['', 'é']", "ARRAY['x']", "NULL"], [[b"", "é".encode()], [b"x"], None]),
    ("ARRAY<BYTES>", ["ARRAY[x'00ff', x'01']", "ARRAY[x'02']", "NULL"], [[b"\x00\xff", b"\x01"], [b"\x02"], None]),
    ("ARRAY<DECIMAL(5, 2)>", ["ARRAY[1.50, 2]", "ARRAY[-0.01]", "NULL"], [[b"1.50", b"2.00"], [b"-0.01"], None]),
    ("ARRAY<DATE>", ["ARRAY[DATE '1970-01-02', DATE '0001-01-01']", "ARRAY[DATE '9999-12-31']", "NULL"],
     [[1, -719_162], [2_932_896], None]),
    ("ARRAY<TIME(0)>", ["ARRAY[TIME '00:00:01', TIME '23:59:59']", "ARRAY[TIME '00:00:00']", "NULL"],
     [[1000, 86_399_000], [0], None]),
    ("ARRAY<TIMESTAMP(6)>", ["ARRAY[TIMESTAMP '0001-01-01 00:00:00.000001']", "ARRAY[TIMESTAMP '9999-12-31 23:59:59.999999']",
     "NULL"], [[FIRST + 1], [LAST], None]),
]  # fmt: skip
COLUMNS = {f"column {i}`": cells for i, cells in enumerate(CELLS)}


@pytest.fixture(scope="module")
def table_env() -> StreamTableEnvironment:
    made = useLocalEnv(1).stenv
    made.get_config().set("table.local-time-zone", "America/New_York")
    return made


def arrived(table_env: StreamTableEnvironment, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query as a script's process gets them, a dict each."""
    table = table_env.sql_query(sql)
    fields = table.get_resolved_schema()
    schema = Schema.of_table(fields.get_column_names(), fields.get_column_data_types())
    rows = []
    for _, _, batch in collected(rows_for_members(table_env, table, [0], Gathering())):
        message = Rows.FromString(to_columns(batch, schema))
        columns = {column.name: plain(column, message.rows) for column in message.columns}
        rows += [dict(zip(columns, cells)) for cells in zip(*columns.values())]
    return rows


def plain(column: Column, rows: int) -> list[Any]:
    """Cells as Python values, None for null; NaN as a string, since it does not equal itself."""
    cells = read_cells(column, rows)
    if column.type == BYTES:
        data, ends = cells.values.tobytes(), cells.value_offsets.tolist()
        values = [data[start:end] for start, end in zip(ends, ends[1:])]
    else:
        values = ["nan" if value != value else value for value in cells.values.tolist()]
    if cells.cell_offsets is not None:
        ends = cells.cell_offsets.tolist()
        values = [values[start:end] for start, end in zip(ends, ends[1:])]
    return (
        values
        if cells.valid is None
        else [value if valid else None for value, valid in zip(values, cells.valid)]
    )


def test_every_type_arrives_with_its_nulls(table_env: StreamTableEnvironment) -> None:
    # Rows in one VALUES stay one source; the planner makes constants of the columns of a UNION with
    # one row each.
    cells = ", ".join(
        f"CASE i {' '.join(f'WHEN {i} THEN CAST({cell} AS {sql})' for i, cell in enumerate(literals))} END AS {quoted(name)}"
        for name, (sql, literals, _) in COLUMNS.items()
    )
    found = arrived(table_env, f"SELECT i, {cells} FROM (VALUES (0), (1), (2)) AS m(i)")
    assert sorted(row.pop("i") for row in found) == [0, 1, 2]
    for name, (sql, _, expected) in COLUMNS.items():
        assert (sql, [row[name] for row in found]) == (sql, expected)


def test_constants_and_columns_of_nulls_arrive(table_env: StreamTableEnvironment) -> None:
    cells = ", ".join(
        f"CAST({literals[0]} AS {sql}) AS {quoted(name)}"
        for name, (sql, literals, _) in COLUMNS.items()
    )
    nulls = ", ".join(
        f"CAST(NULL AS {sql}) AS n{place}" for place, (sql, _, _) in enumerate(COLUMNS.values())
    )
    (row,) = arrived(table_env, f"SELECT {cells}, {nulls}")
    assert {name: row[name] for name in COLUMNS} == {
        name: expected[0] for name, (_, _, expected) in COLUMNS.items()
    }
    assert all(cell is None for name, cell in row.items() if name not in COLUMNS)


def test_a_null_element_is_refused(table_env: StreamTableEnvironment) -> None:
    with pytest.raises(RowError, match="column 'x' .*: row 1 of a batch: the array holds a null"):
        arrived(
            table_env,
            "SELECT CASE i WHEN 1 THEN ARRAY[i] ELSE ARRAY[i, NULL] END AS x FROM (VALUES (1), (2)) AS m(i)",
        )


@pytest.mark.fault("data", "Empty arrays are not null")
def test_empty_arrays_arrive_as_empty_and_not_null(table_env: StreamTableEnvironment) -> None:
    found = arrived(
        table_env, "SELECT ARRAY_REMOVE(ARRAY[i], 1) AS x FROM (VALUES (1), (2)) AS m(i)"
    )
    assert found == [{"x": []}, {"x": [2]}]
