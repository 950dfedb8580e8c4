"""Prediction of a table, beside PyFlink's own no-op pandas UDF: `python benchmarks/predict.py [ROUNDS]`.

A table of 10 FLOAT columns; the model is a dense layer of 10 to 1; both kinds of job write into a blackhole. Start-up counts
out: the rate is that of the rows between two sizes. Prints both rates and their ratio, round by round, and the median.
"""

import os
import statistics
import sys
import tempfile
import time

SMALL, LARGE = 100_000, 2_100_000
COLUMNS = [f"x{number}" for number in range(10)]


def export_model(folder: str) -> None:
    """Write the model."""
    import tensorflow as tf

    model = tf.Module()
    model.w = tf.Variable(tf.ones([len(COLUMNS), 1]))
    inputs = [tf.TensorSpec([None], tf.float32, name=name) for name in COLUMNS]
    serve = tf.function(lambda *columns: {"y": tf.matmul(tf.stack(columns, 1), model.w)[:, 0]}, input_signature=inputs)
    tf.saved_model.save(model, folder, {"serving_default": serve})


def main(rounds: int) -> None:
    """Run both in turn."""
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
    types = ", ".join(f"{name} FLOAT NOT NULL" for name in COLUMNS)
    for rows in (SMALL, LARGE):
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE rows_{rows} ({types}) WITH ('connector' = "
            f"'datagen', 'rows-per-second' = '100000000', 'number-of-rows' = '{rows}')"
        )

    def noop(rows: int) -> float:
        started = time.monotonic()
        table_env.sql_query(f"SELECT akdl_bench_first({names}) AS y FROM rows_{rows}").execute_insert("nothing").wait()
        return time.monotonic() - started

    with tempfile.TemporaryDirectory() as folder:
        export_model(os.path.join(folder, "model"))

        def predict(rows: int) -> float:
            op = TFSavedModelPredictBatchOp(
                modelPath=os.path.join(folder, "model"), outputSchemaStr="y FLOAT", reservedCols=[], inferBatchSize=4096
            )
            op.linkFrom(BatchOperator.fromTable(table_env.from_path(f"rows_{rows}")))
            started = time.monotonic()
            op.getOutputTable().execute_insert("nothing").wait()
            return time.monotonic() - started

        ratios = []
        for number in range(rounds):
            rates = [(LARGE - SMALL) / (job(LARGE) - job(SMALL)) for job in (noop, predict)]
            ratios.append(rates[1] / rates[0])
            print(f"round {number}: no-op {rates[0]:,.0f} rows/s, predict {rates[1]:,.0f} rows/s, ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
