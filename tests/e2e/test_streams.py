"""Rows that flow through a script without end: none is lost, none is repeated, none waits for the
next.
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from pyflink.table import StreamTableEnvironment

from bridge.errors.flink_errors import readable
from bridge.exceptions import BridgeError
from operators import (
    MLEnv,
    RandomTableSourceStreamOp,
    StreamOperator,
    TensorFlow2StreamOp,
    resetEnv,
    useLocalEnv,
)
from tests.e2e.jobs import SCRIPTS
from tests.e2e.streams import Sink, counting, socket_stream, stream_op
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, task_processes, wait_until

pytestmark = [pytest.mark.flink, pytest.mark.estimator]


@pytest.fixture(scope="module")
def environments() -> Iterator[MLEnv]:
    yield useLocalEnv(2)
    resetEnv()


@pytest.fixture
def table_env(environments: MLEnv) -> StreamTableEnvironment:
    return environments.stenv


def run(stream: TensorFlow2StreamOp, sink: Sink) -> None:
    """Run a stream with an end into a sink."""
    try:
        stream.getOutputTable().execute_insert(sink.name).wait()
    except Exception as error:
        raise readable(error) from None


class Shown:
    """What was printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.all = []

    def lines(self) -> set[Any]:
        self.all += self._capsys.readouterr().out.splitlines()
        return set(self.all)


MILLION, SOME = 1_000_000, 200_000


@pytest.mark.tf
@pytest.mark.slow
def test_identity_of_a_million_rows_by_three_workers(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    sink = Sink(table_env, tmp_path)
    run(
        counting(table_env, MILLION).link(
            stream_op("identity.py", 3, userParams={"batch_size": 1024})
        ),
        sink,
    )
    rows = sink.rows()
    assert len(rows) == len({number for _, number in rows}) == MILLION
    shares = [sum(worker == index for worker, _ in rows) for index in range(3)]
    # whole chunks are dealt in turn; some leave before they are full, more on a busy machine
    assert min(shares) > MILLION // 4


@pytest.mark.tf
def test_filter_in_graph_mode(table_env: StreamTableEnvironment, tmp_path: pathlib.Path) -> None:
    sink = Sink(table_env, tmp_path)
    run(counting(table_env, SOME).link(stream_op("even_in_graph_mode.py")), sink)
    assert sorted(number for _, number in sink.rows()) == list(range(0, SOME, 2))


@pytest.mark.tf
def test_fan_out(table_env: StreamTableEnvironment, tmp_path: pathlib.Path) -> None:
    sink = Sink(table_env, tmp_path)
    run(counting(table_env, SOME).link(stream_op("three_each.py")), sink)
    rows = sink.rows()
    assert len(rows) == len(set(rows)) == 3 * SOME


@pytest.mark.tf
def test_an_estimator_takes_the_stream_as_its_input(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    sink = Sink(table_env, tmp_path)
    run(counting(table_env, 1000).link(stream_op("estimator.py")), sink)
    assert sink.rows() == [(0, 10)]


@pytest.mark.tf
@pytest.mark.slow
def test_workers_share_a_parameter_server(environments: MLEnv, tmp_path: pathlib.Path) -> None:
    table_env = useLocalEnv(3).stenv
    sink = Sink(table_env, tmp_path)
    op = stream_op("sum_on_ps.py", 2).setNumPSs(1)
    run(counting(table_env, 1000, 500).link(op), sink)
    rows = sink.rows()
    assert sorted(worker for worker, _ in rows) == [0, 1]
    assert max(total for _, total in rows) == sum(range(1000))


def test_rows_come_back_without_further_input_and_cancel_ends_all(
    environments: MLEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket_stream(environments) as (stream, send):
        # Two of three workers wait without a row at first; the script starts all the same.
        stream.link(stream_op("without_tensorflow.py", 3)).print(title="out")
        job = StreamOperator.executeAsync()
        shown = Shown(capsys)
        try:
            send([7])
            wait_until(
                lambda: any(line.endswith(", 7") for line in shown.lines()),
                "the first row is shown",
                2 * DEADLINE_S,
            )
            wait_until(
                lambda: len(task_processes()) == 3, "the workers without a row have started too"
            )
            assert not job.wait(0)
            send([8])
            wait_until(
                lambda: any(line.endswith(", 8") for line in shown.lines()), "the next is shown"
            )
        finally:
            job.cancel()
        assert job.wait(0)
        wait_until(lambda: not task_processes(), "no process is left")


def test_a_file_source_that_grows(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE growing (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{incoming}', "
        "'format' = 'csv', 'source.monitor-interval' = '200 ms')"
    )
    op = stream_op("identity.py", userParams={"batch_size": 1})
    StreamOperator.fromTable(table_env.from_path("growing")).link(op)
    op.print()
    shown = Shown(capsys)
    job = StreamOperator.executeAsync()

    def arrive(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        (tmp_path / name).rename(incoming / name)  # at once, as a file source wants it

    try:
        arrive("0.csv", "0\n1\n2\n")
        wait_until(
            lambda: shown.lines() >= {"0, 0", "0, 1", "0, 2"},
            "the rows of the first file are there",
            2 * DEADLINE_S,
        )
        arrive("1.csv", "3\n4\n")
        wait_until(
            lambda: shown.lines() >= {"0, 3", "0, 4"}, "the rows of the second file are there"
        )
        assert len(shown.all) == 6
    finally:
        job.cancel()


# When the script returns before its input ends.


@pytest.mark.fault("jobs")
def test_a_script_that_returns_early_drains_the_rest(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    sink = Sink(table_env, tmp_path)
    run(
        counting(table_env, 50_000).link(
            stream_op("without_tensorflow.py", userParams={"returns_after": 3})
        ),
        sink,
    )
    assert len(sink.rows()) == 3


@pytest.mark.fault("jobs")
def test_a_script_that_returns_early_may_fail_the_job(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    op = stream_op("without_tensorflow.py", userParams={"returns_after": 3}, onReturn="fail")
    with pytest.raises(BridgeError, match="returned before its input ended.*onReturn"):
        # longer than any start takes
        run(counting(table_env, 200_000, 500).link(op), Sink(table_env, tmp_path))


@pytest.mark.fault("jobs")
def test_a_script_that_returns_early_may_be_started_again(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    sink = Sink(table_env, tmp_path)
    params = {"returns_after": 300, "commits": True}
    op = stream_op(
        "without_tensorflow.py", userParams=params, onReturn="restart", replay="uncommitted"
    )
    run(counting(table_env, 1000).link(op), sink)
    assert sorted(number for _, number in sink.rows()) == list(range(1000))


@pytest.mark.fault("jobs", "A script that returns without taking rows is not restarted endlessly")
def test_a_script_that_returns_without_taking_rows_is_not_started_for_ever(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "returns.py"
    script.write_text("def main(config):\n    pass\n")
    op = (
        stream_op("identity.py", onReturn="restart")
        .setUserFiles([str(script)])
        .setMainScriptFile(str(script))
    )
    with pytest.raises(BridgeError, match="restarts would be endless"):
        run(counting(table_env, 1000).link(op), Sink(table_env, tmp_path))


def test_an_error_of_the_script_fails_the_job(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    params = {"raises_once": 5, "marker": str(tmp_path / "marker")}
    with pytest.raises(BridgeError, match="ValueError: once"):
        run(
            counting(table_env, 100).link(stream_op("without_tensorflow.py", userParams=params)),
            Sink(table_env, tmp_path),
        )


# Back-pressure.


@pytest.mark.fault("jobs")
def test_a_slow_script_slows_the_source_down(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "waits.py"
    go, seen = tmp_path / "go", tmp_path / "seen"
    script.write_text(
        "import os, time\n"
        "from tfrecords import examples\n"
        "def main(config):\n"
        "    for number, path in enumerate(config.tf_context.rows.segments()):\n"
        f"        while number == 1 and not os.path.exists({str(go)!r}):\n"
        f"            open({str(seen)!r}, 'w').close()\n"
        "            time.sleep(0.05)\n"
        "        ids = [e['id'].int64_list.value[0] for e in examples(path)]\n"
        "        config.output_writer.write_batch({'worker': [0] * len(ids), 'id': ids})\n"
    )
    op = stream_op("identity.py", chunkRows=1000)
    op.setUserFiles([str(script), op.getUserFiles()[1]]).setMainScriptFile(str(script))
    rows = 800_000
    source = counting(table_env, rows)
    source.link(op)
    sink = Sink(table_env, tmp_path)
    result = op.getOutputTable().execute_insert(sink.name)
    wait_until(seen.exists, "the script waits", 2 * DEADLINE_S)
    [process] = task_processes()
    wait_until(lambda: process.status() == "sleeping", "the rows that may wait have come")
    held = process.memory_info().rss
    deadline = time.monotonic() + 1
    wait_until(lambda: time.monotonic() > deadline, "time in which an unbounded queue would grow")
    assert process.memory_info().rss - held < 24 << 20  # all rows together take 40 MB
    go.touch()
    result.wait()
    assert len(sink.rows()) == rows


# Sources.


def test_random_rows_are_counted_from_one_and_paced(capsys: pytest.CaptureFixture[str]) -> None:
    source = RandomTableSourceStreamOp().setMaxRows(4).setNumCols(2).setTimePerSample(0.4)
    assert source.getColNames() == ["num", "col0", "col1"]
    source.select("num").print()
    started = time.monotonic()
    StreamOperator.execute()
    head, *numbers = capsys.readouterr().out.splitlines()
    assert head == "num" and sorted(numbers) == ["1", "2", "3", "4"]
    assert time.monotonic() - started >= 0.4 * 2  # whatever Flink's seconds begin with


# The program's end.


@pytest.mark.fault("jobs")
def test_a_program_that_ends_takes_its_running_stream_along(tmp_path: pathlib.Path) -> None:
    program = SCRIPTS / "left_running.py"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**ENVIRONMENT, "TMPDIR": str(temporary), "PYTHONPATH": str(program.parents[3])},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    *warned, told = done.stderr.splitlines()
    assert all(
        line.startswith("Flink 1.20") and "cannot protect the servers of local jobs" in line
        for line in warned
    ), warned
    assert told.startswith(
        "akdl: the program ended while a job was running in it (TensorFlow2StreamOp, chief 0; "
    ), told
    *rows, at_the_end = done.stdout.splitlines()
    assert len(rows) == 10
    assert at_the_end == "at work: []", "Python ends threads that run on, and may abort with them"
    wait_until(lambda: not _working_under(temporary), "no process of the program is left")
    wait_until(lambda: not list(temporary.glob("akdl-*")), "no work folder is left")


def _working_under(folder: pathlib.Path) -> list[psutil.Process]:
    """Return the processes whose current folder lies under this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if pathlib.Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


# Event time.


def test_a_table_may_have_several_event_times(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    """Flink takes one for a stream."""
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE timed_twice (id BIGINT, at_time AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR at_time AS at_time) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        "'fields.id.end' = '9')"
    )
    sink, table = (
        Sink(table_env, tmp_path),
        table_env.sql_query("SELECT id, at_time, at_time AS again FROM timed_twice"),
    )
    run(StreamOperator.fromTable(table).link(stream_op("identity.py")), sink)
    assert sorted(sink.rows()) == [(0, number) for number in range(10)]


def test_output_carries_a_time_attribute_of_its_own(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "times.py"
    script.write_text(
        "import numpy as np\n"
        "def main(config):\n"
        "    for path in config.tf_context.rows.segments():\n"
        "        pass\n"
        # 3 is late: the window before 10 has closed with the row of 12
        "    seconds = np.array([0, 1, 12, 3, 11, 40])\n"
        "    config.output_writer.write_batch({'id': seconds, 'ts': [f'1970-01-01 00:00:{s:02d}' for s in seconds]})\n"
    )
    op = stream_op("identity.py")
    op.setUserFiles([str(script)]).setMainScriptFile(str(script))
    op.setOutputSchemaStr(
        "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    )
    counting(table_env, 10).link(op)
    assert op.getColTypes()[1].startswith("TIMESTAMP(3)") and "ROWTIME" in op.getColTypes()[1]
    table_env.create_temporary_view("timed", op.getOutputTable())
    windows = table_env.sql_query(
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with windows.execute().collect() as rows:
        # the late one counts where watermarks lag behind rows
        assert sorted(row[0] for row in rows) in ([1, 2, 2], [1, 2, 3])
