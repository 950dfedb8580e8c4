"""Plain Keras, which knows nothing of groups: where there is a parameter server, this fails in it,
as it has no rows.
"""

from __future__ import annotations

import tensorflow as tf

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    features = task_config.tf_context.batches(16, columns=["x0", "label"])
    rows = features.map(
        lambda row: (tf.reshape(row["x0"], [-1, 1]), tf.reshape(row["label"], [-1, 1]))
    )
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])
    model.compile("sgd", "mse")
    history = model.fit(rows, epochs=1, verbose=0)
    assert history.history["loss"]
    task_config.output_writer.write_batch(
        {"role": [task_config.task_type], "n": [task_config.dataset_length]}
    )
