"""A program that Flink starts on YARN: `program.py train|count FOLDER PYTHON_ENV`, whose rows end up
in files of FOLDER. Its scripts lie beside it, in the archive that YARN unpacks.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from operators import (
    BatchOperator,
    StreamOperator,
    TensorFlow2StreamOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
)

HERE = pathlib.Path(__file__).resolve().parent
NUMBERS = (
    "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
    "'fields.id.start' = '0', 'fields.id.end' = '{last}', 'number-of-rows' = '{rows}', 'rows-per-second' = '{per_second}')"
)


def files(columns: str, folder: str) -> str:
    return (
        f"CREATE TEMPORARY TABLE sink ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
        "'format' = 'csv', 'sink.rolling-policy.check-interval' = '1 s')"
    )


def train(folder: str, **params: Any) -> Any:
    """Train with two workers, whose gradients are summed, and predict with the model."""
    env = getMLEnv().btenv
    env.execute_sql(NUMBERS.format(rows=1000, last=999, per_second=1_000_000_000))
    env.execute_sql(files("x FLOAT, y FLOAT", folder))
    points = BatchOperator.fromTable(env.sql_query("SELECT CAST(id AS FLOAT) / 1000 AS x FROM numbers"))  # fmt: skip
    script = str(HERE / "line.py")
    model = points.link(
        TF2TableModelTrainBatchOp(
            userFiles=[script],
            mainScriptFile=script,
            numWorkers=2,
            numPSs=0,
            **params,
        )
    )
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT", selectedCols=["x"], **params)
    return predict.linkFrom(model, points).getOutputTable().execute_insert("sink")


def count(folder: str, **params: Any) -> Any:
    """Add up a stream without end with the sum as the state of the script."""
    env = getMLEnv().stenv
    env.execute_sql(NUMBERS.format(rows=200_000, last=199_999, per_second=250))
    env.execute_sql(files("id BIGINT, total BIGINT", folder))
    script = str(HERE / "total.py")
    op = TensorFlow2StreamOp(
        userFiles=[script], mainScriptFile=script, outputSchemaStr="id BIGINT, total BIGINT", numWorkers=1, numPSs=0,
        **params,
    )  # fmt: skip
    rows = StreamOperator.fromTable(env.from_path("numbers")).link(op)
    return rows.getOutputTable().execute_insert("sink")


mode, folder, python_env = sys.argv[1:]
job = {"train": train, "count": count}[mode](folder, pythonEnv=python_env)
print(f"{mode} was submitted")
if mode == "train":
    job.wait()
