"""Threads of a program and of its JVM."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from bridge.workarounds import (
    close_what_workers_leave,
    column_names,
    columns_of,
    forget_ended_clusters,
    is_worker_process,
)
from operators import resetEnv, useLocalEnv
from operators.flink.java import start_java
from tests.support.leftovers import wait_until

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


def test_java_objects_are_freed_in_another_thread() -> None:
    start_java()
    from py4j.java_gateway import ThreadSafeFinalizer
    from pyflink.java_gateway import get_gateway

    target = get_gateway().jvm.java.lang.Object()
    number = target._target_id
    assert any(key.endswith(number) for key in list(ThreadSafeFinalizer.finalizers))
    del target
    wait_until(lambda: not any(key.endswith(number) for key in list(ThreadSafeFinalizer.finalizers)), "it is freed")


def test_every_thread_can_plan_and_run() -> None:
    table_env = useLocalEnv(1).stenv
    plus_one = table_env.sql_query(f"SELECT id + 1 AS b FROM {table_env.from_elements([(1,)], ['id'])}")

    def run() -> list[Any]:
        with plus_one.execute().collect() as rows:
            return [row[0] for row in rows]

    with ThreadPoolExecutor(1) as other:
        assert other.submit(run).result() == [2] == run()
    resetEnv()


def test_the_schema_of_a_wide_table_costs_no_calls_for_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A predictor over 2,500 columns took minutes, nearly all of them for PyFlink's own look at types."""
    from pyflink.table import types

    table_env = useLocalEnv(1).btenv
    numbers = ", ".join(f"CAST({n} AS DOUBLE) AS c{n}" for n in range(30))
    table = table_env.sql_query(f"SELECT {numbers}, 'x' AS s, TIMESTAMP '2020-01-01 00:00:00' AS t, ARRAY[1, 2] AS a")
    resolved = table.get_resolved_schema()
    asked = []
    convert = types._from_java_data_type
    monkeypatch.setattr(types, "_from_java_data_type", lambda j_type: asked.append(j_type) or convert(j_type))
    names, found = columns_of(table)
    assert len(asked) < 10
    assert names == column_names(table) == list(resolved.get_column_names())
    assert found == list(resolved.get_column_data_types())
    resetEnv()


def test_this_program_is_no_worker_process() -> None:
    assert not is_worker_process()


@pytest.mark.process
def test_what_a_worker_logs_after_the_end_of_its_job_is_not_on_the_console() -> None:
    program = (
        "import logging\n"
        "from bridge.workarounds import keep_copies_of_errors_off_the_console as keep\n"
        "keep(); keep()\n"
        "logger = logging.getLogger('apache_beam.runners.worker.sdk_worker')\n"
        "logger.error('Error processing instruction')\n"
        "print(len(logger.handlers))\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("1\n", "")


def test_ended_clusters_leave_neither_hooks_nor_threads_of_loggers() -> None:
    start_java()
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    assert jvm.java.lang.System.getProperty("log4j2.contextSelector").endswith("BasicContextSelector")
    hooks = [jvm.java.lang.Thread(name) for name in ("TaskExecutorFileMergingManager shutdown hook", "another")]
    for hook in hooks:
        jvm.java.lang.Runtime.getRuntime().addShutdownHook(hook)
    forget_ended_clusters()
    assert [jvm.java.lang.Runtime.getRuntime().removeShutdownHook(hook) for hook in hooks] == [False, True]


def test_a_worker_whose_line_breaks_closes_what_it_has() -> None:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    close_what_workers_leave()
    worker = Mock(_akdl_run=Mock(side_effect=ConnectionError("broken")))
    with pytest.raises(ConnectionError):
        SdkHarness.run(worker)
    worker._data_channel_factory.close.assert_called_once()
    worker._state_handler_factory.close.assert_called_once()
    worker._bundle_processor_cache.periodic_shutdown.cancel.assert_called_once()
