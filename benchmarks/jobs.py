"""What the jobs of several benchmarks have in common: a table of random rows, a script with one worker, kinds of processes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def random_table(
    table_env: Any, name: str, columns: Mapping[str, str], rows: int, options: Mapping[str, str] | None = None
) -> Any:
    """Create a table of random rows, as fast as they can be made, and return it."""
    given = {"connector": "datagen", "rows-per-second": "1000000000", "number-of-rows": str(rows), **(options or {})}
    with_ = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} ({declared(columns)}) WITH ({with_})")
    return table_env.from_path(name)


def declared(columns: Mapping[str, str]) -> str:
    """Return the columns as SQL declares them."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def script_job(table: Any, script: pathlib.Path, output: str, workers: int = 1, **params: Any) -> Any:
    """Return the operator that runs a script on a table."""
    from operators import BatchOperator, TensorFlow2BatchOp

    op: Any = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr=output, numWorkers=workers, numPSs=0, **params
    )
    return op.linkFrom(BatchOperator.fromTable(table))


def start_up_s(run: Callable[[], float]) -> float:
    """Return the seconds of a small job, to be taken from those of large ones: of two, as the first of a kind takes longer."""
    return min(run(), run())


def kind_of(process: Any) -> str:
    """Return which of this program's processes one is: "driver", "jvm" or "tensorflow"; psutil.Error when it has ended."""
    command = process.cmdline()
    if "akdl.entry" in command:
        return "tensorflow"
    return "jvm" if command and "java" in command[0] else "driver"
