"""Rows of three columns from a script back into a table.

    python benchmarks/output.py [--rounds N] [--folder FOLDER] [--scale SHARE] [--only WORDS]

Rates exclude the start-up: they count the rows beyond a small size. The table is a blackhole. With
`write` the script makes a tf.train.Example per row, which is part of its cost.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from jobs import SCRIPTS, Comparison, Job, compare, into, job_arguments, script_job, sink
from report import report

COLUMNS = "id BIGINT, x DOUBLE, y DOUBLE"
ASKED = 1_000_000.0  # rows/s
LINES = [
    Comparison("write_batch", "write_batch", ASKED, "asked for", 1.0),
    Comparison("write", "write", "write_batch", "write_batch", None),
]


def written(table_env: Any, how: str, rows: int) -> float:
    """Return the seconds of a job whose script writes this number of rows."""
    op = script_job(
        table_env.sql_query("SELECT 1 AS x"), SCRIPTS / "write_rows.py", COLUMNS,
        userParams=json.dumps({"how": how, "rows": rows}),
    )  # fmt: skip
    return into("written", op.getOutputTable())


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = job_arguments()
    table_env = useLocalEnv(1).stenv
    sink(table_env, "written", COLUMNS)
    jobs = {
        "write_batch": Job(
            functools.partial(written, table_env, "write_batch"), 300_000, 30_000_000
        ),
        "write": Job(functools.partial(written, table_env, "write"), 50_000, 500_000),
    }
    figures, _ = compare(jobs, LINES, given)
    report("output", "Rows of three columns from a script into a table", figures, given.folder)


if __name__ == "__main__":
    main()
