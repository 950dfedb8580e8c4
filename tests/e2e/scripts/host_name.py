"""Writes the name of the host that it runs on."""

from __future__ import annotations

import socket

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    task_config.output_writer.write_batch({"worker": [worker], "host": [socket.gethostname()]})
