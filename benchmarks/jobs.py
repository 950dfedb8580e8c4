"""Common parts of the benchmarks of jobs: random rows, jobs with the least work, and net times by
round.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from processes import all_processes, processor_seconds
from report import Figure, parser

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
# The start-up, which is subtracted, varies by some tenths of a second: in shorter times it would
# decide the ratio.
FLOOR_S = 2.0
TICK_S = 0.01  # the unit of processor times; a short job may use less beyond its start-up
ROUNDS_AGAIN = 2  # at most, to replace rounds with a shorter time


class RandomRows:
    """Tables of random rows in one environment, as fast as Flink makes them.

    Args:
        table_env: In batch or streaming mode.
        name: First part of the tables' names.
        columns: Name to SQL type.
        options: Options of the source.
    """

    def __init__(
        self,
        table_env: Any,
        name: str,
        columns: Mapping[str, str],
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._table_env = table_env
        self._name = name
        self._columns = columns
        self._options = options or {}
        self._tables: dict[int, Any] = {}
        self._has_noop = self._has_sink = False

    def table(self, rows: int) -> Any:
        """Return the table with this number of rows."""
        if rows not in self._tables:
            name = f"{self._name}_{rows}"
            options = {
                "connector": "datagen",
                "rows-per-second": "1000000000",
                "number-of-rows": str(rows),
                **self._options,
            }
            with_ = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
            self._table_env.execute_sql(
                f"CREATE TEMPORARY TABLE {name} ({self._declared}) WITH ({with_})"
            )
            self._tables[rows] = self._table_env.from_path(name)
        return self._tables[rows]

    def jvm(self, rows: int) -> float:
        """Return the seconds of a job in the JVM alone, from the source into a blackhole."""
        if not self._has_sink:
            self._has_sink = bool(sink(self._table_env, f"{self._name}_all", self._declared))
        return into(f"{self._name}_all", self.table(rows))

    def noop(self, rows: int) -> float:
        """Return the seconds of a job with a pandas UDF that ignores its arguments, all columns."""
        if not self._has_noop:
            self._create_noop()
            self._has_noop = True
        self.table(rows)
        call = f"akdl_bench_{self._name}({', '.join(self._columns)})"
        return into(
            f"{self._name}_one",
            self._table_env.sql_query(f"SELECT {call} AS x FROM {self._name}_{rows}"),
        )

    def counted_by(self, script: str, workers: int = 1) -> Callable[[int], float]:
        """Return a function that runs a script of `scripts/`, checks the number of rows it reports,
        and returns the seconds.
        """

        def run(rows: int) -> float:
            counted = script_job(
                self.table(rows), SCRIPTS / script, "n BIGINT", workers
            ).getOutputTable()
            begun = time.monotonic()
            found = sum(row[0] for row in counted.execute().collect())
            seconds = time.monotonic() - begun
            if found != rows:
                raise SystemExit(f"{script} got {found} rows of {rows}")
            return seconds

        return run

    @property
    def _declared(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self._columns.items())

    def _create_noop(self) -> None:
        from pyflink.table import DataTypes
        from pyflink.table.udf import udf

        @udf(result_type=DataTypes.FLOAT(), func_type="pandas")
        def akdl_bench_zero(first: Any, *columns: Any) -> Any:
            import numpy as np
            import pandas as pd

            return pd.Series(np.zeros(len(first), "f4"))

        # PyFlink's own 1,000 limits its Arrow batches to as many rows, and the no-op is several
        # times slower.
        self._table_env.get_config().set("python.fn-execution.bundle.size", "80000")
        self._table_env.create_temporary_function(f"akdl_bench_{self._name}", akdl_bench_zero)
        sink(self._table_env, f"{self._name}_one", "x FLOAT")


def sink(table_env: Any, name: str, columns: str) -> str:
    """Create a table that drops its rows, and return its name."""
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ('connector' = 'blackhole')"
    )
    return name


def into(sink: str, table: Any) -> float:
    """Return the seconds of the job that writes a table into another."""
    begun = time.monotonic()
    table.execute_insert(sink).wait()
    return time.monotonic() - begun


def script_job(
    table: Any, script: pathlib.Path, output: str, workers: int = 1, **params: Any
) -> Any:
    """Return the operator that runs a script on a table."""
    from operators import BatchOperator, TensorFlow2BatchOp

    op: Any = TensorFlow2BatchOp(
        userFiles=[str(script)],
        mainScriptFile=str(script),
        outputSchemaStr=output,
        numWorkers=workers,
        numPSs=0,
        **params,
    )
    return op.linkFrom(
        table if isinstance(table, BatchOperator) else BatchOperator.fromTable(table)
    )


@dataclass(frozen=True)
class Job:
    """A job to time.

    Args:
        run: Function from a number of rows to seconds. Jobs with the same `run` and `small` share
            their start-up.
        small: Number of rows whose time counts as start-up.
        large: Number of rows to measure.
    """

    run: Callable[[int], float]
    small: int
    large: int


@dataclass(frozen=True)
class Net:
    """Net times of a job, by round: only for its rows beyond the small size.

    Args:
        rows: The number of these rows.
        seconds: Seconds per round.
        processors: Processor seconds per round, see `processes.processor_seconds`.
        too_short: Some of the times are too short to be compared.
    """

    rows: int
    seconds: list[float]
    processors: list[dict[str, float]]
    too_short: bool

    @property
    def rates(self) -> list[float]:
        """Rows/s of each round."""
        return [self.rows / seconds for seconds in self.seconds]

    @property
    def processors_per_million(self) -> list[float]:
        """Processor seconds of all processes per million rows, of each round; at least a tick of
        the system's clock.
        """
        return [1e6 * max(all_processes(used), TICK_S) / self.rows for used in self.processors]


@dataclass(frozen=True)
class Taken:
    """Times of one run of a job: seconds, and processor seconds as `processes.processor_seconds`
    returns them.
    """

    seconds: float
    processors: dict[str, float]


# The times of each start-up and each job in one round.
_Round = dict[Any, Taken]


def measure(jobs: Mapping[str, Job], rounds: int, scale: float = 1.0) -> dict[str, Net]:
    """Run jobs in turn, and return the net times of each.

    First each job runs once with its small size, so that the JVM compiles the code that all jobs
    need. In each round a job runs with its small size first. The median of these times over all
    rounds is subtracted from its times. A round with a time below `FLOOR_S` is repeated, a few
    times at most.

    Args:
        jobs: The jobs by name; jobs that are compared should follow each other.
        rounds: The number of rounds.
        scale: A factor for all sizes. Below 1 all times count as too short, and no round is
            repeated.
    """
    sizes = {
        name: (max(1, int(job.small * scale)), max(2, int(job.large * scale)))
        for name, job in jobs.items()
    }
    if scale >= 1:
        for run, small in dict.fromkeys((job.run, sizes[name][0]) for name, job in jobs.items()):
            # the JVM compiles: the first job takes seconds longer than similar ones later
            run(small)
    done: list[_Round] = []
    for number in range(rounds):
        done.append(_round(jobs, sizes))
        print(f"round {number + 1} of {rounds} is done", flush=True)
    if scale >= 1:
        for _ in range(ROUNDS_AGAIN):
            nets = {name: _net(name, job, sizes[name], done) for name, job in jobs.items()}
            shortest, number, name = min(
                (net.seconds[i], i, name) for name, net in nets.items() for i in range(rounds)
            )
            if shortest >= FLOOR_S:
                break
            print(
                f"round {number + 1} runs again: {name} took {shortest:.2f} s beyond start-up",
                flush=True,
            )
            done[number] = _round(jobs, sizes)
    return {name: _net(name, job, sizes[name], done, scale) for name, job in jobs.items()}


def _round(jobs: Mapping[str, Job], sizes: Mapping[str, tuple[int, int]]) -> _Round:
    taken: _Round = {}
    for name, job in jobs.items():
        small, large = sizes[name]
        if (job.run, small) not in taken:
            taken[job.run, small] = timed(job.run, small)
        taken[name] = timed(job.run, large)
    return taken


def timed(run: Callable[[int], float], rows: int) -> Taken:
    """Run a job with this number of rows."""
    before = processor_seconds()
    seconds = run(rows)
    return Taken(seconds, difference(processor_seconds(), before))


def _net(
    name: str, job: Job, sizes: tuple[int, int], rounds: Sequence[_Round], scale: float = 1.0
) -> Net:
    small, large = sizes
    starts = [each[job.run, small] for each in rounds]
    start_s = statistics.median(start.seconds for start in starts)
    start_processors = {
        kind: statistics.median(start.processors.get(kind, 0.0) for start in starts)
        for kind in starts[0].processors
    }
    seconds = [each[name].seconds - start_s for each in rounds]
    processors = [difference(each[name].processors, start_processors) for each in rounds]
    return Net(large - small, seconds, processors, scale < 1 or min(seconds) < FLOOR_S)


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return the processor seconds between two moments."""
    return {kind: value - before.get(kind, 0.0) for kind, value in after.items()}


@dataclass(frozen=True)
class Comparison:
    """A line of the table: the rate of a job compared with its limit.

    Args:
        name: Name of the line.
        job: Name of the job.
        limit: Name of the job that is the limit, or the target rate.
        words: Description of the limit.
        target: The target ratio; None for no target.
    """

    name: str
    job: str
    limit: str | float
    words: str
    target: float | None

    def figure(self, nets: Mapping[str, Net]) -> Figure:
        """Return the line."""
        net = nets[self.job]
        if isinstance(self.limit, str):
            limits, too_short = nets[self.limit].rates, net.too_short or nets[self.limit].too_short
        else:
            limits, too_short = [self.limit] * len(net.rates), net.too_short
        return Figure(self.name, "rows/s", net.rates, limits, self.words, self.target, too_short)


def job_arguments() -> argparse.Namespace:
    """Return `rounds`, `folder`, `scale` and `only` from the command line."""
    return job_parser().parse_args()


def job_parser() -> argparse.ArgumentParser:
    """Return a parser of `rounds`, `folder`, `scale` and `only`."""
    known = parser()
    known.add_argument(
        "--scale", type=float, default=1.0, help="factor of all sizes; below 1 no target is decided"
    )
    known.add_argument(
        "--only", default="", help="run only the jobs of lines with this in their name"
    )
    return known


def compare(
    jobs: Mapping[str, Job], comparisons: Sequence[Comparison], given: argparse.Namespace
) -> tuple[list[Figure], dict[str, Net]]:
    """Run the jobs of the chosen lines.

    Returns:
        The lines, and the net times of each job.
    """
    wanted = [each for each in comparisons if given.only in each.name]
    if not wanted:
        raise SystemExit(
            f"no line has {given.only!r} in its name; the lines are"
            f" {', '.join(each.name for each in comparisons)}"
        )
    needed = {name for each in wanted for name in (each.job, each.limit)}
    nets = measure(
        {name: job for name, job in jobs.items() if name in needed}, given.rounds, given.scale
    )
    return [each.figure(nets) for each in wanted], nets
