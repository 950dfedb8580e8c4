"""Prediction of a table, compared with PyFlink's no-op pandas UDF on the same columns.

    python benchmarks/predict.py [--rounds N] [--folder FOLDER] [--scale SHARE]

A table of 10 FLOAT columns; the model is a dense layer of 10 to 1; both jobs have a parallelism of 2 and write into a
blackhole. Rates exclude the start-up: they count the rows beyond a small size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from jobs import Comparison, Job, RandomRows, compare, into, job_arguments, sink
from report import report

SMALL, LARGE = 300_000, 12_000_000  # two subtasks of a no-op take up to 2 million rows a second
COLUMNS = [f"x{number}" for number in range(10)]
PREDICT, NOOP = "a dense layer of 10 to 1", "no-op UDF"


def export_model(folder: str) -> None:
    """Write the model."""
    import tensorflow as tf

    model = tf.Module()
    model.w = tf.Variable(tf.ones([len(COLUMNS), 1]))
    inputs = [tf.TensorSpec([None], tf.float32, name=name) for name in COLUMNS]
    serve = tf.function(lambda *columns: {"y": tf.matmul(tf.stack(columns, 1), model.w)[:, 0]}, input_signature=inputs)
    tf.saved_model.save(model, folder, {"serving_default": serve})


def random_rows(table_env: Any) -> RandomRows:
    """Return the rows to predict."""
    return RandomRows(table_env, "numbers", dict.fromkeys(COLUMNS, "FLOAT NOT NULL"))


def predicted(table_env: Any, numbers: RandomRows, model: str) -> Callable[[int], float]:
    """Return a function from a number of rows to the seconds of their prediction."""
    from operators import BatchOperator, TFSavedModelPredictBatchOp

    predictions = sink(table_env, "predictions", "y FLOAT")

    def run(rows: int) -> float:
        op = TFSavedModelPredictBatchOp(modelPath=model, outputSchemaStr="y FLOAT", reservedCols=[], inferBatchSize=8000)
        op.linkFrom(BatchOperator.fromTable(numbers.table(rows)))
        return into(predictions, op.getOutputTable())

    return run


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = job_arguments()
    table_env = useLocalEnv(2).btenv
    numbers = random_rows(table_env)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        export_model(model)
        jobs = {PREDICT: Job(predicted(table_env, numbers, model), SMALL, LARGE), NOOP: Job(numbers.noop, SMALL, LARGE)}
        figures, _ = compare(jobs, [Comparison(PREDICT, PREDICT, NOOP, "no-op pandas UDF", 1.0)], given)
    report("predict", "Prediction of a table with 2 subtasks", figures, given.folder)


if __name__ == "__main__":
    main()
