"""A program that Flink starts: `submitted_job.py batch|stream SINK PYTHON_ENV`. Rows go
through a script into files.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from operators import (
    BatchOperator,
    StreamOperator,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    getMLEnv,
    useLocalEnv,
)

SCRIPTS = pathlib.Path(__file__).resolve().parent


def main(mode: Any, sink: Any, python_env: Any) -> None:
    is_batch = mode == "batch"
    if not is_batch:
        useLocalEnv(3)  # as in a program that was tried on one machine first
    table_env = getMLEnv().btenv if is_batch else getMLEnv().stenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '300', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '299')"
    )
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE sink (worker INT, id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{sink}', 'format' = 'csv')"
    )
    script = SCRIPTS / ("echo_ids.py" if is_batch else "stream/without_tensorflow.py")
    op = (TensorFlow2BatchOp if is_batch else TensorFlow2StreamOp)(
        userFiles=[str(SCRIPTS / "tfrecords.py")], mainScriptFile=str(script), outputSchemaStr="worker INT, id BIGINT", numWorkers=3,
        numPSs=0, pythonEnv=python_env,
    )  # fmt: skip
    if not is_batch:
        # streams are dealt chunk by chunk; none leaves before it is full
        op.setChunkRows(10).setChunkWait(60.0)
    rows = (
        (BatchOperator if is_batch else StreamOperator)
        .fromTable(table_env.from_path("numbers"))
        .link(op)
    )
    rows.getOutputTable().execute_insert("sink")
    print(f"{mode} with a parallelism of {getMLEnv().senv.get_parallelism()} was submitted")


main(*sys.argv[1:])
