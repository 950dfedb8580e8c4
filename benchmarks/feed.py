"""Rows from a Flink table into a script, beside PyFlink's own no-op pandas UDF over the same columns and the JVM alone.

    python benchmarks/feed.py [--rounds N] [--folder FOLDER]

Start-up counts out: a rate is that of the rows beyond the small size. All kinds of job of one round run one after the other
in one driver, so that a ratio compares neighbours. The parallelism is 1, and so is the number of workers, unless said
otherwise.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs import SCRIPTS, Job, declared, net_seconds, random_table, script_job
from report import Figure, arguments, report

SMALL, MIDDLE, LARGE = 300_000, 1_000_000, 3_000_000
ENOUGH = SMALL + 2_000_000  # for a rate
SMALL_MIXED, LARGE_MIXED = 100_000, 500_000  # their rows take several times as long
FLOATS = [f"f{number}" for number in range(10)]
PLAIN = {**dict.fromkeys(FLOATS, "FLOAT"), "id": "BIGINT"}
MIXED = {
    **dict.fromkeys([f"s{number}" for number in range(5)], "STRING"),
    **dict.fromkeys([f"d{number}" for number in range(3)], "DOUBLE"),
    **dict.fromkeys([f"a{number}" for number in range(2)], "ARRAY<FLOAT>"),
}
MIXED_OPTIONS = {
    **{f"fields.{name}.null-rate": "0.2" for name in MIXED},
    **{f"fields.{name}.length": "16" for name, kind in MIXED.items() if kind != "DOUBLE"},
}


class Jobs:
    """The kinds of job over one table, in one environment; each returns the seconds that it takes.

    Args:
        table_env: In batch or streaming mode.
        name: Of the tables, in part.
        columns: Of the tables.
        options: Of their source.
    """

    def __init__(self, table_env: Any, name: str, columns: dict[str, str], options: dict[str, str] | None = None) -> None:
        from pyflink.table import DataTypes
        from pyflink.table.udf import udf

        self._table_env = table_env
        self._columns = columns
        self._prefix = name
        self._tables = {
            rows: random_table(table_env, f"{name}_{rows}", columns, rows, options)
            for rows in (SMALL, MIDDLE, ENOUGH, LARGE, SMALL_MIXED, LARGE_MIXED)
        }
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {self._prefix}_all ({declared(columns)}) WITH ('connector' = 'blackhole')"
        )
        table_env.execute_sql(f"CREATE TEMPORARY TABLE {self._prefix}_one (x FLOAT) WITH ('connector' = 'blackhole')")

        @udf(result_type=DataTypes.FLOAT(), func_type="pandas")
        def akdl_bench_zero(first: Any, *columns: Any) -> Any:
            import numpy as np
            import pandas as pd

            return pd.Series(np.zeros(len(first), "f4"))

        table_env.create_temporary_function(f"akdl_bench_{self._prefix}", akdl_bench_zero)

    def jvm(self, rows: int) -> float:
        """Only the JVM: from the source into a blackhole."""
        return _seconds(lambda: self._insert(f"{self._prefix}_all", f"SELECT * FROM {self._prefix}_{rows}"))

    def noop(self, rows: int) -> float:
        """A pandas UDF that looks at nothing."""
        call = f"akdl_bench_{self._prefix}({', '.join(self._columns)})"
        return _seconds(lambda: self._insert(f"{self._prefix}_one", f"SELECT {call} FROM {self._prefix}_{rows}"))

    def script(self, name: str, rows: int, workers: int = 1) -> float:
        """A script of `scripts/`, which has to say that all rows came."""
        op = script_job(self._tables[rows], SCRIPTS / name, "n BIGINT", workers)
        counts: list[int] = []
        seconds = _seconds(lambda: counts.extend(row[0] for row in op.getOutputTable().execute().collect()))
        if sum(counts) != rows:
            raise SystemExit(f"{name} got {sum(counts)} rows of {rows}")
        return seconds

    def _insert(self, table: str, query: str) -> None:
        self._table_env.sql_query(query).execute_insert(table).wait()


def _seconds(run: Callable[[], None]) -> float:
    begun = time.monotonic()
    run()
    return time.monotonic() - begun


@dataclass(frozen=True)
class Kind(Job):
    """A kind of job, and where its rates go.

    Args:
        limit: The kind that does nothing with the same columns, in the same environment; None if it is one.
        target: Its rate beside that of `limit`.
    """

    limit: str | None = None
    target: float | None = None


def main(rounds: int, folder: pathlib.Path) -> None:
    """Run all kinds in turn."""
    from operators import useLocalEnv

    environments = useLocalEnv(1)
    plain = Jobs(environments.stenv, "plain", PLAIN)
    mixed = Jobs(environments.stenv, "mixed", MIXED, MIXED_OPTIONS)
    in_batch = Jobs(environments.btenv, "plain", PLAIN)

    def into(script: str, jobs: Jobs, workers: int = 1) -> Callable[[int], float]:
        return lambda rows: jobs.script(script, rows, workers)

    kinds = {
        "no-op UDF, STREAMING": Kind(plain.noop, SMALL, [ENOUGH]),
        "JVM alone": Kind(plain.jvm, SMALL, [ENOUGH], "no-op UDF, STREAMING"),
        "dataset_file, STREAMING": Kind(into("read_file.py", plain), SMALL, [MIDDLE, LARGE], "no-op UDF, STREAMING", 0.6),
        "dataset_file, 2 workers": Kind(into("read_file.py", plain, 2), SMALL, [ENOUGH], "no-op UDF, STREAMING", 0.6),
        "parsed batches, STREAMING": Kind(into("read_batches.py", plain), SMALL, [ENOUGH], "no-op UDF, STREAMING", 0.5),
        "no-op UDF, BATCH": Kind(in_batch.noop, SMALL, [ENOUGH]),
        "dataset_file, BATCH": Kind(into("read_file.py", in_batch), SMALL, [ENOUGH], "no-op UDF, BATCH", 0.6),
        "no-op UDF, mixed columns": Kind(mixed.noop, SMALL_MIXED, [LARGE_MIXED]),
        "mixed columns, STREAMING": Kind(
            into("read_file.py", mixed), SMALL_MIXED, [LARGE_MIXED], "no-op UDF, mixed columns", 0.4
        ),
    }
    net = net_seconds(kinds, rounds)
    rates = {name: kind.rates(net[name]) for name, kind in kinds.items()}
    figures = [
        Figure(name, "rows/s", rates[name], rates[kind.limit], "no-op pandas UDF", kind.target)
        for name, kind in kinds.items()
        if kind.limit
    ]
    to_middle, to_large = zip(*net["dataset_file, STREAMING"])
    in_proportion = [each * (LARGE - SMALL) / (MIDDLE - SMALL) for each in to_middle]
    figures.append(Figure("3 million, beside 1 million", "s", list(to_large), in_proportion, "in proportion", 1.05))
    report("feed", "Rows from a table into a script", figures, folder)


if __name__ == "__main__":
    given = arguments()
    main(given.rounds, given.folder)
