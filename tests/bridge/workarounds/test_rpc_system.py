"""Mini clusters of local jobs borrow one RPC system."""

from __future__ import annotations

import glob
import os
import pathlib
from typing import Any

import pytest
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

from bridge.workarounds.local_servers import share_rpc_system
from operators import getMLEnv, useLocalEnv
from tests.support.mini_clusters import share_mini_clusters

pytestmark = pytest.mark.flink


def loader_of(environment: Any) -> str:
    field = (
        get_gateway()
        .jvm.java.lang.Class.forName(
            "org.apache.flink.streaming.api.environment.StreamExecutionEnvironment"
        )
        .getDeclaredField("executorServiceLoader")
    )
    field.setAccessible(True)
    return str(field.get(environment).getClass().getSimpleName())


def test_jobs_in_a_row_load_the_rpc_system_once(tmp_path: pathlib.Path) -> None:
    share_mini_clusters()  # the JVM runs
    jvm = get_gateway().jvm
    temporary = jvm.java.lang.System.getProperty("java.io.tmpdir")

    def jars() -> list[str]:
        return glob.glob(os.path.join(temporary, "flink-rpc-*.jar"))

    before = len(jars())
    configuration = jvm.org.apache.flink.configuration.Configuration()
    # where each mini cluster would have a jar of its own
    configuration.setString("io.tmp.dirs", str(tmp_path))
    for _ in range(2):
        environment = jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.createLocalEnvironment(
            1, configuration
        )
        share_rpc_system(StreamExecutionEnvironment(environment))
        assert loader_of(environment) == "OneRpcSystem"
        environment.fromSequence(1, 10).sinkTo(
            jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        )
        result = environment.execute("numbers")
        assert result.getJobID() is not None
        # The ended cluster removes its folders meanwhile, which `Path.rglob` does not pardon.
        assert not glob.glob(f"{tmp_path}/**/*.jar", recursive=True)
    assert len(jars()) <= before + 1


def test_running_rpc_system_is_kept() -> None:
    useLocalEnv(1)
    assert loader_of(getMLEnv().senv._j_stream_execution_environment) == "Executors", (
        "the clusters that tests share"
    )
