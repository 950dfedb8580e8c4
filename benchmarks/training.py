"""Training the sample's DNN on a table, compared with the same script reading a TFRecord file
without Flink.

    python benchmarks/training.py [--rounds N] [--folder FOLDER]

One million rows of 10 FLOAT and a label, batches of 1,024, one epoch. The limit is the script in a
process of its own, from its start to its end, and the start-up of a PyFlink job of one row.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
from typing import Any

from jobs import SCRIPTS, RandomRows, script_job
from report import Figure, arguments, report
from startup import hello_world, know_function

ROWS = 1_000_000
SCRIPT = pathlib.Path(__file__).parent.parent / "examples" / "dnn_batch" / "tf_dnn_batch.py"
FEATURES = [f"f{number}" for number in range(10)]
COLUMNS = {**dict.fromkeys(FEATURES, "FLOAT"), "id": "BIGINT NOT NULL"}
PARAMS = {"featureCols": FEATURES, "labelCol": "id", "batch_size": 1024, "num_epochs": 1}


def alone(path: str) -> None:
    """Train in this process on the rows of a file."""
    import tensorflow as tf

    from akdl import features
    from akdl.models.tf.dnn.dnn_batch import main
    from akdl.runner.config import BatchTaskConfig
    from akdl.runner.context import TFContext
    from akdl.testing import CollectingWriter, table_columns

    class FromFile(TFContext):
        """Reads the file in the usual way."""

        def batches(
            self,
            batch_size: int,
            defaults: Any = None,
            columns: Any = None,
            shuffle_rows: int = 0,
            num_epochs: Any = 1,
        ) -> Any:
            dataset = tf.data.TFRecordDataset(path)
            dataset = dataset.shuffle(shuffle_rows) if shuffle_rows else dataset
            wanted = [
                column for column in self.columns if columns is None or column.name in columns
            ]
            return features.batches(
                dataset.repeat(num_epochs), batch_size, wanted, defaults=defaults
            )

    with tempfile.TemporaryDirectory() as folder:
        writer: Any = CollectingWriter()
        rows: Any = types.SimpleNamespace(is_empty=lambda: False)  # `FromFile` reads the file
        main(
            BatchTaskConfig(
                output_writer=writer,
                tf_context=FromFile(rows, table_columns(COLUMNS)),
                num_workers=1,
                cluster={"chief": ["localhost:1"]},
                task_type="chief",
                task_index=0,
                work_dir=folder,
                user_params=PARAMS,
            )
        )
        assert writer.rows


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = arguments()
    table_env = useLocalEnv(1).stenv
    know_function(table_env)
    from_0_to_1 = {
        f"fields.{name}.{bound}": value
        for name in FEATURES
        for bound, value in (("min", "0"), ("max", "1"))
    }
    numbers = RandomRows(table_env, "numbers", dict.fromkeys(FEATURES, "FLOAT"), from_0_to_1).table(
        ROWS
    )
    labelled = table_env.sql_query(f"SELECT *, CAST(f0 > f1 AS BIGINT) AS id FROM {numbers}")

    def stored(path: str) -> None:
        op = script_job(
            labelled, SCRIPTS / "copy_file.py", "n BIGINT", userParams=json.dumps({"path": path})
        )
        ((found,),) = op.getOutputTable().execute().collect()
        assert found == ROWS, found

    def operator() -> float:
        op = script_job(
            labelled, SCRIPT, "model_id BIGINT, model_info STRING", userParams=json.dumps(PARAMS)
        )
        begun = time.monotonic()
        assert list(op.getOutputTable().execute().collect())
        return time.monotonic() - begun

    def limit(path: str) -> float:
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, __file__, "--alone", path], check=True, stderr=subprocess.DEVNULL
        )
        return time.monotonic() - begun + hello_world(table_env)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.tfrecords"
        stored(path)  # the first jobs take longer, too
        hello_world(table_env)
        pairs = [(operator(), limit(path)) for _ in range(given.rounds)]
    values, limits = [first for first, _ in pairs], [second for _, second in pairs]
    figure = Figure(
        "DNN of the sample", "s", values, limits, "without Flink, and a job's start-up", 1.25
    )
    report("training", f"Training on {ROWS:,} rows", [figure], given.folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2])
    else:
        main()
