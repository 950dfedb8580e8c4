"""Writes back which worker got which id, and below which TaskManager it ran."""

import psutil
from tfrecords import examples


def main(task_config):
    ids = [feature["id"].int64_list.value[0] for feature in examples(task_config.dataset_file)]
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    (jvm,) = (parent.pid for parent in psutil.Process().parents() if parent.name() == "java")
    count = len(ids)
    task_config.output_writer.write_batch({"worker": [worker] * count, "id": ids, "task_manager": [jvm] * count})
