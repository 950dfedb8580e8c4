"""Threads of a program and of its JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from operators import resetEnv, useLocalEnv
from operators.flink.java import start_java

pytestmark = pytest.mark.flink


def test_a_thread_stays_in_its_thread_of_the_jvm():
    start_java()
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm

    def own_thread():
        return jvm.java.lang.Thread.currentThread().getId()

    def meanwhile(_):
        jvm.java.lang.Thread.sleep(20)  # both lines are in use, and the other is given back last
        return own_thread()

    before = own_thread()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(meanwhile, range(40)):
            assert found != before
            assert own_thread() == before


def test_every_thread_can_plan_and_run():
    table_env = useLocalEnv(1).stenv
    plus_one = table_env.sql_query(f"SELECT id + 1 AS b FROM {table_env.from_elements([(1,)], ['id'])}")

    def run():
        with plus_one.execute().collect() as rows:
            return [row[0] for row in rows]

    with ThreadPoolExecutor(1) as other:
        assert other.submit(run).result() == [2] == run()
    resetEnv()
