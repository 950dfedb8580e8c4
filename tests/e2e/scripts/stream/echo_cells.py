"""Writes each row of a stream back as it came, feature by feature."""

from __future__ import annotations

from akdl.runner.config import StreamTaskConfig
from akdl.wire import Example


def main(task_config: StreamTaskConfig) -> None:
    for record in task_config.dataset_fn():
        task_config.output_writer.write(Example.FromString(record.numpy()))
