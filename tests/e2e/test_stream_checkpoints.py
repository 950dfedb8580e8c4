"""What becomes of rows of a stream when a process, a TaskManager or a job ends in the middle: ids
are counted at both ends.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from operators import TensorFlow2StreamOp, resetEnv, useLocalEnv, useRemoteEnv
from tests.e2e.streams import SCHEMA, Sink, counting, stop_with_savepoint, stream_op
from tests.e2e.test_training_cluster import has_task_process
from tests.support.environment import ENVIRONMENT
from tests.support.flink_cluster import flink_cluster
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

pytestmark = pytest.mark.flink

PER_SECOND = 250
# Rows of a stream that is cancelled: a short one may be over before what is to happen in it, as a
# start may take any time. Flink keeps what is to come in its checkpoints.
ENDLESS = 200_000


def checkpoints(folder: pathlib.Path) -> dict[Any, Any]:
    """Return the configuration of jobs that have checkpoints and restart."""
    return {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "restart-strategy.type": "fixed-delay",
        # one a second until two heartbeats, 10 s apart, have not reached a TaskManager
        "restart-strategy.fixed-delay.attempts": "60",
        "restart-strategy.fixed-delay.delay": "1 s",
    }


@pytest.fixture
def stream_env(tmp_path: pathlib.Path) -> Iterator[Callable[..., Any]]:
    """Return environments whose jobs have checkpoints and restart."""

    def make(**config: Any) -> Any:
        return useLocalEnv(1, {**checkpoints(tmp_path), **config}).stenv

    yield make
    resetEnv()


def committing_op(
    tmp_path: pathlib.Path, workers: int = 1, **params: Any
) -> tuple[TensorFlow2StreamOp, pathlib.Path]:
    """Return an operator with a script that commits each row, and the file with the id of its
    process.
    """
    params = {"commits": True, "pid_file": str(tmp_path / "pid"), **params}
    return stream_op(
        "without_tensorflow.py", workers, userParams=params, replay="uncommitted"
    ), tmp_path / "pid.0"


def started_and_final(sink: Sink, pid_file: pathlib.Path) -> Any:
    """Whether the script runs and a checkpoint has made rows final."""
    return pid_file.exists() and sink.final_rows()


@pytest.mark.long
@pytest.mark.fault("jobs")
def test_rows_arrive_at_least_once_when_the_process_is_killed(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = stream_env()
    sink, (op, pid_file) = Sink(table_env, tmp_path), committing_op(tmp_path)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(lambda: started_and_final(sink, pid_file), "rows are final", 2 * DEADLINE_S)
    first = int(pid_file.read_text())
    os.kill(first, signal.SIGKILL)
    wait_until(
        lambda: int(pid_file.read_text() or first) != first,
        "there is another process",
        4 * DEADLINE_S,
    )
    last = len(sink.counts())
    wait_until(
        lambda: len(sink.counts()) > last + PER_SECOND,
        "rows of the other process are final",
        4 * DEADLINE_S,
    )
    client.cancel().result()
    counts = sink.counts()
    assert set(counts) == set(range(len(counts)))
    # The sink takes back what came after the last checkpoint; a row may have come before it, and
    # its commit after it.
    assert sum(counts.values()) - len(counts) <= 1


@pytest.mark.long
@pytest.mark.fault("jobs")
def test_unread_rows_arrive_after_a_failure_of_the_script(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = stream_env()
    sink = Sink(table_env, tmp_path)
    taken = tmp_path / "taken"
    script = tmp_path / "fails_once.py"
    script.write_text(
        "import glob, os\n"
        "from tfrecords import examples\n"
        "def main(config):\n"
        f"    first = not os.path.exists({str(taken)!r})\n"
        "    seen = []\n"
        "    for path in config.tf_context.rows.segments():\n"
        "        ids = [e['id'].int64_list.value[0] for e in examples(path)]\n"
        "        seen += ids\n"
        "        config.output_writer.write_batch({'worker': [0] * len(ids), 'id': ids})\n"
        # a checkpoint has made some final
        f"        if first and glob.glob('{sink.folder}/**/part-*', recursive=True):\n"
        f"            with open({str(taken)!r}, 'w') as file:\n"
        "                file.write(str(len(seen)))\n"
        "            raise ValueError('once')\n"
    )
    op = stream_op("identity.py")
    op.setUserFiles([str(script), op.getUserFiles()[1]]).setMainScriptFile(str(script))
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(taken.exists, "the script has failed", 4 * DEADLINE_S)
    wait_until(
        lambda: taken.read_text() and max(sink.counts()) > int(taken.read_text()),
        "others are final",
        4 * DEADLINE_S,
    )
    client.cancel().result()
    counts = sink.counts()
    # Only rows that the failed script had taken, and whose output came after the checkpoint, may be
    # missing.
    missing = set(range(max(counts))) - set(counts)
    assert max(counts.values()) == 1 and missing <= set(range(int(taken.read_text())))
    assert len(missing) < int(taken.read_text())  # what came out before the checkpoint is not


@pytest.mark.long
@pytest.mark.fault(
    "jobs", "Checkpoints complete with a script that writes a hundred times what it reads"
)
def test_checkpoints_complete_with_a_script_that_multiplies_rows(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """Both queues are full, the script behind it is slow, and barriers wait."""

    def hundredfold(task_config: Any) -> None:
        from akdl.wire.cells import read_cells

        for columns in task_config.tf_context.rows.columns():
            ids = read_cells(columns.columns[0], columns.rows).values
            for _ in range(100):
                task_config.output_writer.write_batch({"id": ids, "text": ["x" * 300] * len(ids)})

    def counts_slowly(task_config: Any) -> None:
        import time

        from akdl.wire.cells import read_cells

        for columns in task_config.tf_context.rows.columns():
            time.sleep(0.02)  # the rows come faster
            ids = read_cells(columns.columns[0], columns.rows).values
            task_config.output_writer.write_batch({"worker": [len(ids)], "id": [int(ids.sum())]})

    table_env = stream_env(**{"restart-strategy.type": "none"})
    sink, rows = Sink(table_env, tmp_path), 1500
    many = counting(table_env, rows).link(
        TensorFlow2StreamOp(
            mainScriptFile=hundredfold,
            outputSchemaStr="id BIGINT, text STRING",
            numWorkers=1,
            numPSs=0,
            chunkRows=50,
        )
    )
    counts = TensorFlow2StreamOp(
        mainScriptFile=counts_slowly, outputSchemaStr=SCHEMA, numWorkers=1, numPSs=0
    )
    many.link(counts).insertInto(sink.name)
    found = sink.final_rows()
    assert sum(count for count, _ in found) == 100 * rows
    assert sum(total for _, total in found) == 100 * sum(range(rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "workers"), [pytest.param(1, 1, marks=pytest.mark.long), (2, 3)]
)
@pytest.mark.fault("jobs", "A savepoint of another numWorkers loses and doubles no row in flight")
def test_job_continues_from_a_savepoint(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path, before: int, workers: int
) -> None:
    """With two workers the operator has more subtasks than its source, which has one. The stream is
    cancelled in the end.
    """
    table_env = stream_env()
    sink, (op, pid_file) = Sink(table_env, tmp_path), committing_op(tmp_path, before)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(lambda: started_and_final(sink, pid_file), "rows are final", 2 * DEADLINE_S)
    savepoint = stop_with_savepoint(client, tmp_path / "savepoints")
    assert 0 < len(sink.counts()) < ENDLESS
    resetEnv()
    table_env = stream_env(**{"execution.state-recovery.path": savepoint})
    rest, (op, _) = Sink(table_env, tmp_path), committing_op(tmp_path, workers)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(rest.name).get_job_client()
    wait_until(
        lambda: {worker for worker, _ in rest.final_rows()} == set(range(workers)),
        "more rows are final",
        4 * DEADLINE_S,
    )
    last = max(number for _, number in rest.final_rows())
    wait_until(
        lambda: set(sink.counts()) | set(rest.counts()) >= set(range(last)),
        "no row is missing",
        4 * DEADLINE_S,
    )
    assert max(rest.counts().values()) == 1
    client.cancel().result()


KILLED = """
import pathlib, sys
from operators import useLocalEnv
from tests.e2e.streams import Sink, counting
from tests.e2e.test_stream_checkpoints import ENDLESS, PER_SECOND, checkpoints, committing_op
folder = pathlib.Path(sys.argv[1])
table_env = useLocalEnv(1, checkpoints(folder)).stenv
sink, (op, _) = Sink(table_env, folder), committing_op(folder)
counting(table_env, ENDLESS, PER_SECOND).link(op)
op.getOutputTable().execute_insert(sink.name).wait()
"""


@pytest.mark.slow
@pytest.mark.fault(
    "jobs", "A program that is killed continues from the last checkpoint when it starts again"
)
def test_killed_program_continues_from_its_last_checkpoint(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    def complete() -> list[pathlib.Path]:
        return sorted(
            (tmp_path / "checkpoints").glob("*/chk-*/_metadata"),
            key=lambda path: path.stat().st_mtime,
        )

    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=ENVIRONMENT, start_new_session=True
    ) as program:
        try:
            wait_until(
                lambda: complete() and (tmp_path / "pid.0").exists(),
                "a checkpoint is complete",
                4 * DEADLINE_S,
            )
            wait_until(lambda: list(tmp_path.rglob("part-*")), "rows are final", 4 * DEADLINE_S)
        finally:
            program.kill()
    wait_until(
        lambda: not is_running(int((tmp_path / "pid.0").read_text())), "the script has ended too"
    )
    table_env = stream_env(**{"execution.state-recovery.path": complete()[-1].parent.as_uri()})
    sink, (op, _) = Sink(table_env, tmp_path), committing_op(tmp_path)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(lambda: len(sink.counts()) > PER_SECOND, "more rows are final", 4 * DEADLINE_S)
    client.cancel().result()
    ids = {
        int(line.split(",")[1])
        for path in tmp_path.rglob("part-*")
        for line in path.read_text().splitlines()
    }
    assert ids == set(range(len(ids))), "no row is missing"
    assert min(sink.counts()) > 0, "it did not start again from the first row"


@pytest.mark.slow
@pytest.mark.fault("jobs")
def test_a_changed_program_continues_from_a_savepoint(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = stream_env()
    sink, (op, pid_file) = Sink(table_env, tmp_path), committing_op(tmp_path, commits=False)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(lambda: started_and_final(sink, pid_file), "rows are final", 2 * DEADLINE_S)
    savepoint = stop_with_savepoint(client, tmp_path / "savepoints")
    before = len(sink.counts())
    assert 0 < before < ENDLESS
    resetEnv()
    # More operators on both sides: Flink's own names count all operators, and so the state of the
    # former sink is not found.
    ignoring = {
        "execution.state-recovery.path": savepoint,
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    table_env = stream_env(**ignoring)
    rest, (op, _) = Sink(table_env, tmp_path), committing_op(tmp_path, commits=False)
    counting(table_env, ENDLESS, PER_SECOND).filter("id >= 0").link(op)
    client = op.filter("worker < 9").getOutputTable().execute_insert(rest.name).get_job_client()
    wait_until(
        lambda: len(rest.counts()) > before + PER_SECOND,
        "rows from before the savepoint and others are final",
        4 * DEADLINE_S,
    )
    client.cancel().result()
    counts = rest.counts()
    assert set(counts) == set(range(len(counts))), (
        "rows before the savepoint come again, as none was committed"
    )


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.own_processes
@pytest.mark.fault("jobs", "All rows come at least once when a TaskManager is killed")
def test_rows_arrive_at_least_once_when_a_task_manager_is_killed(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: pathlib.Path
) -> None:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=3, slots=1) as cluster:
        config = checkpoints(tmp_path)
        table_env = useRemoteEnv(cluster.host, cluster.rest_port, 2, config).stenv
        params = {"commits": True, "pid_file": str(tmp_path / "pid")}
        op = stream_op("without_tensorflow.py", 2, userParams=params, replay="uncommitted")
        sink = Sink(table_env, tmp_path)
        counting(table_env, ENDLESS, PER_SECOND).link(op)
        client = op.getOutputTable().execute_insert(sink.name).get_job_client()

        def pids() -> list[Any]:
            return [int((tmp_path / f"pid.{worker}").read_text() or 0) for worker in (0, 1)]

        wait_until(
            lambda: {worker for worker, _ in sink.final_rows()} == {0, 1},
            "rows of both workers are final",
            4 * DEADLINE_S,
        )
        first = pids()
        victim = next(pid for pid in cluster.task_manager_pids if has_task_process(pid))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not {0, *first} & set(pids()), "both workers are new", 10 * DEADLINE_S)
        last = max(number for _, number in sink.final_rows())
        wait_until(
            lambda: set(sink.counts()) >= set(range(last + PER_SECOND)),
            "all rows until after the kill are final",
            4 * DEADLINE_S,
        )
        client.cancel().result()
    resetEnv()
