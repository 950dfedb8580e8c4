"""Reads its rows once and writes their number, their sum, and the most bytes that lay in its
private folder meanwhile.
"""

from __future__ import annotations

import os

from akdl.runner.config import BatchTaskConfig
from akdl.wire.cells import read_cells


def main(task_config: BatchTaskConfig) -> None:
    folder = os.path.join(task_config.work_dir, ".akdl")
    rows = total = most = 0
    for columns in task_config.tf_context.rows.columns():
        ids = read_cells(columns.columns[0], columns.rows).values
        rows, total = rows + len(ids), total + int(ids.sum())
        most = max(
            most, sum(os.path.getsize(each.path) for each in os.scandir(folder) if each.is_file())
        )
    task_config.output_writer.write_batch({"rows": [rows], "total": [total], "most": [most]})
