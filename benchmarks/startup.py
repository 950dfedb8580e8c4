"""Time from `execute` to the first line of `main`: `python benchmarks/startup.py [--rounds N]
[--folder FOLDER]`.

The limit is the unavoidable part: `import tensorflow` in a process of its own, and a PyFlink job of
one row and one Python function. The JVM runs already for both.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from jobs import SCRIPTS, script_job
from report import Figure, arguments, report

TARGET = 0.9  # most imports and starts overlap


def know_function(table_env: Any) -> None:
    """Register the function of `hello_world` in an environment."""
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    table_env.create_temporary_function(
        "akdl_bench_same", udf(lambda x: x, result_type=DataTypes.INT())
    )


def hello_world(table_env: Any) -> float:
    """Return the seconds of the smallest PyFlink job."""
    begun = time.monotonic()
    assert list(
        table_env.sql_query("SELECT akdl_bench_same(x) FROM (VALUES (1), (2)) AS t(x)")
        .execute()
        .collect()
    )
    return time.monotonic() - begun


def import_tensorflow() -> float:
    """Return the seconds of a Python process that imports TensorFlow."""
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", "import tensorflow"], check=True, stderr=subprocess.DEVNULL
    )
    return time.monotonic() - begun


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = arguments()
    environments = useLocalEnv(1)

    def to_first_line(table_env: Any) -> float:
        one_row = table_env.sql_query("SELECT 1 AS x")
        op = script_job(one_row, SCRIPTS / "first_line_tensorflow.py", "at DOUBLE")
        begun = time.time()
        ((at,),) = op.getOutputTable().execute().collect()
        return float(at) - begun

    modes = {"STREAMING": environments.stenv, "BATCH": environments.btenv}
    values: dict[str, list[float]] = {mode: [] for mode in modes}
    limits: dict[str, list[float]] = {mode: [] for mode in modes}
    for table_env in modes.values():
        know_function(table_env)
        hello_world(table_env)  # the first jobs take longer
        to_first_line(table_env)
    import_tensorflow()  # read from the disk the first time
    for _ in range(given.rounds):
        importing = import_tensorflow()
        for mode, table_env in modes.items():
            limits[mode].append(hello_world(table_env) + importing)
            values[mode].append(to_first_line(table_env))
    figures = [
        Figure(mode, "s", values[mode], limits[mode], "hello-world job and import", TARGET)
        for mode in modes
    ]
    report("startup", "From execute to the first line of main", figures, given.folder)


if __name__ == "__main__":
    main()
