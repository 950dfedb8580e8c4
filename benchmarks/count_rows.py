"""Reads all rows in parsed batches and writes how many there were."""

import tensorflow as tf

from akdl.features import parse_examples


def main(task_config):
    context = task_config.tf_context
    batches = context.flink_stream_dataset().batch(1024).map(lambda batch: parse_examples(batch, context.columns))
    count = batches.reduce(tf.constant(0, tf.int64), lambda n, batch: n + tf.size(batch["id"], tf.int64))
    task_config.output_writer.write_batch({"n": [int(count)]})
