"""Points in time of every precision, before 1970 and in far years: exact, whichever way they come
and go.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import pathlib
import time
import zoneinfo
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyflink.java_gateway import get_gateway

from bridge.exceptions import ConfigurationError, JobError, SchemaError
from operators import (
    AkSinkBatchOp,
    AkSourceBatchOp,
    BatchOperator,
    CsvSinkBatchOp,
    CsvSourceBatchOp,
    MemSourceBatchOp,
    MemSourceStreamOp,
    StreamOperator,
    TFSavedModelPredictBatchOp,
    TFSavedModelPredictor,
    TFSavedModelPredictStreamOp,
    getMLEnv,
    useLocalEnv,
)
from operators.flink.java import start_java
from tests.akdl.serving import models
from tests.e2e.jobs import script_op
from tests.e2e.streams import stream_op
from tests.operators.flink.test_collect import NESTED

pytestmark = [pytest.mark.flink, pytest.mark.tf]

ZONE = "America/New_York"
UTC = datetime.timezone.utc
POINTS = [
    datetime.datetime(1, 1, 2, 0, 0, 0, 1),
    datetime.datetime(1500, 3, 1, 12, 0, 0, 999_999),  # ten days from what calendars had then
    datetime.datetime(1677, 9, 21, 0, 0, 0, 123_456),  # nanoseconds in 64 bits begin this day
    datetime.datetime(1900, 1, 1, 0, 0, 0, 123_456),
    datetime.datetime(1960, 1, 1, 0, 0, 0, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 12, 30, 15, 100_001),
    datetime.datetime(9999, 12, 30, 23, 59, 59, 999_999),
    None,
]
# the pyarrow of Flink 1.20 makes nanoseconds of all times of a frame
if not hasattr(pa.RecordBatch, "select"):
    POINTS = [point for point in POINTS if point is None or 1678 <= point.year <= 2261]
# SQL knew TIME(0) alone before Flink 2.3, and a union with it has that type.
TIME_DIGITS = range(
    1
    if importlib.metadata.version("apache-flink").startswith(("1.", "2.0.", "2.1.", "2.2."))
    else 4
)
KINDS = {
    **{f"t{digits}": f"TIMESTAMP({digits})" for digits in range(7)},
    **{f"z{digits}": f"TIMESTAMP_LTZ({digits})" for digits in range(7)},
    **{f"c{digits}": f"TIME({digits})" for digits in TIME_DIGITS},
    "d": "DATE",
    "a": "ARRAY<TIMESTAMP(6)>",
}
# the types of a frame that comes without a schema
GUESSED = ["t6", "z6", f"c{TIME_DIGITS[-1]}", "d", "a"]
SCHEMA = ", ".join(f"{name} {sql}" for name, sql in KINDS.items())


def cell(name: str, point: datetime.datetime | None) -> Any:
    """The cell of a column for a point in time, with as many digits as its type has."""
    if point is None or name == "a":
        return None if point is None else [point, point]
    if name == "d":
        return point.date()
    step = 10 ** (6 - int(name[1]))
    point = point.replace(microsecond=point.microsecond // step * step)
    return (
        point.time() if name[0] == "c" else point.replace(tzinfo=UTC) if name[0] == "z" else point
    )


ROWS = [tuple(cell(name, point) for name in KINDS) for point in POINTS]


def literal(name: str, value: Any) -> str:
    """The same as SQL."""
    if value is None:
        return f"CAST(NULL AS {KINDS[name]})"
    if name == "a":
        return f"ARRAY[{literal('t6', value[0])}, {literal('t6', value[1])}]"
    local = (
        value.astimezone(zoneinfo.ZoneInfo(ZONE)).replace(tzinfo=None) if name[0] == "z" else value
    )
    word = {"c": "TIME", "d": "DATE"}.get(name[0], "TIMESTAMP")
    return f"CAST({word} '{local.isoformat(*' ' if word == 'TIMESTAMP' else ())}' AS {KINDS[name]})"


def frame_of_numpy() -> pd.DataFrame:
    """The rows as pandas has them after it has read a file."""
    frame = pd.DataFrame(ROWS, columns=list(KINDS), dtype=object)
    for name in KINDS:
        if name[0] in "tz":
            column = pd.Series(
                np.array(
                    [None if row is None else row.replace(tzinfo=None) for row in frame[name]],
                    "M8[us]",
                )
            )
            frame[name] = (
                column.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
                if name[0] == "z"
                else column
            )
    return frame


@pytest.fixture(scope="module", autouse=True)
def _time_zones() -> Iterator[None]:
    """The session's time zone is not that of the process and of its JVM, which tests of other files
    use before and after.
    """
    start_java()
    zones = get_gateway().jvm.java.util.TimeZone
    usual = zones.getDefault()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        zones.setDefault(zones.getTimeZone("Asia/Shanghai"))
        useLocalEnv(1)
        getMLEnv().btenv.get_config().set_local_timezone(ZONE)
        yield
    time.tzset()
    zones.setDefault(usual)


@pytest.fixture(scope="module")
def ways_in() -> BatchOperator:
    """All rows of each way into Flink, and which one it was."""
    sql = " UNION ALL ".join(
        "SELECT "
        + ", ".join(f"{literal(name, value)} AS {name}" for name, value in zip(KINDS, row))
        for row in ROWS
    )
    sources = {
        "rows": MemSourceBatchOp(ROWS, SCHEMA),
        "frame of objects": BatchOperator.fromDataframe(
            pd.DataFrame(ROWS, columns=list(KINDS), dtype=object), SCHEMA
        ),
        "frame of numpy": BatchOperator.fromDataframe(frame_of_numpy(), SCHEMA),
        "frame": BatchOperator.fromDataframe(frame_of_numpy()[GUESSED]),
        "literals": BatchOperator.fromTable(getMLEnv().btenv.sql_query(sql)),
    }
    columns = {way: ", ".join(KINDS) for way in sources}
    columns["frame"] = ", ".join(
        name if name in GUESSED else f"{literal(name, None)} AS {name}" for name in KINDS
    )
    tables = [
        op.select(f"CAST('{way}' AS STRING) AS way, {columns[way]}") for way, op in sources.items()
    ]
    first, *others = tables
    return first.unionAll(*others)


def check(
    frame: pd.DataFrame,
    ways: Sequence[str] = ("rows", "frame of objects", "frame of numpy", "frame", "literals"),
) -> None:
    assert len(frame) == len(ways) * len(ROWS)
    for way in ways:
        part = frame[frame.way == way]
        for name in sorted(set(frame) & set(GUESSED if way == "frame" else KINDS)):
            expected = [cell(name, point) for point in POINTS]
            assert sorted(map(repr, map(plain, part[name]))) == sorted(map(repr, expected)), (
                f"{way}: {name}"
            )


def plain(value: Any) -> Any:
    """A cell as Python has it."""
    if isinstance(value, (list, np.ndarray)):
        return [pd.Timestamp(element).to_pydatetime() for element in value]
    if value is None or value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        value = value.tz_convert(UTC) if value.tzinfo else value
        return value.to_pydatetime()
    return value


@pytest.mark.fault(
    "data", "Times before 1970 and in far years are exact in rows, SQL, scripts and files"
)
def test_times_are_exact_through_rows_sql_scripts_and_predictors(ways_in: BatchOperator) -> None:
    """One job for all."""
    found: dict[str, pd.DataFrame] = {}

    def later(name: str, op: BatchOperator) -> None:
        op.lazyCollectToDataframe(lambda frame: found.__setitem__(name, frame))

    later("callback", ways_in)
    later("script", ways_in.link(script_op("echo_cells.py", f"way STRING, {SCHEMA}")))
    nested = ways_in.select(
        "*, MAP['k', t6] AS m, ROW(t6, z6) AS r, CASE WHEN YEAR(t6) BETWEEN 1678 AND 2261 THEN CAST(t6 AS TIMESTAMP(9)) END AS n, "
        "ARRAY[CAST(1 AS FLOAT), 0, 0] AS x, CAST(0 AS BIGINT) AS k"
    )
    predict = TFSavedModelPredictBatchOp(
        modelPath=models.scaled(2.0), outputSchemaStr="p DOUBLE", selectedCols=["x", "k"]
    )
    later("predictor", nested.link(predict))
    check(ways_in.collectToDataframe())
    assert sorted(found) == ["callback", "predictor", "script"]
    for frame in found.values():
        check(frame)
    predicted = found["predictor"]
    for t6, z6, pairs, row, n in zip(
        predicted.t6, predicted.z6, predicted.m, predicted.r, predicted.n
    ):
        assert pd.isna(n) or plain(n) == plain(t6)
        assert [plain(t6)] == [value for _, value in pairs]
        assert [plain(t6), plain(z6)] == [
            row["EXPR$0"],
            row["EXPR$1"] and row["EXPR$1"].astimezone(UTC),
        ]


@pytest.mark.long
def test_times_are_exact_in_files_that_can_hold_them(
    ways_in: BatchOperator, tmp_path: pathlib.Path
) -> None:
    """Written and read again; they have no arrays, and .ak files no instants."""
    in_csv, in_ak = [[name for name in KINDS if name[0] in letters] for letters in ("tzcd", "tcd")]
    rows = ways_in.filter("way = 'rows'")
    csv, ak = str(tmp_path / "times.csv"), str(tmp_path / "times.ak")
    rows.select(f"way, {', '.join(in_csv)}").link(CsvSinkBatchOp(filePath=csv))
    rows.select(f"way, {', '.join(in_ak)}").link(AkSinkBatchOp(filePath=ak))
    BatchOperator.execute()
    schema = ", ".join(f"{name} {KINDS[name]}" for name in in_csv)
    read = CsvSourceBatchOp(filePath=csv, schemaStr=f"way STRING, {schema}")
    later = []
    AkSourceBatchOp(filePath=ak).lazyCollectToDataframe(later.append)
    check(read.collectToDataframe(), ["rows"])
    check(later[0], ["rows"])
    twice = MemSourceBatchOp(
        [(datetime.datetime(2023, 11, 5, hour, 30),) for hour in (5, 6)], "z TIMESTAMP_LTZ(3)"
    )
    twice.link(CsvSinkBatchOp(filePath=str(tmp_path / "twice.csv")))
    with pytest.raises(
        ConfigurationError,
        match="column 'z' has a time in an hour that the session's time zone repeats",
    ):
        BatchOperator.execute()


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param("{}", marks=pytest.mark.long),
        pytest.param("ARRAY[{}]", marks=pytest.mark.long),
        "MAP['k', ROW(1, {})]",
    ],
)
@pytest.mark.fault("data")
def test_nanoseconds_come_back_or_are_refused_by_the_column(cells: str) -> None:
    """Arrow has 64 bits for them, which reach from 1677 to 2262; Flink's writer took other times
    for those beyond.
    """
    tables = getMLEnv().btenv
    near, far = (
        cells.format(f"TIMESTAMP '{year}-12-31 23:59:59.999999999'") for year in (1960, 1600)
    )
    found = BatchOperator.fromTable(tables.sql_query(f"SELECT {near} AS n")).collectToDataframe().n
    assert "1960-12-31 23:59:59.999999999" in repr(found[0]).replace("T", " ").replace(
        "Timestamp", ""
    )
    with pytest.raises(
        JobError, match=r"the column 'n' .*TIMESTAMP\(9\).*1600-12-31.*CAST it to TIMESTAMP\(6\)"
    ):
        BatchOperator.fromTable(tables.sql_query(f"SELECT {far} AS n")).collectToDataframe()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("INTERVAL '1' DAY", "column 'n' has the type INTERVAL"),
        ("INTERVAL '2' YEAR", "column 'n' has the type INTERVAL"),
        ("ARRAY[INTERVAL '1' DAY]", "column 'n' has the type ARRAY<INTERVAL"),
    ],
)
def test_intervals_and_unsupported_times_are_refused(cells: str, message: str) -> None:
    table = getMLEnv().btenv.sql_query(f"SELECT 1 AS id, {cells} AS n")
    with pytest.raises(SchemaError, match=message):
        BatchOperator.fromTable(table).collectToDataframe()
    with pytest.raises(SchemaError, match="column 'n' has the type|TIMESTAMP"):
        BatchOperator.fromTable(table).link(script_op("echo_cells.py", "id INT"))


def test_a_script_takes_no_nanoseconds() -> None:
    table = getMLEnv().btenv.sql_query("SELECT TIMESTAMP '2024-12-31 23:59:59.999999999' AS n")
    with pytest.raises(SchemaError, match=r"column 'n' .*at most TIMESTAMP\(6\).*CAST it"):
        BatchOperator.fromTable(table).link(script_op("echo_cells.py", "n TIMESTAMP(6)"))


@pytest.mark.slow
@pytest.mark.fault("data")
def test_streams_carry_times_and_nested_nulls() -> None:
    """Into a stream as rows and as SQL, through a predictor and a script, and out as the text of
    Flink's own cast.
    """
    tables = getMLEnv().stenv
    tables.get_config().set_local_timezone(ZONE)
    nested = {f"n{place}": sql for place, sql in enumerate(NESTED)}
    more = ", ".join(f"{sql} AS {name}" for name, sql in nested.items())
    sql = " UNION ALL ".join(
        "SELECT "
        + ", ".join(f"{literal(name, value)} AS {name}" for name, value in zip(KINDS, row))
        for row in ROWS
    )
    literals = StreamOperator.fromTable(tables.sql_query(sql))
    rows: StreamOperator = MemSourceStreamOp(ROWS, SCHEMA)
    fed = "ARRAY[CAST(1 AS FLOAT), 0, 0] AS x, CAST(0 AS BIGINT) AS k"
    predict = {
        "modelPath": models.scaled(2.0),
        "outputSchemaStr": "p DOUBLE",
        "selectedCols": ["x", "k"],
    }
    script: Any = stream_op("echo_cells.py").setOutputSchemaStr(SCHEMA)
    ways = {
        "literals": literals,
        "rows": rows,
        "predictor": literals.select(f"*, {fed}, {more}").link(
            TFSavedModelPredictStreamOp(**predict)
        ),
        "script": rows.link(script),
    }
    texts = []
    for way, op in ways.items():
        names = [*KINDS, *(nested if way == "predictor" else ())]
        without = [
            "" if name in names else f"CAST({each} AS STRING) AS {name}"
            for name, each in nested.items()
        ]
        columns = [f"CAST({name} AS STRING) AS {name}" for name in names] + list(
            filter(None, without)
        )
        texts.append(
            op.select(f"CAST('{way}' AS STRING) AS way, {', '.join(columns)}").getOutputTable()
        )
    first, *others = texts
    for table in others:
        first = first.union_all(table)
    found: dict[str, list[Any]] = {way: [] for way in ways}
    with first.execute().collect() as result:
        for row in result:
            cells = [
                cell and (sorted(cell.strip("{}").split(", ")) if cell.startswith("{") else cell)
                for cell in row[1:]
            ]
            found[row[0]].append(repr(cells))
    assert len(found["literals"]) == len(set(found["literals"])) == len(ROWS)
    assert any(str(POINTS[0]) in row for row in found["literals"])
    for way in ways:
        assert sorted(found[way]) == sorted(found["literals"]), way


def test_a_local_predictor_gives_cells_back_as_they_are() -> None:
    """Those that feed no model: the objects themselves, arrays and their nulls among them."""
    schema = f"{SCHEMA}, n ARRAY<BIGINT>, x ARRAY<FLOAT>, k BIGINT"
    stage = TFSavedModelPredictor(
        modelPath=models.scaled(2.0), outputSchemaStr="p DOUBLE", selectedCols=["x", "k"]
    )
    rows = [(*row, [2**53 + 1, None], [1.0, 0.0, 0.0], 0) for row in ROWS]
    with stage.collectLocalPredictor(schema) as predictor:
        assert repr(predictor.map_batch(rows)) == repr([(*row, 2.0) for row in rows])
        assert predictor.map(rows[0]) == (*rows[0], 2.0)
        assert predictor.predict(np.array([*rows[0], None], object)[:-1]) == [*rows[0], 2.0]
        assert predictor.getOutputColTypes()[: len(KINDS)] == list(KINDS.values())
