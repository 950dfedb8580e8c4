"""Threads of a program and of its JVM."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bridge.host.program_folder import sweep
from bridge.workarounds.pyflink_defects import (
    _jvm_argument,
    column_names,
    columns_of,
    forget_ended_clusters,
)
from operators import resetEnv, useLocalEnv
from operators.flink.java import start_java
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

pytestmark = pytest.mark.flink


def test_a_thread_stays_in_its_thread_of_the_jvm() -> None:
    start_java()
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm

    def own_thread() -> Any:
        return jvm.java.lang.Thread.currentThread().getId()

    def meanwhile(_: Any) -> Any:
        jvm.java.lang.Thread.sleep(20)  # both lines are in use, and the other is given back last
        return own_thread()

    before = own_thread()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(meanwhile, range(40)):
            assert found != before
            assert own_thread() == before


KILLED = """
import os, signal
from operators.flink.java import start_java
start_java()
from pyflink.java_gateway import get_gateway
jvm = get_gateway().jvm
print(jvm.java.lang.ProcessHandle.current().pid(), jvm.java.io.File.createTempFile("flink-rpc", ".jar"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.fault(
    "hosts", "Flink's temporary files of a killed program are removed at the next start"
)
def test_temporary_files_of_a_killed_programs_jvm_go_at_the_next_start(
    tmp_path: pathlib.Path,
) -> None:
    variables = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, env=variables
    )
    pid, path = done.stdout.split()
    wait_until(lambda: not is_running(int(pid)), "the JVM has ended")
    assert path.startswith(f"{tmp_path}/akdl_packed_") and os.path.exists(path), done.stderr
    sweep(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_jvm_whose_folder_has_a_space_in_its_path_keeps_javas_place(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JVM_ARGS", "-Xmx1g")
    for place, has_place in ((tmp_path / "plain", True), (tmp_path / "a b", False)):
        place.mkdir()
        monkeypatch.setattr(
            "bridge.workarounds.pyflink_defects.program_folder", lambda place=place: str(place)
        )
        with _jvm_argument():
            assert (f"-Djava.io.tmpdir={place}/java-" in os.environ["JVM_ARGS"]) == has_place
            assert os.environ["JVM_ARGS"].endswith(" -Xmx1g")
        assert os.environ["JVM_ARGS"] == "-Xmx1g"


def test_java_objects_are_freed_in_another_thread() -> None:
    start_java()
    from py4j.java_gateway import ThreadSafeFinalizer
    from pyflink.java_gateway import get_gateway

    target = get_gateway().jvm.java.lang.Object()
    number = target._target_id
    assert any(key.endswith(number) for key in list(ThreadSafeFinalizer.finalizers))
    del target
    wait_until(
        lambda: not any(key.endswith(number) for key in list(ThreadSafeFinalizer.finalizers)),
        "it is freed",
    )


def test_every_thread_can_plan_and_run() -> None:
    table_env = useLocalEnv(1).stenv
    plus_one = table_env.sql_query(
        f"SELECT id + 1 AS b FROM {table_env.from_elements([(1,)], ['id'])}"
    )

    def run() -> list[Any]:
        with plus_one.execute().collect() as rows:
            return [row[0] for row in rows]

    with ThreadPoolExecutor(1) as other:
        assert other.submit(run).result() == [2] == run()
    resetEnv()


def test_the_schema_of_a_wide_table_costs_no_calls_for_each_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A predictor over 2,500 columns took minutes, nearly all of them for PyFlink's own look at
    types.
    """
    from pyflink.table import types

    table_env = useLocalEnv(1).btenv
    numbers = ", ".join(f"CAST({n} AS DOUBLE) AS c{n}" for n in range(30))
    table = table_env.sql_query(
        f"SELECT {numbers}, 'x' AS s, TIMESTAMP '2020-01-01 00:00:00.001' AS t, ARRAY[1, 2] AS a"
    )
    if not hasattr(type(table), "get_resolved_schema"):
        pytest.skip("this PyFlink has no other way to the schema to compare with")
    resolved = table.get_resolved_schema()
    asked = []
    convert = types._from_java_data_type
    monkeypatch.setattr(
        types, "_from_java_data_type", lambda j_type: asked.append(j_type) or convert(j_type)
    )
    names, found = columns_of(table)
    assert len(asked) < 10
    assert names == column_names(table) == list(resolved.get_column_names())
    assert found == list(resolved.get_column_data_types())


def test_times_keep_their_digits() -> None:
    instant = "TO_TIMESTAMP_LTZ(0, 3)"
    table = useLocalEnv(1).btenv.sql_query(
        f"SELECT TIMESTAMP '2020-01-01 00:00:00.000001' AS t, {instant} AS z, ARRAY[{instant}] AS a"
    )
    t, z, a = columns_of(table)[1]
    assert (t.precision, z.precision, a.element_type.precision) == (6, 3, 3)
    resetEnv()


@pytest.mark.fault(
    "jobs", "Many local jobs in one program, failed ones included, leave no threads in the JVM"
)
def test_ended_clusters_leave_no_hooks() -> None:
    start_java()
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    hooks = [
        jvm.java.lang.Thread(name)
        for name in ("TaskExecutorFileMergingManager shutdown hook", "another")
    ]
    for hook in hooks:
        jvm.java.lang.Runtime.getRuntime().addShutdownHook(hook)
    forget_ended_clusters()
    assert [jvm.java.lang.Runtime.getRuntime().removeShutdownHook(hook) for hook in hooks] == [
        False,
        True,
    ]


def test_a_client_of_a_job_makes_savepoints(tmp_path: pathlib.Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    entries = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": checkpoints.as_uri(),
    }
    tables = useLocalEnv(1, config=entries).stenv
    tables.execute_sql(
        "CREATE TEMPORARY TABLE numbers (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')"
    )
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE written (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"
    )
    job = tables.execute_sql("INSERT INTO written SELECT * FROM numbers").get_job_client()
    # The JobManager learns later than its tasks begin that all of them run, and refuses until then.
    wait_until(
        lambda: any(checkpoints.glob("*/chk-*/_metadata")),
        "a checkpoint has all tasks",
        4 * DEADLINE_S,
    )
    paths = [
        job.trigger_savepoint(tmp_path.as_uri()).result(),
        job.stop_with_savepoint(False, tmp_path.as_uri()).result(),
    ]
    assert all((pathlib.Path(path.removeprefix("file:")) / "_metadata").exists() for path in paths)
    resetEnv()
