"""Writes as many rows of three columns as the user parameter `rows` says, in the way that `how`
says.
"""

import numpy as np

BATCH = 8192


def main(task_config):
    rows, writer = task_config.user_params["rows"], task_config.output_writer
    write = _by_batches if task_config.user_params["how"] == "write_batch" else _one_by_one
    write(writer, rows)


def _by_batches(writer, rows):
    for first in range(0, rows, BATCH):
        ids = np.arange(first, min(first + BATCH, rows))
        writer.write_batch({"id": ids, "x": ids * 0.5, "y": ids * 0.25})


def _one_by_one(writer, rows):
    import tensorflow as tf  # takes seconds, which `write_batch` does not need

    for number in range(rows):
        example = tf.train.Example()
        example.features.feature["id"].int64_list.value.append(number)
        example.features.feature["x"].float_list.value.append(number * 0.5)
        example.features.feature["y"].float_list.value.append(number * 0.25)
        writer.write(example)
