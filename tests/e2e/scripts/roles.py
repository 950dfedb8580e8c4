"""Says what each process of a group is told: one row per worker; parameter servers check theirs and
serve.
"""

from __future__ import annotations

import json
import os
import time

from tfrecords import examples

from akdl.runner.config import BatchTaskConfig
from akdl.wire import Example


def main(config: BatchTaskConfig) -> None:
    found = json.loads(os.environ["TF_CONFIG"])
    assert found == {
        "cluster": config.cluster,
        "task": {"type": config.task_type, "index": config.task_index},
    }
    rows = list(examples(config.dataset_file))
    if config.task_type == "ps":
        assert rows == []
        time.sleep(600)
    weights = [row["weight"].float_list.value[0] for row in rows if "weight" in row]
    row = Example()
    for name, value in {
        "role": f"{config.task_type} {config.task_index}",
        "ids": json.dumps([row["id"].int64_list.value[0] for row in rows]),
        "weights": json.dumps(weights),
        "cluster": json.dumps(config.cluster),
        "workers": json.dumps(config.num_workers),
    }.items():
        row.features.feature[name].bytes_list.value.append(value.encode())
    config.output_writer.write(row)
