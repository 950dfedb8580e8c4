"""Event time through scripts and predictors: windows before and after them, and no row lost
between.

The same two windows without anything between them lose none, since Flink's watermarks pass from one
to the other.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from operators import (
    MLEnv,
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    resetEnv,
    useLocalEnv,
    waitForJob,
)
from tests.akdl.serving import models
from tests.e2e.streams import stop_with_savepoint
from tests.e2e.test_stream_checkpoints import checkpoints
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink

HOURS, KEYS, ROWS = 30, 40, 3000
PER_HOUR = """SELECT k, window_time AS t, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR))
    GROUP BY k, window_start, window_end, window_time"""
OUTPUT = "k INT, t TIMESTAMP(3), n BIGINT, WATERMARK FOR t AS SOURCE_WATERMARK()"


def same(task_config: Any) -> None:
    """Write what comes, without TensorFlow."""
    from akdl.wire.cells import read_cells

    for columns in task_config.tf_context.rows.columns():
        task_config.output_writer.write_batch(
            {each.name: read_cells(each, columns.rows).values for each in columns.columns}
        )
        if task_config.user_params.get("commits"):
            task_config.commit(columns.rows)


def same_batches(task_config: Any) -> None:
    """Write what comes, in batches that are not those that come."""
    for rows in task_config.tf_context.batches(7):
        task_config.output_writer.write_batch(rows)


def script(workers: int = 1, main: Any = same, **params: Any) -> TensorFlow2StreamOp:
    return TensorFlow2StreamOp(
        mainScriptFile=main, numWorkers=workers, numPSs=0, **{"outputSchemaStr": OUTPUT, **params}
    )


def predictor(**params: Any) -> TFSavedModelPredictStreamOp:
    return TFSavedModelPredictStreamOp(
        modelPath=models.scaled(2.0),
        outputSchemaStr="p DOUBLE",
        selectedCols=["x", "k"],
        reservedCols=["t", "n"],
        **params,
    )


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    # windows take theirs when they start
    yield useLocalEnv(4, {"taskmanager.memory.managed.size": "1g"})
    resetEnv()


@pytest.fixture
def clicks(env: MLEnv, tmp_path: pathlib.Path) -> StreamOperator:
    """A backlog of rows of 30 hours, in order of time, by key and hour."""
    with open(tmp_path / "in.csv", "w") as file:
        for number in range(ROWS):
            seconds = number * HOURS * 3600 // ROWS
            day, hour, minute, second = (
                1 + seconds // 86400,
                seconds // 3600 % 24,
                seconds // 60 % 60,
                seconds % 60,
            )
            file.write(
                f"2024-01-{day:02d} {hour:02d}:{minute:02d}:{second:02d},{number * 7 % KEYS}\n"
            )
    env.stenv.execute_sql("DROP TEMPORARY TABLE IF EXISTS clicks")
    env.stenv.execute_sql(
        "CREATE TEMPORARY TABLE clicks (ts TIMESTAMP(3), k INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in.csv', 'format' = 'csv')"
    )
    return StreamOperator.fromTable(env.stenv.sql_query(PER_HOUR))


class Totals:
    """Sums of `n` of tables with an event time, by windows of 6 hours, of one job."""

    def __init__(self, table_env: Any, folder: pathlib.Path) -> None:
        self._table_env = table_env
        self._folder = folder
        self._statements = table_env.create_statement_set()
        self._names: list[str] = []

    def add(self, name: str, op: StreamOperator) -> None:
        self._names.append(name)
        view, sink = f"{self._folder.name}_{name}", f"sums_{self._folder.name}_{name}"
        self._table_env.create_temporary_view(view, op.getOutputTable())
        self._table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {sink} (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{self._folder / name}', "
            "'format' = 'csv')"
        )
        window = f"TUMBLE(TABLE {view}, DESCRIPTOR(t), INTERVAL '6' HOUR)"
        self._statements.add_insert_sql(
            f"INSERT INTO {sink} SELECT SUM(n) FROM TABLE({window}) GROUP BY window_start, window_end"
        )

    def run(self) -> dict[str, int]:
        waitForJob(self._statements)
        return {name: self._sum(self._folder / name) for name in self._names}

    @staticmethod
    def _sum(folder: pathlib.Path) -> int:
        return sum(
            int(line)
            for path in folder.rglob("*")
            if path.is_file()
            for line in path.read_text().splitlines()
        )


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.parametrize(
    ("parallelism", "workers"),
    [
        (2, 3),
        pytest.param(1, 2, marks=pytest.mark.long),
        pytest.param(4, 3, marks=pytest.mark.long),
    ],
)
@pytest.mark.fault("data")
def test_no_row_is_late_after_a_script(
    env: MLEnv, clicks: StreamOperator, tmp_path: pathlib.Path, parallelism: int, workers: int,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    env.stenv.get_config().set("parallelism.default", str(parallelism))
    totals = Totals(env.stenv, tmp_path)
    totals.add("script", clicks.link(script(workers)))
    totals.add(
        "commits", clicks.link(script(2, replay="uncommitted", userParams={"commits": True}))
    )
    totals.add("batches", clicks.link(script(main=same_batches)))
    fed = clicks.select(
        "t, n, CAST(k AS BIGINT) AS k, ARRAY[CAST(n AS FLOAT), CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x"
    )
    totals.add("predictor", fed.link(predictor()))
    totals.add("script_of_script", clicks.link(script()).link(script(2)))
    found = totals.run()
    assert found == dict.fromkeys(found, ROWS)
    assert "arrived behind the watermark" not in capfd.readouterr().err


@pytest.mark.fault("data")
def test_rows_behind_a_watermark_of_the_output_are_counted(
    env: MLEnv, clicks: StreamOperator, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The watermark of the output lies a day before what has come, and rows of the past come at the
    end.
    """

    def turned_back(task_config: Any) -> None:
        from akdl.wire.cells import read_cells

        held = []
        for columns in task_config.tf_context.rows.columns():
            cells = {each.name: read_cells(each, columns.rows).values for each in columns.columns}
            held.append(cells)
            if len(held) > 1:
                task_config.output_writer.write_batch(cells)
        task_config.output_writer.flush()
        task_config.output_writer.write_batch(held[0])

    totals = Totals(env.stenv, tmp_path)
    schema = "k INT, t TIMESTAMP(3), n BIGINT, WATERMARK FOR t AS t - INTERVAL '1' MINUTE"
    totals.add("late", clicks.link(script(main=turned_back, outputSchemaStr=schema, chunkRows=20)))
    assert totals.run()["late"] < ROWS
    told = capfd.readouterr().err
    assert (
        "rows arrived behind the watermark of 't', so windows that had closed before lack them"
        in told
    )
    assert "SOURCE_WATERMARK() uses the watermarks of the input" in told


@pytest.mark.fault("data")
def test_windows_close_while_a_subtask_of_the_source_is_idle(
    env: MLEnv, tmp_path: pathlib.Path
) -> None:
    """One file goes to one subtask of two; the other one never has a row, and the job never
    ends.
    """
    (incoming := tmp_path / "incoming").mkdir()
    (tmp_path / "0.csv").write_text(
        "".join(f"2024-01-01 00:{minute:02d}:00,{minute}\n" for minute in range(60))
    )
    os.rename(tmp_path / "0.csv", incoming / "0.csv")
    config = env.stenv.get_config()
    config.set("parallelism.default", "2")
    config.set("table.exec.source.idle-timeout", "300 ms")
    try:
        env.stenv.execute_sql(
            "CREATE TEMPORARY TABLE growing (ts TIMESTAMP(3), k INT, WATERMARK FOR ts AS ts) WITH ('connector' = "
            f"'filesystem', 'path' = '{incoming}', 'format' = 'csv', 'source.monitor-interval' = '200 ms')"
        )
        growing = StreamOperator.fromTable(
            env.stenv.sql_query("SELECT k, ts AS t, CAST(1 AS BIGINT) AS n FROM growing")
        )
        passed = growing.link(script(2)).getOutputTable()
        env.stenv.create_temporary_view("passed", passed)
        windows = env.stenv.sql_query(
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE passed, DESCRIPTOR(t), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end"
        )
        result = windows.execute()
        with result.collect() as rows:
            assert [next(rows)[0] for _ in range(5)] == [10] * 5, (
                "those that the watermark has passed"
            )
        result.get_job_client().cancel().result()
    finally:
        config.set("table.exec.source.idle-timeout", "0 ms")


@pytest.mark.slow
@pytest.mark.fault("jobs")
def test_no_row_is_late_after_a_kill(tmp_path: pathlib.Path) -> None:
    """Rows that come again are in their windows again, which count each id once."""
    env = useLocalEnv(2, checkpoints(tmp_path))
    pid_file = tmp_path / "pid"

    def commits(task_config: Any) -> None:
        import os

        from akdl.wire.cells import read_cells

        path = f"{task_config.user_params['pid_file']}.{task_config.task_index}"
        with open(path + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(path + ".new", path)
        for columns in task_config.tf_context.rows.columns():
            task_config.output_writer.write_batch(
                {each.name: read_cells(each, columns.rows).values for each in columns.columns}
            )
            task_config.commit(columns.rows)

    env.stenv.execute_sql(
        "CREATE TEMPORARY TABLE timed (id BIGINT, t AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR t AS t - INTERVAL '20' "
        "SECOND) WITH ('connector' = 'datagen', 'rows-per-second' = '250', 'fields.id.kind' = 'sequence', "
        # more than it reads before it is cancelled
        "'fields.id.start' = '0', 'fields.id.end' = '100000')"
    )
    op = script(
        2, commits, outputSchemaStr="id BIGINT, t TIMESTAMP_LTZ(3), WATERMARK FOR t AS SOURCE_WATERMARK()", replay="uncommitted",
        userParams={"pid_file": str(pid_file)},
    )  # fmt: skip
    passed = StreamOperator.fromTable(env.stenv.from_path("timed")).link(op).getOutputTable()
    env.stenv.create_temporary_view("passed", passed)
    env.stenv.execute_sql(
        f"CREATE TEMPORARY TABLE counts (n BIGINT, t TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', "
        "'format' = 'csv', 'sink.rolling-policy.check-interval' = '1 s')"
    )

    def counts() -> list[str]:
        parts = (tmp_path / "out").rglob("part-*") if (tmp_path / "out").exists() else ()
        return [line for part in parts for line in part.read_text().splitlines()]

    def times(lines: list[str]) -> list[datetime.datetime]:
        return [
            datetime.datetime.fromisoformat(line.partition(",")[2].strip('"') + "+00:00")
            for line in lines
        ]

    try:
        result = env.stenv.execute_sql(
            "INSERT INTO counts SELECT COUNT(DISTINCT id), CAST(window_start AS TIMESTAMP(3)) FROM TABLE(TUMBLE(TABLE passed, "
            "DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        )
        wait_until(lambda: len(counts()) > 1, "windows have closed", 4 * DEADLINE_S)
        first, closed = int(pathlib.Path(f"{pid_file}.0").read_text()), len(counts())
        os.kill(first, signal.SIGKILL)
        wait_until(
            lambda: len(counts()) > closed + 8,
            "windows have closed after the kill",
            4 * DEADLINE_S,
        )
        assert int(pathlib.Path(f"{pid_file}.0").read_text()) != first
        # Each of two subtasks makes windows final, so a later one may be there before an earlier
        # one.
        last = max(times(counts()))
        wanted = [
            last - datetime.timedelta(minutes=number)
            for number in range(int(last.timestamp() // 60) + 1)
        ]
        wait_until(
            lambda: set(times(counts())) >= set(wanted), "no window is missing", 2 * DEADLINE_S
        )
        result.get_job_client().cancel().result()
        found = counts()
        assert len(set(times(found))) == len(found), "a window comes once"
        assert {line.partition(",")[0] for line in found} == {"60"}
    finally:
        resetEnv()


@pytest.mark.long
@pytest.mark.fault(
    "jobs", "No row is late behind a script that goes on from a savepoint with another numWorkers"
)
def test_no_row_is_late_after_a_rescale(tmp_path: pathlib.Path) -> None:
    """Windows of a minute have their 60 rows, each window once, through savepoints from two workers
    to three, and to one.
    """
    config = {**checkpoints(tmp_path), "taskmanager.memory.managed.size": "512m"}

    def windows() -> dict[int, int]:
        lines = [
            line
            for part in (tmp_path / "out").rglob("part-*")
            for line in part.read_text().splitlines()
        ]
        found = dict(map(int, line.split(",")) for line in lines)
        assert len(found) == len(lines), "a window comes once"
        return found

    def start(workers: int) -> Any:
        table_env = useLocalEnv(2, config).stenv
        table_env.execute_sql(
            "CREATE TEMPORARY TABLE timed (id BIGINT, t AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR t AS t - INTERVAL '20' "
            "SECOND) WITH ('connector' = 'datagen', 'rows-per-second' = '250', 'number-of-rows' = '200000', "
            "'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '199999')"
        )
        schema = "id BIGINT, t TIMESTAMP_LTZ(3), WATERMARK FOR t AS SOURCE_WATERMARK()"
        op = script(
            workers, outputSchemaStr=schema, replay="uncommitted", userParams={"commits": True}
        )
        passed = StreamOperator.fromTable(table_env.from_path("timed")).link(op).getOutputTable()
        table_env.create_temporary_view("passed", passed)
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE counts (w BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', "
            "'format' = 'csv', 'sink.rolling-policy.check-interval' = '1 s')"
        )
        return table_env.execute_sql(
            "INSERT INTO counts SELECT MIN(id) / 60, COUNT(DISTINCT id) FROM "
            "TABLE(TUMBLE(TABLE passed, DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        ).get_job_client()

    try:
        reached = 0
        for workers in (2, 3, 1):
            client = start(workers)
            wait_until(
                lambda least=reached + 5: len(windows()) > least,
                f"windows close behind {workers} workers",
                4 * DEADLINE_S,
            )
            if workers != 1:
                config["execution.state-recovery.path"] = stop_with_savepoint(
                    client, tmp_path / "savepoints"
                )
                resetEnv()
            reached = len(windows())
        wait_until(
            lambda: sorted(windows()) == list(range(len(windows()))),
            "no window is missing",
            2 * DEADLINE_S,
        )
        assert set(windows().values()) == {60}
        client.cancel().result()
    finally:
        resetEnv()
