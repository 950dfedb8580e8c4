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

from jobs import Comparison, Job, RandomRows, compare, into, job_parser, sink
from predict import COLUMNS, export_model, predicted, random_rows
from processes import KINDS
from report import report

SMALL, LARGE = 100_000, 4_000_000
FEW = 200_000  # rows that ML_PREDICT takes with few in flight
TARGET = 0.8
FUNCTION, PREDICTOR = "an SQL function", "a predictor"


def in_sql(
    table_env: Any, numbers: RandomRows, form: str, names: dict[str, str]
) -> Callable[[int], float]:
    """Return a function from a number of rows to the seconds of a query over them."""

    def run(rows: int) -> float:
        numbers.table(rows)
        names["rows"] = f"numbers_{rows}"
        return into("sql_out", table_env.sql_query(form.format(**names)))

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
        names = {"columns": ", ".join(COLUMNS)}
        function = "SELECT bench_score({columns}) AS y FROM {rows}"
        jobs = {
            FUNCTION: Job(in_sql(table_env, numbers, function, names), SMALL, LARGE),
            PREDICTOR: Job(predicted(table_env, numbers, model), SMALL, 3 * LARGE),
        }
        lines = [Comparison(PREDICTOR, PREDICTOR, FUNCTION, FUNCTION, None)]
        for most in given.in_flight.split(","):
            query = (
                "SELECT y FROM ML_PREDICT(TABLE {rows}, MODEL dense, DESCRIPTOR({columns}),"
                f" MAP['max-concurrent-operations', '{most}'])"
            )
            line = f"ML_PREDICT, {most} in flight"
            rows = LARGE if int(most) >= 100 else FEW
            jobs[line] = Job(in_sql(table_env, numbers, query, names), min(SMALL, rows // 2), rows)
            lines.append(Comparison(line, line, FUNCTION, FUNCTION, TARGET))
        figures, nets = compare(jobs, lines, given)
    report("sql", "Models in SQL", figures, given.folder)
    print(f"processor seconds per million rows: {', '.join(KINDS)}")
    for name, net in nets.items():
        used = [sum(each.get(kind, 0.0) for each in net.processors) for kind in KINDS]
        per_million = [seconds * 1e6 / net.rows / len(net.processors) for seconds in used]
        print(f"{name}: {', '.join(f'{seconds:.2f}' for seconds in per_million)}")


if __name__ == "__main__":
    main()
