"""Script in the style of Alink that writes the length of each word, one row at a time."""

import tensorflow as tf

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig):
    for serialized in tf.data.TFRecordDataset(task_config.dataset_file):
        feature = tf.train.Example.FromString(serialized.numpy()).features.feature
        word = feature["word"].bytes_list.value[0]
        row = tf.train.Example()
        row.features.feature["word"].bytes_list.value.append(word)
        row.features.feature["length"].int64_list.value.append(len(word.decode("utf-8")))
        task_config.output_writer.write(row)
