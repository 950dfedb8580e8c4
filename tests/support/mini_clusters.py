"""One mini cluster for the local jobs of a test process.

Flink starts one for each job. Jobs with settings of their own for the cluster, or with more slots,
still have one each, and so do programs that tests start.
"""

from __future__ import annotations

import functools
import pathlib
from typing import Any

from bridge.workarounds.local_servers import rpc_system
from operators.flink.java import start_java

_TEXT = pathlib.Path(__file__).with_name("SharedMiniClusters.java")


@functools.cache
def share_mini_clusters() -> Any:
    """Start Java, and let local environments made from now on share clusters; return the Java
    object that holds them.
    """
    start_java()
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    text = _TEXT.read_text(encoding="utf-8")
    shared = jvm.org.apache.flink.table.runtime.generated.CompileUtils.compile(
        loader, _TEXT.stem, text
    ).newInstance()
    shared.borrow(rpc_system())
    make = StreamExecutionEnvironment.get_execution_environment

    def get_execution_environment(*arguments: Any) -> Any:
        environment = make(*arguments)
        shared.share(environment._j_stream_execution_environment)
        return environment

    StreamExecutionEnvironment.get_execution_environment = staticmethod(get_execution_environment)
    return shared


def close_mini_clusters() -> None:
    """End them, if there are any: their folders would stay."""
    if share_mini_clusters.cache_info().currsize:
        share_mini_clusters().close()
