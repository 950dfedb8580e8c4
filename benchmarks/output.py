"""Rows of three columns from a script back into a table: `python benchmarks/output.py [--rounds N] [--folder FOLDER]`.

Start-up counts out: a rate is that of the rows beyond a small size, into a blackhole. `write` makes a tf.train.Example per
row in the script, which is part of its cost.
"""

from __future__ import annotations

import functools
import json
import time

from jobs import SCRIPTS, Job, net_seconds, script_job
from report import Figure, arguments, report

SMALL, LARGE = 50_000, {"write_batch": 1_250_000, "write": 250_000}
ASKED = 150_000.0


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = arguments()
    table_env = useLocalEnv(1).stenv
    table_env.execute_sql("CREATE TEMPORARY TABLE nothing (id BIGINT, x DOUBLE, y DOUBLE) WITH ('connector' = 'blackhole')")
    one_row = table_env.sql_query("SELECT 1 AS x")

    def seconds(how: str, rows: int) -> float:
        params = json.dumps({"how": how, "rows": rows})
        op = script_job(one_row, SCRIPTS / "write_rows.py", "id BIGINT, x DOUBLE, y DOUBLE", userParams=params)
        begun = time.monotonic()
        op.getOutputTable().execute_insert("nothing").wait()
        return time.monotonic() - begun

    jobs = {how: Job(functools.partial(seconds, how), SMALL, [large]) for how, large in LARGE.items()}
    net = net_seconds(jobs, given.rounds)
    rates = {how: job.rates(net[how]) for how, job in jobs.items()}
    figures = [
        Figure(how, "rows/s", values, [ASKED] * len(values), "asked for", 1.0 if how == "write_batch" else None)
        for how, values in rates.items()
    ]
    report("output", "Rows of three columns from a script into a table", figures, given.folder)


if __name__ == "__main__":
    main()
