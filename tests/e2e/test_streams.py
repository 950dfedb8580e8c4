"""Rows that flow through a script without end: none is lost, none is repeated, none waits for the
next.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError
from operators import (
    MLEnv,
    RandomTableSourceStreamOp,
    StreamOperator,
    TensorFlow2StreamOp,
    resetEnv,
    useLocalEnv,
)
from operators.errors.flink_errors import readable
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


MILLION, SOME = 1_000_000, 30_000


@pytest.mark.long
@pytest.mark.tf
def test_million_rows_pass_through_three_workers_exactly_once(
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


# What the kinds of TensorFlow read and write is tested without Flink too.
@pytest.mark.tf
@pytest.mark.parametrize(
    "kinds",
    [
        ("early", "again", "twice"),
        pytest.param(("even", "three", "estimator"), marks=pytest.mark.long),
    ],
    ids="-".join,
)
@pytest.mark.fault("jobs", "A script that returns early drains the rest, or is started again")
def test_bounded_streams_pass_through_scripts_of_all_kinds(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path, kinds: tuple[str, ...]
) -> None:
    """In one job: two return before their input ends, and one has two event times, of which Flink
    takes one for a stream. In another: one filters in graph mode, one writes three rows for each,
    and an Estimator takes the stream as its input.
    """
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE IF NOT EXISTS timed_twice (id BIGINT, at_time AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR at_time AS at_time) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        "'fields.id.end' = '9')"
    )
    twice = table_env.sql_query("SELECT id, at_time, at_time AS again FROM timed_twice")
    some, thousand = counting(table_env, SOME), counting(table_env, 1000)
    again = {"userParams": {"returns_after": 300, "commits": True}, "onReturn": "restart"}
    sources = {
        "early": (some, stream_op("without_tensorflow.py", userParams={"returns_after": 3})),
        "again": (thousand, stream_op("without_tensorflow.py", replay="uncommitted", **again)),
        "twice": (StreamOperator.fromTable(twice), stream_op("identity.py")),
        "even": (some, stream_op("even_in_graph_mode.py")),
        "three": (some, stream_op("three_each.py")),
        "estimator": (thousand, stream_op("estimator.py")),
    }
    sinks = {name: Sink(table_env, tmp_path) for name in kinds}
    job = table_env.create_statement_set()
    for name in kinds:
        source, op = sources[name]
        job.add_insert(sinks[name].name, source.link(op).getOutputTable())
    job.execute().wait()
    rows = {name: sorted(sinks[name].rows()) for name in kinds}
    if "early" in kinds:
        assert len(rows.pop("early")) == 3
        assert sorted(number for _, number in rows.pop("again")) == list(range(1000))
    expected = {
        "twice": [(0, number) for number in range(10)],
        "even": [(0, number) for number in range(0, SOME, 2)],
        "three": [(copy, number) for copy in range(3) for number in range(SOME)],
        "estimator": [(0, 10)],
    }
    assert rows == {name: expected[name] for name in rows}


@pytest.mark.tf
@pytest.mark.slow
def test_workers_share_a_parameter_server(environments: MLEnv, tmp_path: pathlib.Path) -> None:
    table_env = useLocalEnv(3).stenv
    sink = Sink(table_env, tmp_path)
    op = stream_op("sum_on_ps.py", 2).setNumPSs(1)
    run(counting(table_env, 1000, 500).link(op), sink)
    rows = sink.rows()
    assert sorted(worker for worker, _ in rows) == [0, 1]
    assert {total for _, total in rows} == {sum(range(1000))}


def test_rows_are_shown_without_further_input_and_cancel_ends_the_job(
    environments: MLEnv, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a socket, and from a folder that grows."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    environments.stenv.execute_sql(
        f"CREATE TEMPORARY TABLE growing (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{incoming}', "
        "'format' = 'csv', 'source.monitor-interval' = '200 ms')"
    )
    growing = StreamOperator.fromTable(environments.stenv.from_path("growing"))
    growing.link(stream_op("without_tensorflow.py")).print(title="grown")

    def arrive(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        (tmp_path / name).rename(incoming / name)  # at once, as a file source wants it

    with socket_stream(environments) as (stream, send):
        # Two of three workers wait without a row at first; the script starts all the same.
        stream.link(stream_op("without_tensorflow.py", 3)).print(title="out")
        job = StreamOperator.executeAsync()
        shown = Shown(capsys)

        def wait_for(*rows: str, deadline_s: float = DEADLINE_S) -> None:
            wait_until(
                lambda: all(any(line.endswith(row) for line in shown.lines()) for row in rows),
                f"rows are shown that end in {rows}",
                deadline_s,
            )

        try:
            send([70])
            arrive("0.csv", "0\n1\n2\n")
            wait_for(", 70", ", 0", ", 1", ", 2", deadline_s=2 * DEADLINE_S)
            wait_until(
                lambda: len(task_processes()) == 4,
                "the workers without a row have started too",
                4 * DEADLINE_S,
            )
            assert not job.wait(0)
            send([80])
            arrive("1.csv", "3\n4\n")
            wait_for(", 80", ", 3", ", 4")
            assert sum(re.search(r"\d, \d+$", line) is not None for line in shown.all) == 7
        finally:
            job.cancel()
        assert job.wait(0)
        wait_until(lambda: not task_processes(), "no process is left")


@pytest.mark.fault("jobs", "A script that returns without taking rows is not restarted endlessly")
def test_a_script_that_returns_without_taking_rows_is_not_started_for_ever(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path
) -> None:
    """What else fails a job is in tests/bridge/flink/test_stream_exchange.py; the errors of scripts
    in jobs are in test_error_lines.py.
    """
    script = tmp_path / "returns.py"
    script.write_text("def main(config):\n    pass\n")
    op = (
        stream_op("identity.py", onReturn="restart")
        .setUserFiles([str(script)])
        .setMainScriptFile(str(script))
    )
    with pytest.raises(BridgeError, match="restarts would be endless"):
        run(counting(table_env, 1000).link(op), Sink(table_env, tmp_path))


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
    rows = 40_000
    counting(table_env, rows).select("id, REPEAT('x', 1000) AS text").link(op)
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


def test_random_rows_are_numbered_from_one_and_paced(capsys: pytest.CaptureFixture[str]) -> None:
    source = RandomTableSourceStreamOp().setMaxRows(4).setNumCols(2).setTimePerSample(0.4)
    assert source.getColNames() == ["num", "col0", "col1"]
    source.select("num").print()
    started = time.monotonic()
    StreamOperator.execute()
    head, *numbers = capsys.readouterr().out.splitlines()
    assert head == "num" and sorted(numbers) == ["1", "2", "3", "4"]
    assert time.monotonic() - started >= 0.4 * 2  # whatever Flink's seconds begin with


# The program's end.


@pytest.mark.slow
@pytest.mark.fault("jobs")
def test_a_program_that_ends_stops_its_running_stream(tmp_path: pathlib.Path) -> None:
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
    (told,) = done.stderr.splitlines()
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


def test_output_carries_a_time_attribute_of_its_own(table_env: StreamTableEnvironment) -> None:
    """Windows over it are in test_event_time.py."""
    op = stream_op("identity.py").setOutputSchemaStr(
        "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    )
    counting(table_env, 10).link(op)
    assert op.getColTypes()[1].startswith("TIMESTAMP(3)") and "ROWTIME" in op.getColTypes()[1]
