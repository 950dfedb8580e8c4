"""Writes each row back, one by one, and does on the way what the user parameters say.

- returns_after: return after so many rows
- raises_once: raise an error after so many rows, unless the file `marker` exists
- commits: commit each row
- pid_file: write the process id there
"""

from __future__ import annotations

import os

from tfrecords import examples

from akdl.runner.config import StreamTaskConfig


def main(task_config: StreamTaskConfig) -> None:
    params = task_config.user_params
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    if "pid_file" in params:
        with open(params["pid_file"] + f".{worker}", "w") as file:
            file.write(str(os.getpid()))
    count = 0
    for path in task_config.tf_context.rows.segments():
        for features in examples(path):
            task_config.output_writer.write_batch(
                {"worker": [worker], "id": [features["id"].int64_list.value[0]]}
            )
            count += 1
            if params.get("commits"):
                task_config.commit(1)
            if count == params.get("returns_after"):
                return
            if count == params.get("raises_once") and not os.path.exists(params["marker"]):
                open(params["marker"], "w").close()
                raise ValueError("once")
