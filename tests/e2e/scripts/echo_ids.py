"""Writes back which worker got which id."""

from __future__ import annotations

from tfrecords import examples

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    ids = [feature["id"].int64_list.value[0] for feature in examples(task_config.dataset_file)]
    assert len(ids) == task_config.dataset_length
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    task_config.output_writer.write_batch({"worker": [worker] * len(ids), "id": ids})
