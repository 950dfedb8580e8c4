"""Checkpoints and savepoints where they are hard to take: the script is slow and all queues are
full, or the disk is.
"""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.exceptions import JobError
from bridge.member import registry
from operators import StreamOperator, resetEnv, useLocalEnv
from tests.e2e.streams import Sink, counting, stop_with_savepoint, stream_op
from tests.e2e.test_stream_checkpoints import checkpoints
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.small_disks import small_disk

pytestmark = pytest.mark.flink

# 300 rows wait for the script. The others keep the queues full for over a minute, in which a busy
# machine has to complete a checkpoint.
ROWS, ROW_BYTES, PAUSE_S = 6400, 20_000, 0.012
SCRIPT = """
import os, pathlib, time
from akdl.wire.cells import read_cells

def main(config):
    pathlib.Path({pid!r}).write_text(str(os.getpid()))
    for columns in config.tf_context.rows.columns():
        for number in read_cells(columns.columns[0], columns.rows).values:
            time.sleep({pause_s})
            config.output_writer.write_batch({{"worker": [0], "id": [number]}})
            config.commit(1)
"""


@pytest.fixture
def stream_env(tmp_path: pathlib.Path) -> Iterator[Callable[..., Any]]:
    yield lambda **config: useLocalEnv(1, {**checkpoints(tmp_path), **config}).stenv
    resetEnv()


def slow_op(table_env: Any, tmp_path: pathlib.Path, pause_s: float) -> tuple[Any, pathlib.Path]:
    """Return an operator that gets large rows faster than its script takes them, and a file with
    the id of its process.
    """
    script, pid = tmp_path / "slow.py", tmp_path / "pid"
    script.write_text(SCRIPT.format(pid=str(pid), pause_s=pause_s))
    op = (
        stream_op("identity.py", replay="uncommitted")
        .setUserFiles([str(script)])
        .setMainScriptFile(str(script))
    )
    rows = counting(table_env, ROWS).getOutputTable()
    wide = table_env.sql_query(f"SELECT id, REPEAT('x', {ROW_BYTES}) AS text FROM {rows}")
    StreamOperator.fromTable(wide).link(op)
    return op, pid


def is_full() -> bool:
    """Whether rows wait for a script, and no more are taken."""
    return any(member._session.is_input_full for member in registry._snapshot())


@pytest.mark.slow
@pytest.mark.fault("jobs")
def test_under_back_pressure_checkpoints_complete_and_nothing_is_lost(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """The process is killed between two checkpoints, and then the job goes on from a savepoint; all
    while the queues are full.
    """
    table_env = stream_env()
    sink, (op, pid_file) = Sink(table_env, tmp_path), slow_op(table_env, tmp_path, PAUSE_S)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(is_full, "the queues are full", 4 * DEADLINE_S)
    before = len(sink.final_rows())
    wait_until(
        lambda: is_full() and len(sink.final_rows()) > before,
        "a checkpoint completes meanwhile",
        4 * DEADLINE_S,
    )
    first = int(pid_file.read_text())
    os.kill(first, signal.SIGKILL)
    wait_until(
        lambda: int(pid_file.read_text() or first) != first and is_full(),
        "they are full again",
        4 * DEADLINE_S,
    )
    savepoint = stop_with_savepoint(client, tmp_path / "savepoints")
    assert 0 < len(sink.counts()) < ROWS
    resetEnv()
    table_env = stream_env(**{"execution.state-recovery.path": savepoint})
    rest, (op, _) = Sink(table_env, tmp_path), slow_op(table_env, tmp_path, 0.0)
    op.getOutputTable().execute_insert(rest.name).wait()
    done = sink.counts() + rest.counts()
    assert set(done) == set(range(ROWS))
    # each time, one row may have come before the checkpoint, and its commit after it
    assert sum(done.values()) - ROWS <= 2


def run_until_a_checkpoint_fails(table_env: Any, op: Any) -> str:
    """Run a job and return its error."""
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE nothing (worker INT, id BIGINT) WITH ('connector' = 'blackhole')"
    )
    with pytest.raises(JobError) as caught:
        op.insertInto("nothing")
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.fault("jobs")
def test_a_script_that_takes_no_rows_lets_checkpoints_expire(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    table_env = stream_env(
        **{"execution.checkpointing.timeout": "1 s", "restart-strategy.type": "none"}
    )
    error = run_until_a_checkpoint_fails(table_env, slow_op(table_env, tmp_path, 600.0)[0])
    assert (
        "Checkpoint expired" in error
        and "is a script too slow for execution.checkpointing.timeout?" in error
    )


@pytest.mark.fault(
    "hosts", "A full disk for checkpoints is an error that names execution.checkpointing.dir"
)
def test_a_full_disk_of_checkpoints_is_an_error(
    stream_env: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    with small_disk(tmp_path / "full", "size=1m") as folder:
        table_env = stream_env(
            **{"execution.checkpointing.dir": folder.as_uri(), "restart-strategy.type": "none"}
        )
        error = run_until_a_checkpoint_fails(table_env, slow_op(table_env, tmp_path, 0.1)[0])
        assert (
            "checkpoint failed" in error
            and "Is the disk of execution.checkpointing.dir full" in error
        )
