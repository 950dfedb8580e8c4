"""One process of a TensorFlow group: calls the `main` of a script with a task config made from a
JSON file.

Arguments: the script, the JSON file, and where to write the rows that the script wrote, as JSON.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys


def run(script: str, task_file: str, output_file: str) -> None:
    gc.set_threshold(50_000, 20, 20)  # see akdl.entry
    from akdl.rows.examples import records
    from akdl.runner.config import BatchTaskConfig
    from akdl.runner.context import Share, TFContext
    from akdl.testing import CollectingWriter, arrived_rows, table_columns

    with open(task_file, encoding="utf-8") as file:
        task = json.load(file)
    os.environ["TF_CONFIG"] = json.dumps(task["tf_config"])
    shares, columns = [Share(*share) for share in task["shares"]], table_columns(task["types"])
    with open(task["own"][0], "rb") as file:
        rows = arrived_rows(records(file), columns, task["work_dir"])
    task_config = BatchTaskConfig(
        output_writer=CollectingWriter(),  # type: ignore[arg-type]
        tf_context=TFContext(rows, columns, shares=lambda: shares),
        num_workers=task["num_workers"],
        cluster=task["tf_config"]["cluster"],
        task_type=task["tf_config"]["task"]["type"],
        task_index=task["tf_config"]["task"]["index"],
        work_dir=task["work_dir"],
        user_params=task["user_params"],
        checkpoint_dir=task["checkpoint_dir"],
    )
    spec = importlib.util.spec_from_file_location("script", script)
    assert spec is not None and spec.loader is not None
    sys.path.insert(0, os.path.dirname(script))  # as akdl.entry does
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(task_config)
    with open(output_file, "w", encoding="utf-8") as file:
        json.dump(task_config.output_writer.rows, file, default=bytes.decode)  # type: ignore[attr-defined]


if __name__ == "__main__":
    run(*sys.argv[1:])
