"""The RPC system of local jobs, which Flink loads again for each of them.

Defect of Flink: each local job has a mini cluster of its own, and `MiniCluster` loads Pekko, the
library behind Flink's RPC, into a new class loader each time, which takes 0.4 s. Here the mini
clusters of a program borrow one system.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from bridge.workarounds.java_text import new_object

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyflink.datastream import StreamExecutionEnvironment


def share_rpc_system(env: StreamExecutionEnvironment) -> None:
    """Let the local jobs of an environment borrow the program's RPC system. Safe to call twice."""
    rpc_system().share(env._j_stream_execution_environment)


@functools.cache
def rpc_system() -> JavaObject:
    """Start to load it; a mini cluster that gets this object borrows it."""
    # Each loading also left a jar of 24 MB when the program was killed.
    system = new_object("OneRpcSystem")
    system.load()
    return system
