"""Models in SQL: ML_PREDICT and a predictor, each compared with an SQL function on the same rows.

    python benchmarks/sql.py [--in-flight 10,1000,8000] [--rounds N] [--folder FOLDER]
                            [--scale SHARE] [--only NAME]

A table of 10 FLOAT columns and a dense layer of 10 to 1, with two subtasks, into a blackhole. The
SQL function gets up to 8,000 rows at a time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from feed import profile
from jobs import Comparison, Job, RandomRows, compare, into, job_parser, sink
from predict import COLUMNS, export_model, predicted, random_rows
from report import report

SMALL, LARGE = 100_000, 4_000_000
FEW = 200_000  # rows that ML_PREDICT takes with few in flight
TARGET = 0.8
FUNCTION, PREDICTOR = "an SQL function", "a predictor"


def in_sql(table_env: Any, numbers: RandomRows, form: str) -> Callable[[int], float]:
    """Return a function from a number of rows to the seconds of a query over them.

    `form` is the query, with `{rows}` for the name of their table.
    """

    def run(rows: int) -> float:
        numbers.table(rows)
        return into("sql_out", table_env.sql_query(form.format(rows=f"numbers_{rows}")))

    return run


def main() -> None:
    """Measure and report."""
    from operators import model_function, useLocalEnv

    known = job_parser()
    known.add_argument("--in-flight", default="10,1000", help="rows of a task, such as 10,1000")
    given = known.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "dense")
        export_model(model)
        table_env = useLocalEnv(2, config={"jars": ["akdl"]}).btenv
        numbers = random_rows(table_env)
        sink(table_env, "sql_out", "y FLOAT")
        inputs = ", ".join(f"{name} FLOAT" for name in COLUMNS)
        score = model_function(model, inputs, "y FLOAT", inferBatchSize=8000)
        table_env.create_temporary_function("bench_score", score)
        table_env.get_config().set("python.fn-execution.bundle.size", "80000")
        table_env.execute_sql(f"""
            CREATE TEMPORARY MODEL dense INPUT ({inputs}) OUTPUT (y FLOAT)
            WITH ('provider' = 'akdl', 'path' = '{model}',
            'params' = '{{"inferBatchSize": 8000}}')""")
        columns = ", ".join(COLUMNS)
        function = f"SELECT bench_score({columns}) AS y FROM {{rows}}"
        jobs = {
            FUNCTION: Job(in_sql(table_env, numbers, function), SMALL, LARGE),
            PREDICTOR: Job(predicted(table_env, numbers, model), SMALL, 3 * LARGE),
        }
        lines = [Comparison(PREDICTOR, PREDICTOR, FUNCTION, FUNCTION, None)]
        for most in given.in_flight.split(","):
            query = (
                f"SELECT y FROM ML_PREDICT(TABLE {{rows}}, MODEL dense, DESCRIPTOR({columns}),"
                f" MAP['max-concurrent-operations', '{most}'])"
            )
            line = f"ML_PREDICT, {most} in flight"
            rows = LARGE if int(most) >= 100 else FEW
            jobs[line] = Job(in_sql(table_env, numbers, query), min(SMALL, rows // 2), rows)
            lines.append(Comparison(line, line, FUNCTION, FUNCTION, TARGET))
        figures, nets = compare(jobs, lines, given)
    report("sql", "Models in SQL", figures, given.folder)
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
