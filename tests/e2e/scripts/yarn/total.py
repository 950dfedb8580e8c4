"""Adds up the ids of a stream, with the sum as its state."""

from __future__ import annotations

import os
from typing import Any


def main(task_config: Any) -> None:
    total = [0]

    def save(folder: str) -> None:
        with open(os.path.join(folder, "total"), "w") as file:
            file.write(str(total[0]))

    def restore(folder: str) -> None:
        with open(os.path.join(folder, "total")) as file:
            total[0] = int(file.read())

    task_config.checkpoint(save, restore, every_rows=200)
    print("begins at", total[0])
    for rows in task_config.context.arrays(50):
        totals = total[0] + rows["id"].cumsum()
        total[0] = int(totals[-1])
        task_config.output_writer.write_batch({"id": rows["id"], "total": totals})
