"""The SQL expressions of the encoder in Flink: every type, as Flink hands it to a vectorized function."""

import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, EnvironmentSettings, StreamTableEnvironment
from pyflink.table.udf import ScalarFunction, udf

from bridge.encoder import RowEncoder
from bridge.schema import Schema, quoted
from operators.java import start_java
from tests.bridge.test_encoder import frames_to_examples

pytestmark = [
    pytest.mark.flink,
    # Beam's threads complain when the job under them fails, which is what a test here wants.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

NUMBER = itertools.count()
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of the years 1 to 9999
NAN = "IF(RAND_INTEGER(1) = 0, 'NaN', '')"  # the planner fails at a constant that is no number

# Type, SQL expressions of the cells, what the features hold; None where there is none. The session's time zone is New York.
CELLS = [
    ("BOOLEAN", ["TRUE", "FALSE", "NULL"], [[1], [0], None]),
    ("TINYINT", ["-128", "NULL", "127"], [[-128], None, [127]]),
    ("SMALLINT", ["-32768", "NULL", "32767"], [[-32768], None, [32767]]),
    ("INT", ["-2147483648", "2147483647", "NULL"], [[-(2**31)], [2**31 - 1], None]),
    ("BIGINT", ["9007199254740993", "-9223372036854775807", "NULL"], [[2**53 + 1], [1 - 2**63], None]),
    ("FLOAT", ["0.75", NAN, "NULL"], [[0.75], ["nan"], None]),
    ("DOUBLE", ["0.5", NAN.replace("NaN", "-Infinity"), "NULL"], [[0.5], [-np.inf], None]),
    ("STRING", ["''", "'żółć'", "NULL"], [[b""], ["żółć".encode()], None]),
    ("CHAR(3)", ["'ab'", "'abc'", "NULL"], [[b"ab "], [b"abc"], None]),
    ("BYTES", ["x'00ff'", "x''", "NULL"], [[b"\x00\xff"], [b""], None]),
    ("BINARY(2)", ["x'00ff'", "x'0102'", "NULL"], [[b"\x00\xff"], [b"\x01\x02"], None]),
    ("DECIMAL(38, 18)", ["'0.000000000000000001'", "'-12345678901234567890.5'", "NULL"],
     [[b"0.000000000000000001"], [b"-12345678901234567890.500000000000000000"], None]),
    ("DATE", ["'0001-01-01'", "'9999-12-31'", "NULL"], [[-719_162], [2_932_896], None]),
    ("TIME(0)", ["'00:00:01'", "'23:59:59'", "NULL"], [[1000], [86_399_000], None]),
    ("TIME(3)", ["'00:00:01.005'", "'23:59:59.999'", "NULL"], [[1005], [86_399_999], None]),
    ("TIMESTAMP(0)", ["'1970-01-01 00:00:01'", "'9999-12-31 00:00:00'", "NULL"], [[10**6], [LAST - 86_399_999_999], None]),
    ("TIMESTAMP(6)", ["'0001-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'", "NULL"], [[FIRST + 1], [-1], None]),
    # an instant whose UTC time New York skips, one whose UTC time New York has twice
    ("TIMESTAMP_LTZ(3)", ["TO_TIMESTAMP_LTZ(1678588200001, 3)", "TO_TIMESTAMP_LTZ(1699147800000, 3)", "NULL"],
     [[1_678_588_200_001_000], [1_699_147_800_000_000], None]),
    ("TIMESTAMP_LTZ(6)", ["'1969-12-31 18:59:59.999999'", "'9999-12-31 18:59:59.999999'", "NULL"], [[-1], [LAST], None]),
    ("ARRAY<BOOLEAN>", ["ARRAY[TRUE, FALSE]", "ARRAY[TRUE]", "NULL"], [[1, 0], [1], None]),
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


class _EachRow(ScalarFunction):
    """Hands back the record of each row."""

    def __init__(self, encoder):
        self._encoder = encoder

    def eval(self, *columns):
        encoded = self._encoder.encode(columns)
        return pd.Series([data for _, _, data in encoded.deal(len(encoded), 0)], dtype=object)


@pytest.fixture(scope="module")
def table_env():
    start_java()
    conf = Configuration()
    for key in ("python.executable", "python.client.executable"):
        conf.set_string(key, sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    env.set_parallelism(1)
    made = StreamTableEnvironment.create(env, EnvironmentSettings.in_streaming_mode())
    made.get_config().set("table.local-time-zone", "America/New_York")
    return made


def encoded_rows(table_env, sql, exact_doubles=False):
    table = table_env.sql_query(sql)
    names, types = table.get_schema().get_field_names(), table.get_schema().get_field_data_types()
    encoder = RowEncoder(Schema.of_table(names, types), exact_doubles)
    number = next(NUMBER)
    table_env.create_temporary_function(
        f"akdl_each_{number}", udf(_EachRow(encoder), result_type=DataTypes.BYTES(), func_type="pandas")
    )
    table_env.create_temporary_view(f"akdl_rows_{number}", table)
    arguments = ", ".join(encoder.sql_arguments)
    with table_env.sql_query(f"SELECT akdl_each_{number}({arguments}) FROM akdl_rows_{number}").execute().collect() as rows:
        return [example for row in rows for example in frames_to_examples(bytes(row[0]))]


def plain(example):
    """NaN as text, since it does not equal itself."""
    return {name: ["nan" if value != value else value for value in values] for name, values in example.items()}


def test_every_type_with_nulls(table_env):
    # Rows in one VALUES stay one source; the planner makes constants of the columns of a UNION with one row each.
    cells = ", ".join(
        f"CASE i {' '.join(f'WHEN {i} THEN CAST({cell} AS {sql})' for i, cell in enumerate(literals))} END AS {quoted(name)}"
        for name, (sql, literals, _) in COLUMNS.items()
    )
    found = encoded_rows(table_env, f"SELECT i, {cells} FROM (VALUES (0), (1), (2)) AS m(i)")
    assert sorted(row.pop("i") for row in found) == [[0], [1], [2]]
    for name, (sql, _, expected) in COLUMNS.items():
        assert (sql, [plain(row).get(name) for row in found]) == (sql, expected)


def test_constants_and_columns_without_nulls(table_env):
    cells = ", ".join(f"CAST({literals[0]} AS {sql}) AS {quoted(name)}" for name, (sql, literals, _) in COLUMNS.items())
    (row,) = encoded_rows(table_env, f"SELECT {cells}")
    assert {name: row[name] for name in row} == {name: expected[0] for name, (_, _, expected) in COLUMNS.items()}
    cells = ", ".join(f"CAST(NULL AS {sql}) AS {quoted(name)}" for name, (sql, _, _) in COLUMNS.items())
    assert encoded_rows(table_env, f"SELECT {cells}") == [{}]


def test_null_elements_are_seen_whatever_their_type(table_env):
    arrays = [(sql, literals[0]) for sql, literals, _ in CELLS if sql.startswith("ARRAY<")]
    columns = ", ".join(
        f"CASE i WHEN 0 THEN ARRAY[CAST(NULL AS {sql[6:-1]}), CAST(({literal})[1] AS {sql[6:-1]})] "
        f"WHEN 1 THEN ARRAY[CAST(({literal})[1] AS {sql[6:-1]})] END AS x{i}"
        for i, (sql, literal) in enumerate(arrays)
    )
    schema = Schema.parse(", ".join(f"x{i} {sql}" for i, (sql, _) in enumerate(arrays)))
    (mask,) = RowEncoder(schema).sql_arguments[len(arrays) :]
    query = f"SELECT i, {mask} FROM (SELECT i, {columns} FROM (VALUES (0), (1), (2)) AS m(i))"
    with table_env.sql_query(query).execute().collect() as rows:
        assert sorted(tuple(row) for row in rows) == [(0, 2 ** len(arrays) - 1), (1, 0), (2, 0)]


def test_a_null_element_is_refused(table_env):
    with pytest.raises(Exception, match="column 'x' .*: the array in row 1 of a batch holds a null"):
        encoded_rows(
            table_env, "SELECT CASE i WHEN 1 THEN ARRAY[i] ELSE ARRAY[i, NULL] END AS x FROM (VALUES (1), (2)) AS m(i)"
        )


def test_empty_arrays_and_exact_doubles(table_env):
    found = encoded_rows(
        table_env,
        "SELECT ARRAY_REMOVE(ARRAY[i], 1) AS x, CAST(i AS DOUBLE) / 10 AS y, ARRAY[CAST(0.1 AS DOUBLE), 1e300] AS z "
        "FROM (VALUES (1), (2)) AS m(i)",
        exact_doubles=True,
    )
    assert found == [
        {"x": cells, "y": [np.float64(y).tobytes()], "z": [np.array([0.1, 1e300]).tobytes()]}
        for cells, y in (([], 0.1), ([2], 0.2))
    ]
