"""Linear regression by gradient descent over the whole table, with MultiWorkerMirroredStrategy or
in one process.

Table: the numeric columns that `featureCols` names (["x0", "x1"]) and `labelCol` ("label"). Further
user parameters: `steps` (50), `learningRate` (0.1), and `weightCol`, a number per row that says how
much it counts; rows without it count 1. Shares may have any size: a step sums the gradients of
weight * (prediction - label)^2 over all rows of all workers and divides by the sum of all weights,
so the result is that of one process on the whole table.

The chief writes one row, `strategy STRING, loss FLOAT, rows BIGINT, weights STRING`: the class name
of the strategy, the loss before the last step, the sum of all weights, and the weights [one per
feature..., bias] as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from akdl.engine.strategy import choose_strategy
from akdl.features import parse_examples
from akdl.runner.config import BatchTaskConfig
from akdl.wire import TableColumn


def main(
    task_config: BatchTaskConfig, after_step: Callable[..., None] = lambda number: None
) -> None:
    strategy = choose_strategy(task_config)
    params = task_config.user_params
    rate, steps = params.get("learningRate", 0.1), params.get("steps", 50)
    x, label, weight = own_rows(task_config)
    with strategy.scope():
        model = tf.Variable(tf.zeros([x.shape[1] + 1, 1], tf.float64))

    def step_of_one() -> tuple[Any, Any]:
        """Return the loss over all rows and their weight, both the same on every worker."""
        with tf.GradientTape() as tape:
            prediction = tf.matmul(x, model[:-1]) + model[-1]
            loss = tf.reduce_sum(weight * (prediction - label) ** 2)
        gradient = tape.gradient(loss, model)
        sums = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM,
            [tf.convert_to_tensor(gradient), loss, tf.reduce_sum(weight)],
        )
        model.assign_sub(rate * sums[0] / sums[2])
        return sums[1] / sums[2], sums[2]

    step = tf.function(lambda: strategy.run(step_of_one))
    for number in range(steps):
        loss, total = (strategy.experimental_local_results(result)[0] for result in step())
        after_step(number)
    if task_config.task_type != "chief":
        return
    row = tf.train.Example()
    row.features.feature["strategy"].bytes_list.value.append(type(strategy).__name__.encode())
    row.features.feature["loss"].float_list.value.append(float(loss))
    row.features.feature["rows"].int64_list.value.append(round(float(total)))
    weights = [float(value) for value in model.numpy().ravel()]
    row.features.feature["weights"].bytes_list.value.append(json.dumps(weights).encode())
    task_config.output_writer.write(row)


def own_rows(task_config: BatchTaskConfig) -> tuple[Any, Any, Any]:
    """Return features [n, k], label [n, 1] and weight [n, 1] of this worker's rows, as float64."""
    params = task_config.user_params
    features, label = params.get("featureCols", ["x0", "x1"]), params.get("labelCol", "label")
    weight = params.get("weightCol")
    names = [*features, label]
    columns = [
        column for column in task_config.tf_context.columns if column.name in [*names, weight]
    ]
    defaults = dict.fromkeys(names, 0.0)  # for a padding row, which may have nothing but its weight
    if weight is not None:
        # added on the way and no column of the table
        if weight not in [column.name for column in columns]:
            columns.append(TableColumn(name=weight, type="FLOAT"))
        defaults[weight] = 1.0
    records = list(tf.data.TFRecordDataset(task_config.dataset_file).as_numpy_iterator())
    exact = task_config.tf_context.exact_doubles
    cells = parse_examples(
        tf.constant(records, tf.string, [len(records)]), columns, exact, defaults
    )
    cells = {name: tf.cast(cell, tf.float64)[:, tf.newaxis] for name, cell in cells.items()}
    ones = tf.ones([len(records), 1], tf.float64)
    return (
        tf.concat([cells[name] for name in features], 1),
        cells[label],
        ones if weight is None else cells[weight],
    )
