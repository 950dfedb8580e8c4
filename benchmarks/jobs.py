"""What the jobs of several benchmarks have in common: a table of random rows, a script with one worker, kinds of processes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Job:
    """A job to be timed.

    Args:
        run: Runs it with so many rows and returns the seconds.
        small: The size whose seconds count as start-up.
        sizes: Of each round, the largest last.
    """

    run: Callable[[int], float]
    small: int
    sizes: Sequence[int]

    def rates(self, net: Sequence[Sequence[float]]) -> list[float]:
        """Return the rows/s of the largest size in each round, from what `net_seconds` gives for this job."""
        return [(self.sizes[-1] - self.small) / seconds[-1] for seconds in net]


def net_seconds(jobs: Mapping[str, Job], rounds: int) -> dict[str, list[list[float]]]:
    """Run jobs in turn, and return for each job, round and size the seconds of the rows beyond the small size.

    The small size runs once, after the last round. The first jobs of a JVM take longer; taken from the seconds of later
    jobs, they would make those look too fast.
    """
    taken: dict[str, list[list[float]]] = {name: [] for name in jobs}
    for number in range(rounds):
        for name, job in jobs.items():
            taken[name].append([job.run(rows) for rows in job.sizes])
        print(f"round {number + 1} of {rounds} is done", flush=True)
    start_up = {name: job.run(job.small) for name, job in jobs.items()}
    return {name: [[seconds - start_up[name] for seconds in each] for each in taken[name]] for name in jobs}


def kind_of(process: Any) -> str:
    """Return which of this program's processes one is: "driver", "jvm" or "tensorflow"; psutil.Error when it has ended."""
    command = process.cmdline()
    if "akdl.entry" in command:
        return "tensorflow"
    return "jvm" if command and "java" in command[0] else "driver"
