"""Writes what each process finds of its extra inputs: one row per worker, `worker INT, found
STRING`, as JSON.
"""

from __future__ import annotations

import json

from akdl.runner.config import BatchTaskConfig
from akdl.wire import Example


def main(config: BatchTaskConfig) -> None:
    found = []
    for number, extra in enumerate(config.extra_inputs, 1):
        with open(config.user_params[f"ALINK:bc_{number}"]) as file:
            text = file.read()
        rows = [{name: repr(cell) for name, cell in row.items()} for row in extra.rows()]
        found.append(
            {"columns": [[c.name, c.type] for c in extra.columns], "rows": rows, "text": text}
        )
    row = Example()
    row.features.feature["worker"].int64_list.value.append(
        0 if config.task_type == "chief" else config.task_index + 1
    )
    row.features.feature["found"].bytes_list.value.append(
        json.dumps([config.dataset_length, found]).encode()
    )
    config.output_writer.write(row)
