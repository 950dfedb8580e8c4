"""Rows of tables become Arrow chunks in the JVM and rows again, on a real mini cluster."""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyflink.common import Row, Types
from pyflink.datastream import ProcessFunction
from pyflink.datastream.data_stream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table
from pyflink.table.expressions import col

from bridge.codec.ipc import write_batch
from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink.arrow_operators import (
    chunks_of,
    column_types,
    logical_type,
    rows_for_members,
    table_of,
    table_of_own,
    whole_chunks,
    with_operator,
)
from bridge.flink.elements import ELEMENT, Element
from bridge.flink.event_time import LAST_TIME, time_of
from bridge.host.program_folder import program_folder
from bridge.settings import Gathering
from operators import MLEnv, PredictStreamOp, StreamOperator, useLocalEnv
from tests.support.chunk_clock import left
from tests.support.kinds import Kind
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.ports import free_ports

pytestmark = pytest.mark.flink

LONG_S = 3600.0  # where sizes are looked at, no chunk leaves because the machine is slow


@pytest.fixture(scope="module")
def table_envs() -> MLEnv:
    return useLocalEnv(1)


@pytest.fixture(autouse=True)
def _memory_is_given_back(table_envs: MLEnv) -> Iterator[None]:
    utils = get_gateway().jvm.org.apache.flink.table.runtime.arrow.ArrowUtils
    utils.checkArrowUsable()  # as all that use Arrow begin

    def in_use() -> Any:
        return utils.getRootAllocator().getAllocatedMemory()

    before = in_use()  # PyFlink keeps some of each job whose rows were collected and that failed
    yield
    wait_until(lambda: in_use() <= before, "memory outside the heap is given back")


@pytest.fixture(params=["STREAMING", pytest.param("BATCH", marks=pytest.mark.long)])
def table_env(request: pytest.FixtureRequest, table_envs: MLEnv) -> StreamTableEnvironment:
    return table_envs.stenv if request.param == "STREAMING" else table_envs.btenv


def numbers(table_env: StreamTableEnvironment, count: int, columns: str = "id") -> Any:
    name = f"numbers_{count}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (id BIGINT) WITH ('connector' = 'datagen', "
        f"'number-of-rows' = '{count}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{count - 1}')"
    )
    return table_env.sql_query(f"SELECT {columns} FROM {name}")


def collected(chunks: Any) -> list[tuple[int, int, pa.RecordBatch]]:
    """Run the job and return (key, number of the input, rows) of each chunk."""
    got = []
    found = chunks._j_data_stream.executeAndCollect()  # PyFlink would make a number of each byte
    try:
        while found.hasNext():
            row = found.next()
            chunk = row.getField(1)
            if chunk.getField(0) == Element.CHUNK:
                batch = pa.ipc.open_stream(chunk.getField(3)).read_next_batch()
                assert batch.num_rows == chunk.getField(2)
                got.append((row.getField(0), chunk.getField(1), batch))
    finally:
        found.close()
    return got


def test_each_member_receives_the_start_of_the_job_once(table_env: StreamTableEnvironment) -> None:
    """Also one that gets no rows, such as a parameter server."""
    chunks = rows_for_members(
        table_env, numbers(table_env, 5), [8], Gathering(by_row=True), members=[7, 8]
    )
    with chunks.execute_and_collect() as found:
        starts = [
            (key, index, list(data))
            for key, (kind, index, _, data) in found
            if kind == Element.START
        ]
    assert sorted(starts) == [(7, 0, []), (8, 1, [])]


ENDS_AT_ONCE = """
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;

public class EndsAtOnce extends AbstractStreamOperator implements OneInputStreamOperator {
  public EndsAtOnce(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service) {
    setup(task, config, output);
  }

  public void open() throws Exception {
    super.open();
    output.emitWatermark(Watermark.MAX_WATERMARK); // the operators behind this one are open
  }

  public void processElement(StreamRecord element) {}
}
"""


class Watermarks(ProcessFunction):
    """Turns each element into the number of its input and the watermark before it."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, Any]]:
        yield value[1][0], ctx.timer_service().current_watermark()


def test_members_receive_the_start_before_the_input_ends(table_envs: MLEnv) -> None:
    """Else a group would take the end of a short input for that of a job without addresses."""
    table_env = table_envs.stenv
    rows = table_env.to_data_stream(numbers(table_env, 1))._j_data_stream
    ended = DataStream(with_operator(rows, "EndsAtOnce", ENDS_AT_ONCE, [], rows.getType()))
    chunks = rows_for_members(
        table_env, table_env.from_data_stream(ended), [7], Gathering(by_row=True)
    )
    seen = chunks.process(Watermarks(), output_type=Types.TUPLE([Types.INT(), Types.LONG()]))
    with seen.execute_and_collect() as found:
        assert [tuple(each) for each in found] == [(Element.START, -(2**63))]


def test_members_receive_watermarks_after_the_rows_before_them(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE timed (id BIGINT, t AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR t AS t) WITH ('connector' = "
        "'datagen', 'rows-per-second' = '50', 'number-of-rows' = '60', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', "
        "'fields.id.end' = '60')"
    )
    told = rows_for_members(
        table_env,
        table_env.from_path("timed"),
        [7],
        Gathering(),
        members=[7, 8],
        sends_watermarks=True,
    )
    elements: dict[int, list[Any]] = collections.defaultdict(list)
    found = told._j_data_stream.executeAndCollect()
    try:
        while found.hasNext():
            row = found.next()
            elements[row.getField(0)].append(
                [row.getField(1).getField(place) for place in range(4)]
            )
    finally:
        found.close()
    times = {
        key: [time_of(bytes(each[3])) for each in got if each[0] == Element.WATERMARK]
        for key, got in elements.items()
    }
    for key, got in elements.items():
        assert {tuple(each[1:3]) for each in got if each[0] == Element.WATERMARK} == {(0, 1)}, (
            "the subtask, of how many"
        )
        assert (
            times[key] == sorted(set(times[key]))
            and times[key][-1] == LAST_TIME
            and len(times[key]) > 1
        )
    assert sorted(times[7]) == sorted(times[8])
    ids: list[int] = []
    for kind, _, _, content in elements[7]:
        if kind == Element.CHUNK:
            batch = pa.ipc.open_stream(content).read_next_batch()
            assert batch.schema.names == ["id", "t"], "with the computed column"
            ids += batch["id"].to_pylist()
        elif kind == Element.WATERMARK and time_of(bytes(content)) < LAST_TIME:
            assert ids[-1] == time_of(bytes(content)), (
                "no row before it is missing, and none behind it is here"
            )
    assert ids == list(range(1, 61))


@pytest.mark.parametrize("sizes", [[1003], [502, 501], [335, 334, 334], [251, 251, 251, 250]])
def test_rows_are_dealt_one_by_one_so_that_shares_differ_by_one(
    table_env: StreamTableEnvironment, sizes: list[int]
) -> None:
    members = list(range(7, 7 + len(sizes)))
    found = collected(
        rows_for_members(
            table_env,
            numbers(table_env, 1003),
            members,
            Gathering(by_row=True, rows=50, wait_s=LONG_S),
        )
    )
    ids = collections.defaultdict(list)
    for key, number, each in found:
        assert number == 0 and each.num_rows <= 50
        ids[key] += each.column(0).to_pylist()
    assert {key: len(each) for key, each in ids.items()} == dict(zip(members, sizes))
    assert sorted(sum(ids.values(), [])) == list(range(1003))
    assert all(each == sorted(each) for each in ids.values())


def test_whole_chunks_are_dealt_in_turn(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    found = collected(
        rows_for_members(
            table_env, numbers(table_env, 1000), [7, 8], Gathering(rows=300, wait_s=LONG_S), 3
        )
    )
    assert [(key, number, each.num_rows) for key, number, each in found] == [
        (7, 3, 300),
        (8, 3, 300),
        (7, 3, 300),
        (8, 3, 100),
    ]


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("REPEAT('x', 1000)", marks=pytest.mark.long),
        pytest.param("CAST(REPEAT('x', 1000) AS BYTES)", marks=pytest.mark.long),
        "ARRAY[REPEAT('x', 500), REPEAT('y', 500)]",
    ],
)
def test_chunks_are_as_large_as_their_bytes(table_envs: MLEnv, cell: str) -> None:
    table_env = table_envs.stenv
    table = numbers(table_env, 1000, f"{cell} AS x")
    sizes = [
        each.num_rows
        for _, _, each in collected(
            _by_chunk(table_env, table, Gathering(bytes=100_000, wait_s=LONG_S))
        )
    ]
    assert sum(sizes) == 1000
    assert all(90 <= size <= 101 for size in sizes[:-1])


def test_a_chunk_leaves_with_a_row_larger_than_a_chunk(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    table = numbers(
        table_env, 5, "id, CASE WHEN id = 2 THEN REPEAT('x', 1500000) ELSE 'y' END AS x"
    )
    found = collected(
        _by_chunk(table_env, table, Gathering(rows=1000, bytes=100_000, wait_s=LONG_S))
    )
    assert [each.column(0).to_pylist() for _, _, each in found] == [[0, 1, 2], [3, 4]]
    assert len(found[0][2].column(1)[2].as_py()) == 1_500_000


def test_nulls_are_kept_wherever_vectors_of_a_chunk_grow(table_envs: MLEnv) -> None:
    """Vectors grow at powers of two, later for what is null."""
    numeric = ["id", *(f"CAST(id AS {name})" for name in ("INT", "FLOAT", "DOUBLE"))]
    cells = [*numeric, "'x'", "ARRAY['x', 'y']", "MAP['x', id]", "ROW('x', ARRAY[id])", "x'00'"]
    columns = ", ".join(
        f"CASE WHEN MOD(id, 1000) < 10 THEN {cell} END AS c{place}"
        for place, cell in enumerate(cells)
    )
    found = collected(
        _by_chunk(
            table_envs.stenv, numbers(table_envs.stenv, 70_000, columns), Gathering(bytes=1 << 30)
        )
    )
    assert sum(each.num_rows for _, _, each in found) == 70_000
    for place in range(len(cells)):
        assert sum(each.num_rows - each.column(place).null_count for _, _, each in found) == 700
    present = [number for number in range(70_000) if number % 1000 < 10]
    for place in range(len(numeric)):
        assert [
            cell for _, _, each in found for cell in each.column(place).drop_null().to_pylist()
        ] == present


def test_all_results_are_asked_for_when_no_more_rows_come_soon(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE bursts (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10', 'fields.id.min' = '0')"
    )
    at_the_end, _ = chunks_of(
        table_env, numbers(table_env, 12), Gathering(rows=5, wait_s=0), sends_all_out=True
    )
    with at_the_end.map(lambda element: element[0], Types.INT()).execute_and_collect() as found:
        assert list(found) == [Element.CHUNK] * 2 + [Element.ALL_OUT, Element.END]
    # Flink's source makes ten rows at once each second. Where they come together, the chunk is full
    # before the timer fires.
    in_time, _ = chunks_of(
        table_env,
        table_env.from_path("bursts"),
        Gathering(rows=10, wait_s=0.05),
        sends_all_out=True,
    )
    with in_time.map(lambda element: element[0], Types.INT()).execute_and_collect() as found:
        for _ in range(2):
            while next(found) != Element.CHUNK:
                pass
            assert next(found) == Element.ALL_OUT


@pytest.mark.long
def test_rows_do_not_wait_longer_than_they_may(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE slow (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1', 'fields.id.min' = '0')"
    )
    chunks = _by_chunk(table_env, table_env.from_path("slow"), Gathering(wait_s=0.01))
    with chunks.execute_and_collect() as found:
        assert next(found)[1][0] == Element.START
        assert [next(found)[1][2] for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("workers", [1, 10, 100])
@pytest.mark.parametrize("between_ms", [0.2, 3, 9, 11, 700])
def test_no_row_of_a_stream_waits_longer_than_promised(
    table_envs: MLEnv, workers: int, between_ms: float
) -> None:
    """However seldom rows come, and however many workers there are; on a clock of the
    test's own.
    """
    draw, time_ms, arrivals = random.Random(workers), 0.0, []
    for _ in range(400):
        time_ms += draw.expovariate(1 / between_ms)
        arrivals.append(int(time_ms))
    chunks = left(arrivals, workers, Gathering(rows=30, wait_s=0.01))
    waited = [chunk.at_ms for chunk in chunks for _ in range(chunk.rows)]
    assert len(waited) == 400 and all(0 <= at - came <= 10 for at, came in zip(waited, arrivals))
    assert all(0 < chunk.rows <= 30 for chunk in chunks)
    assert [chunk.key for chunk in chunks] == [place % workers for place in range(len(chunks))]


def test_single_rows_reach_a_predictor_after_a_millisecond(table_envs: MLEnv) -> None:
    chunks = left(range(100, 1000, 20), 0, Gathering(wait_s=0.01))
    assert chunks == [(at + 1, Element.ALL_OUT, 1) for at in range(100, 1000, 20)]


def test_a_wait_below_a_millisecond_is_a_wait(table_envs: MLEnv) -> None:
    chunks = left(range(100, 200, 20), 1, Gathering(wait_s=0.0005))
    assert [chunk.at_ms for chunk in chunks] == [at + 1 for at in range(100, 200, 20)]


@pytest.mark.parametrize("between_ms", [0.2, 3, 9, 11, 700])
def test_no_row_waits_long_for_a_predictor_and_chunks_keep_a_distance(
    table_envs: MLEnv, between_ms: float
) -> None:
    draw, time_ms, arrivals = random.Random(1), 100.0, []
    for _ in range(400):
        time_ms += draw.expovariate(1 / between_ms)
        arrivals.append(int(time_ms))
    chunks = left(arrivals, 0, Gathering(wait_s=0.01))
    waited = [chunk.at_ms for chunk in chunks for _ in range(chunk.rows)]
    assert len(waited) == 400 and all(0 < at - came <= 11 for at, came in zip(waited, arrivals))
    assert all(chunk.key == Element.ALL_OUT for chunk in chunks)
    times = [chunk.at_ms for chunk in chunks]
    assert all(later - at >= 10 for at, later in zip(times, times[1:]))


@pytest.mark.parametrize("most_rows", [pytest.param(1500, marks=pytest.mark.long), 1 << 16])
def test_a_rush_of_rows_reaches_a_predictor_in_large_chunks(
    table_envs: MLEnv, most_rows: int
) -> None:
    """The predictor may hold their answers back until the rush is over."""
    chunks = left(
        [100 + row // 200 for row in range(20_000)], 0, Gathering(rows=most_rows, wait_s=0.01)
    )
    assert sum(chunk.rows for chunk in chunks) == 20_000
    assert {chunk.key for chunk in chunks[:-1]} == {Element.CHUNK} and len(chunks) < 25
    assert chunks[-1].key == Element.ALL_OUT and chunks[-1].at_ms <= 220


def test_a_type_that_arrow_does_not_have_is_refused(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    with pytest.raises(
        SchemaError,
        match=r"the column 'i' has the type INTERVAL.*which Arrow does not have: CAST it, or leave it out",
    ):
        chunks_of(
            table_env, table_env.sql_query("SELECT 1 AS n, INTERVAL '1' DAY AS i"), Gathering()
        )


@pytest.mark.fault("data", "A table with updates is refused as the input of a script")
def test_members_get_no_updates(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    updating = table_env.sql_query(
        f"SELECT MOD(id, 2) AS k, COUNT(*) AS n FROM {numbers(table_env, 4)} GROUP BY MOD(id, 2)"
    )
    with pytest.raises(
        ConfigurationError,
        match="^AnOp: its input is a changing table \\(GROUP BY .* Group in windows",
    ):
        rows_for_members(table_env, updating, [0], Gathering(by_row=True), where="AnOp: its input")


EVERY_TYPE = {
    "BOOLEAN": "TRUE", "TINYINT": "-1", "SMALLINT": "-2", "INT": "-3", "BIGINT": "-9007199254740993",
    "FLOAT": "0.1", "DOUBLE": "0.1", "STRING": "'straße'", "VARCHAR(9)": "'ab '", "CHAR(4)": "'ab'", "BYTES": "x'00ff'",
    "BINARY(3)": "x'00ff'", "DECIMAL(38, 18)": "-0.0000001", "DECIMAL(5, 0)": "12345", "DATE": "'1969-12-31'",
    "TIME(0)": "'23:59:59'", "TIME(3)": "'23:59:59.123'", "TIMESTAMP(0)": "'1969-12-31 23:59:59'",
    "TIMESTAMP(3)": "'1969-12-31 23:59:59.123'", "TIMESTAMP(6)": "'0001-01-01 00:00:00.123456'",
    "TIMESTAMP(9)": "'2020-02-29 12:00:00.123456789'", "TIMESTAMP_LTZ(6)": "'2020-03-08 03:30:00.123456'",
}  # fmt: skip


def test_every_type_comes_back_as_it_was(table_env: StreamTableEnvironment) -> None:
    """Also in a time zone that skips an hour, and with nulls; arrays, maps and rows too."""
    table_env.get_config().set("table.local-time-zone", "America/New_York")
    cells = [f"CAST({literal} AS {sql})" for sql, literal in EVERY_TYPE.items()]
    nulls = [f"CAST(NULL AS {sql})" for sql in EVERY_TYPE]
    # Flink's own reader of Arrow fails at the times before 1970.
    nested = [
        "ARRAY[TIMESTAMP '1969-12-31 23:59:59.999999']",
        "ARRAY['a', CAST(NULL AS STRING)]",
        "MAP['k', 1]",
        "ROW(1, 'x')",
        "ARRAY[ARRAY[1], ARRAY[2, 3]]",
    ]
    names = [f"c{place}" for place in range(len(cells) + len(nested) + len(nulls))]
    table = table_env.sql_query(
        "SELECT "
        + ", ".join(f"{cell} AS {name}" for cell, name in zip([*cells, *nested, *nulls], names))
    )
    back = _there_and_back(table_env, table)
    texts = ", ".join(f"CAST({name} AS STRING)" for name in names)
    assert list(map(str, _types(back))) == list(map(str, _types(table)))
    (before,), (after,) = (
        list(table_env.sql_query(f"SELECT {texts} FROM {each}").execute().collect())
        for each in (table, back)
    )
    assert list(after) == list(before)


@pytest.mark.long
def test_updates_pass_through_operators_as_updates(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    updating = table_env.sql_query(
        f"SELECT MOD(id, 2) AS k, COUNT(*) AS n FROM {numbers(table_env, 4)} GROUP BY MOD(id, 2)"
    )
    with _there_and_back(table_env, updating).execute().collect() as rows:
        found = [(str(row.get_row_kind()), *row) for row in rows]
    assert found == [
        ("+I", 0, 1),
        ("+I", 1, 1),
        ("-U", 0, 1),
        ("+U", 0, 2),
        ("-U", 1, 1),
        ("+U", 1, 2),
    ]


def test_chunks_in_pieces_are_put_together(table_envs: MLEnv) -> None:
    table_env = table_envs.stenv
    updating = table_env.sql_query(
        f"SELECT MOD(id, 2) AS k, COUNT(*) AS n FROM {numbers(table_env, 4)} GROUP BY MOD(id, 2)"
    )
    chunks, updates = chunks_of(table_env, updating, Gathering())

    def cut(chunk: Any) -> Iterator[Row]:
        kind, kinds, arrow = chunk
        pieces = [Row(Element.PIECE.value, None, part) for part in (arrow[:100], arrow[100:101])]
        yield from (*pieces, Row(kind, kinds, arrow[101:]))

    table = table_of(
        table_env, chunks.flat_map(cut, ELEMENT), column_types(updating), None, updates
    )
    with table.execute().collect() as rows:
        found = [(str(row.get_row_kind()), *row) for row in rows]
    assert found == [
        ("+I", 0, 1),
        ("+I", 1, 1),
        ("-U", 0, 1),
        ("+U", 0, 2),
        ("-U", 1, 1),
        ("+U", 1, 2),
    ]


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.fault(
    "jobs",
    "A script's rows that Flink loses at their end are an error of the job, not missing rows",
)
def test_output_without_its_end_is_refused(table_env: StreamTableEnvironment, sink: bool) -> None:
    def ended(table: Table, end: list[Row]) -> DataStream:
        chunks, _ = chunks_of(table_env, table, Gathering(rows=2))
        return chunks.flat_map(lambda chunk: [chunk, *end], ELEMENT)

    def rows(table: Table, end: list[Row]) -> list[Any]:
        if sink:
            whole = whole_chunks(table, ended(table, end), "whole", sends_marks=False, ends=True)
            table = table_of(table_env, whole, column_types(table))
        else:
            table = table_of(table_env, ended(table, end), column_types(table), ends=True)
        with table.execute().collect() as found:
            return sorted(row[0] for row in found)

    assert rows(numbers(table_env, 4), [Row(Element.END.value, None, b"")]) == [0, 1, 2, 3]
    with pytest.raises(
        Exception, match="the last results of an operator did not arrive, so rows are missing"
    ):
        rows(numbers(table_env, 4), [])


def test_operators_between_pass_the_configuration_of_the_job_on(table_envs: MLEnv) -> None:
    """Such as that local jobs run them in this program."""
    this, chunks = (
        os.getpid(),
        chunks_of(table_envs.stenv, numbers(table_envs.stenv, 1), Gathering())[0],
    )

    def here(chunk: Any) -> Iterator[Any]:
        assert os.getpid() == this
        yield Row(*chunk)

    table = table_of(
        table_envs.stenv, chunks.flat_map(here, ELEMENT), [("id", logical_type("BIGINT"))]
    )
    assert [tuple(row) for row in table.execute().collect()] == [(0,)]


def test_rows_of_this_program_stay_while_a_table_needs_them(table_envs: MLEnv) -> None:
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
    table_env, columns = table_envs.btenv, [("n", logical_type("BIGINT"))]

    def folders() -> set[str]:
        return {name for name in os.listdir(program_folder()) if name.startswith("rows_")}

    before = folders()
    # of another table
    kept = table_of_own(table_env, [write_batch(batch)], columns).where(col("n") > 1)
    (own,) = folders() - before
    table_of_own(table_env, [write_batch(batch)] * 2, columns)
    (other,) = folders() - before - {own}

    def other_is_gone() -> bool:
        gc.collect()
        get_gateway().jvm.System.gc()
        table_of_own(table_env, [write_batch(batch)], columns)
        return other not in folders()

    wait_until(other_is_gone, "the rows of a table without an owner are removed")
    assert own in folders() and [tuple(row) for row in kept.execute().collect()] == [(2,)]


def test_failing_job_releases_its_memory(table_envs: MLEnv) -> None:
    """The fixture looks for it."""
    table_env = table_envs.stenv
    table = numbers(table_env, 10, "1 / (id - 9) AS x")
    with pytest.raises(Exception, match="by zero"):
        list(_by_chunk(table_env, table, Gathering()).execute_and_collect())


def test_beam_does_not_log_while_it_counts_references(table_envs: MLEnv) -> None:
    """Beam's log line made its count of a worker's references fall below zero at times, which ended
    the TaskManager.
    """
    table_env = table_envs.stenv
    logger = get_gateway().jvm.org.apache.logging.log4j.LogManager.getLogger(
        "org.apache.beam.runners.fnexecution.control.DefaultJobBundleFactory"
    )
    logger.setLevel(get_gateway().jvm.org.apache.logging.log4j.Level.INFO)
    list(_by_chunk(table_env, numbers(table_env, 10), Gathering()).execute_and_collect())
    assert logger.getLevel().toString() == "ERROR"


def test_logical_types_are_read_from_sql() -> None:
    assert logical_type("DECIMAL(10, 2) NOT NULL").asSummaryString() == "DECIMAL(10, 2) NOT NULL"


def _by_chunk(table_env: StreamTableEnvironment, table: Any, gathering: Gathering) -> Any:
    return rows_for_members(table_env, table, [0], gathering)


def _there_and_back(table_env: StreamTableEnvironment, table: Any) -> Any:
    chunks, updates = chunks_of(table_env, table, Gathering())
    passed = chunks.flat_map(lambda chunk: [Row(*chunk)], ELEMENT)
    return table_of(table_env, passed, column_types(table), None, updates)


def _types(table: Any) -> Any:
    return table._j_table.getResolvedSchema().getColumnDataTypes()


def test_metrics_of_flink_count_rows_while_they_pass(tmp_path: pathlib.Path) -> None:
    (port,) = free_ports(1)
    page = {
        "rest.bind-port": str(port),
        "rest.port": str(port),
        "metrics.fetcher.update-interval": "50",
    }
    table_env = useLocalEnv(1, config=page).stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE lasting (id BIGINT, x FLOAT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.id.min' = '0')"
    )
    (model,) = Kind(".onnx", tmp_path).scaled(two=2.0)
    predict = PredictStreamOp(
        modelPath=model,
        selectedCols=["x"],
        outputSchemaStr="y FLOAT",
        chunkRows=5,
    )
    rows = StreamOperator.fromTable(table_env.from_path("lasting"))
    table = rows.link(predict).getOutputTable()
    back = table_env.to_data_stream(table)._j_data_stream
    back.sinkTo(get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink())
    job = back.getExecutionEnvironment().executeAsync()
    try:
        first: dict[str, float] = {}
        seen: dict[str, float] = {}

        def moves() -> bool:
            seen.update(_metrics(f"http://localhost:{port}/jobs/{job.getJobID()}"))
            counted = [
                f"{operator}.akdl.{name}"
                for operator in ("RowsToArrow", "ArrowToRows")
                for name in ("rows", "bytes")
            ]
            counted.append("PredictStreamOp.akdl.kind.ONNX.device.CPU.inferences")
            # The counters of Python arrive once a second.
            for name in seen:
                first.setdefault(name, seen[name])
            return all(seen.get(name, 0) > first.get(name, 0) for name in counted)

        wait_until(moves, "the operators count rows and bytes", 4 * DEADLINE_S)
        assert seen["RowsToArrow.arrowBytes"] > 0 and "RowsToArrow.akdl.waitedMs" in seen
    finally:
        job.cancel().get()


def _metrics(job: str) -> dict[str, float]:
    """Return the newest metrics of our operators, by name, from the address of a job on Flink's
    page.
    """
    found = {}
    for vertex in requests.get(job).json().get("vertices", []):
        address = f"{job}/vertices/{vertex['id']}/subtasks/metrics"
        names = [
            each["id"]
            for each in requests.get(address).json()
            if "Op" in each["id"] or "Arrow" in each["id"]
        ]
        for each in requests.get(address, params={"get": ",".join(names)}).json() if names else []:
            found[each["id"]] = each["sum"]
    return found
