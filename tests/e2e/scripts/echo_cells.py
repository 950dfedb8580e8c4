"""Writes each row back as it came, feature by feature."""

from __future__ import annotations

from tfrecords import examples

from akdl.runner.config import BatchTaskConfig
from akdl.wire import Example


def main(task_config: BatchTaskConfig) -> None:
    for feature in examples(task_config.dataset_file):
        row = Example()
        for name in feature:
            row.features.feature[name].CopyFrom(feature[name])
        task_config.output_writer.write(row)
