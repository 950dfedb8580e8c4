"""Trains an Estimator on a stream, whose `input_fn` is the stream; writes the number of steps as
`id`.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from akdl.runner.config import StreamTaskConfig

SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64)}


def main(task_config: StreamTaskConfig) -> None:
    def parse(records: Any) -> tuple[dict[str, Any], Any]:
        x = tf.cast(tf.io.parse_example(records, SPEC)["id"], tf.float32) / 1000.0
        return {"x": x}, 2.0 * x

    def input_fn() -> Any:
        return task_config.dataset_fn().batch(100).map(parse)

    estimator = tf.compat.v1.estimator.LinearRegressor(
        [tf.feature_column.numeric_column("x")],
        model_dir=os.path.join(task_config.work_dir, "model"),
    )
    estimator.train(input_fn)
    steps = int(estimator.get_variable_value("global_step"))
    task_config.output_writer.write_batch({"worker": [0], "id": [steps]})
