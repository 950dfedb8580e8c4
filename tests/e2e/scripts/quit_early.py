"""Ends before it has read its rows."""

from __future__ import annotations

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    task_config.output_writer.write_batch({"x": [1]})
