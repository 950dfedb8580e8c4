"""Prediction of a table, compared with PyFlink's no-op pandas UDF on the same columns.

    python benchmarks/predict.py [--stream] [--parallelism 1,4,8] [--rounds N] [--folder FOLDER]
                                [--scale SHARE] [--only NAME]

A table, or with `--stream` a stream, of 10 FLOAT columns. One model is a dense layer of 10 to 1;
the other one has about 2 ms of work on one core for each batch of 8,000 rows. All jobs have the
same parallelism, by default 2, and write into a blackhole. Rates exclude the start-up: they count
the rows beyond a small size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from feed import profile
from jobs import Comparison, Job, RandomRows, compare, into, job_parser, sink
from report import report

SMALL, LARGE = 300_000, 12_000_000  # two subtasks of a no-op take up to 2 million rows a second
TARGET = 1.1
COLUMNS = [f"x{number}" for number in range(10)]
PREDICT, WORK, NOOP = "a dense layer of 10 to 1", "a model of 2 ms a batch", "no-op UDF"
LAYERS = 12  # of 10 to 10, whose work on 8,000 rows takes about 2 ms of one core


def export_model(folder: str, layers: int = 0) -> None:
    """Write the model; `layers` make it slower."""
    import tensorflow as tf

    model = tf.Module()
    model.w = tf.Variable(tf.ones([len(COLUMNS), 1]))
    model.inner = tf.Variable(tf.eye(len(COLUMNS)))

    def predict(*columns: Any) -> Any:
        values = tf.stack(columns, 1)
        for _ in range(layers):
            values = tf.tanh(tf.matmul(values, model.inner))
        return {"y": tf.matmul(values, model.w)[:, 0]}

    inputs = [tf.TensorSpec([None], tf.float32, name=name) for name in COLUMNS]
    tf.saved_model.save(
        model, folder, {"serving_default": tf.function(predict, input_signature=inputs)}
    )


def random_rows(table_env: Any) -> RandomRows:
    """Return the rows to predict."""
    return RandomRows(table_env, "numbers", dict.fromkeys(COLUMNS, "FLOAT NOT NULL"))


def predicted(
    table_env: Any, numbers: RandomRows, model: str, threads: int | None = None
) -> Callable[[int], float]:
    """Return a function from a number of rows to the seconds of their prediction."""
    from bridge.table_env import is_streaming
    from operators import (
        BatchOperator,
        StreamOperator,
        TFSavedModelPredictBatchOp,
        TFSavedModelPredictStreamOp,
    )

    streams = is_streaming(table_env)
    kind: Any = TFSavedModelPredictStreamOp if streams else TFSavedModelPredictBatchOp
    source: Any = StreamOperator if streams else BatchOperator
    name = f"predictions_{os.path.basename(model)}"
    predictions = sink(table_env, name, "y FLOAT")

    def run(rows: int) -> float:
        op = kind(
            modelPath=model,
            outputSchemaStr="y FLOAT",
            reservedCols=[],
            inferBatchSize=8000,
            intraOpParallelism=threads,
        )
        op.linkFrom(source.fromTable(numbers.table(rows)))
        return into(predictions, op.getOutputTable())

    return run


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    known = job_parser()
    known.add_argument("--parallelism", default="2", help="one or several, such as 1,4,8")
    known.add_argument("--stream", action="store_true", help="a stream in place of a table")
    given = known.parse_args()
    jobs: dict[str, Job] = {}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        models = {PREDICT: os.path.join(folder, "dense"), WORK: os.path.join(folder, "work")}
        export_model(models[PREDICT])
        export_model(models[WORK], LAYERS)
        for parallelism in map(int, given.parallelism.split(",")):
            environments = useLocalEnv(parallelism)
            table_env = environments.stenv if given.stream else environments.btenv
            numbers = random_rows(table_env)
            noop = f"{NOOP}, {parallelism} subtasks"
            large = LARGE * max(parallelism, 2) // 2
            jobs[noop] = Job(numbers.noop, SMALL, large)
            for name, model in models.items():
                line, target = (
                    f"{name}, {parallelism} subtasks",
                    TARGET if name == PREDICT else None,
                )
                jobs[line] = Job(
                    predicted(table_env, numbers, model, 1 if name == WORK else None), SMALL, large
                )
                lines.append(Comparison(line, line, noop, "no-op pandas UDF", target))
        figures, nets = compare(jobs, lines, given)
    title = "Prediction of a stream" if given.stream else "Prediction of a table"
    report("predict_stream" if given.stream else "predict", title, figures, given.folder)
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
