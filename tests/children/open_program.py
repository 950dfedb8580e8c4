"""A program with a local job of a Python function that waits; prints the address of its workers,
and "done" when it may end.

Arguments: whose environment it is (made by "akdl", by a "user" who names it, or by the one of a
    "table"), a file that it makes when the function runs, and one for whose end it waits.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from operators import MemSourceStreamOp, StreamOperator, useCustomEnv, useLocalEnv

owner, running, waits = sys.argv[1:]


def wait(value: int) -> int:
    """Return the value later."""
    open(running, "w").close()
    while os.path.exists(waits):
        time.sleep(0.02)
    return value


def environment() -> Any:
    """Make an environment with akdl, or as PyFlink's users do, before akdl knows of it."""
    if owner == "akdl":
        useLocalEnv(1)
        return useLocalEnv(1).stenv  # twice, as a notebook does
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    made = StreamTableEnvironment.create(env)
    if owner == "user":
        useCustomEnv(env, made)
    return made


if __name__ == "__main__":
    table_env = environment()
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    table_env.create_temporary_function("wait_for", udf(wait, result_type=DataTypes.BIGINT()))
    if owner == "user":
        source: StreamOperator = MemSourceStreamOp([(1,), (2,)], "x BIGINT")
    else:
        source = StreamOperator.fromTable(
            table_env.sql_query("SELECT x FROM (VALUES (1), (2)) AS t(x)")
        )
    print(table_env.get_config().get("python.loopback-server.address", ""), flush=True)
    table = source.select("wait_for(x) AS y").getOutputTable()
    assert len(list(table.execute().collect())) == 2
    print("done", flush=True)
