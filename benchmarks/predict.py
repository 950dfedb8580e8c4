"""Prediction of a table, beside PyFlink's own no-op pandas UDF: `python benchmarks/predict.py [--rounds N] [--folder FOLDER]`.

A table of 10 FLOAT columns; the model is a dense layer of 10 to 1; both kinds of job write into a blackhole. Start-up counts
out: the rate is that of the rows beyond a small size.
"""

import os
import pathlib
import tempfile
import time

from jobs import Job, net_seconds, random_table
from report import Figure, arguments, report

SMALL, LARGE = 100_000, 1_600_000
COLUMNS = [f"x{number}" for number in range(10)]


def export_model(folder: str) -> None:
    """Write the model."""
    import tensorflow as tf

    model = tf.Module()
    model.w = tf.Variable(tf.ones([len(COLUMNS), 1]))
    inputs = [tf.TensorSpec([None], tf.float32, name=name) for name in COLUMNS]
    serve = tf.function(lambda *columns: {"y": tf.matmul(tf.stack(columns, 1), model.w)[:, 0]}, input_signature=inputs)
    tf.saved_model.save(model, folder, {"serving_default": serve})


def main(rounds: int, results: pathlib.Path) -> None:
    """Run both in turn and report."""
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    from operators import BatchOperator, TFSavedModelPredictBatchOp, useLocalEnv

    table_env = useLocalEnv(2).btenv

    @udf(result_type=DataTypes.FLOAT(), func_type="pandas")
    def akdl_bench_first(*columns):
        return columns[0]

    table_env.create_temporary_function("akdl_bench_first", akdl_bench_first)
    names = ", ".join(COLUMNS)
    table_env.execute_sql("CREATE TEMPORARY TABLE nothing (y FLOAT) WITH ('connector' = 'blackhole')")
    for rows in (SMALL, LARGE):
        random_table(table_env, f"rows_{rows}", dict.fromkeys(COLUMNS, "FLOAT NOT NULL"), rows)

    def noop(rows: int) -> float:
        started = time.monotonic()
        table_env.sql_query(f"SELECT akdl_bench_first({names}) AS y FROM rows_{rows}").execute_insert("nothing").wait()
        return time.monotonic() - started

    with tempfile.TemporaryDirectory() as folder:
        export_model(os.path.join(folder, "model"))

        def predict(rows: int) -> float:
            op = TFSavedModelPredictBatchOp(
                modelPath=os.path.join(folder, "model"), outputSchemaStr="y FLOAT", reservedCols=[], inferBatchSize=8000
            )
            op.linkFrom(BatchOperator.fromTable(table_env.from_path(f"rows_{rows}")))
            started = time.monotonic()
            op.getOutputTable().execute_insert("nothing").wait()
            return time.monotonic() - started

        jobs = {"predict": Job(predict, SMALL, [LARGE]), "noop": Job(noop, SMALL, [LARGE])}
        net = net_seconds(jobs, rounds)
    values, limits = (job.rates(net[name]) for name, job in jobs.items())
    figure = Figure("a dense layer of 10 to 1", "rows/s", values, limits, "no-op pandas UDF", 0.6)
    report("predict", "Prediction of a table with 2 subtasks", [figure], results)


if __name__ == "__main__":
    given = arguments()
    main(given.rounds, given.folder)
