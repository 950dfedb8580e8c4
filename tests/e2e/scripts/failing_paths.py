"""Runs jobs that fail, in one program, and shows each error as Python does where nobody catches it.

    python failing_paths.py FOLDER NAME...

On stderr, `===== NAME` stands before what is written there for a path. The last one is not caught.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from operators import (
    BatchOperator,
    LocalPredictor,
    MemSourceBatchOp,
    MemSourceStreamOp,
    PipelineModel,
    StreamOperator,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TF2TableModelTrainBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictor,
    TFTableModelTrainBatchOp,
    getMLEnv,
    useLocalEnv,
    waitForJob,
)

FOLDER = pathlib.Path(sys.argv[1])
ROWS = [(1, 0.5), (2, 2.5)]


def script_op(name: str, **params: Any) -> Any:
    op = TensorFlow2BatchOp(
        userFiles=[],
        mainScriptFile=str(FOLDER / name),
        outputSchemaStr="id BIGINT",
        numPSs=0,
        **params,
    )
    return MemSourceBatchOp(ROWS, "id BIGINT, x FLOAT").link(op)


def train_op(kind: Any, name: str, **params: Any) -> Any:
    op = kind(userFiles=[], mainScriptFile=str(FOLDER / name), numWorkers=1, numPSs=0, **params)
    return MemSourceBatchOp(ROWS, "id BIGINT, x FLOAT").link(op)


def collect() -> None:
    script_op("six_megabytes.py").collectToDataframe()


def execute() -> None:
    script_op("deep.py").lazyPrint()
    BatchOperator.execute()


def plain_pyflink() -> None:
    table = script_op("deep.py").getOutputTable()
    getMLEnv().btenv.execute_sql(
        "CREATE TEMPORARY TABLE black_hole (id BIGINT) WITH ('connector' = 'blackhole')"
    )
    table.execute_insert("black_hole").wait()


def statement_set() -> None:
    statements = getMLEnv().btenv.create_statement_set()
    statements.add_insert("black_hole", script_op("deep.py").getOutputTable())
    waitForJob(statements)


def insert_into() -> None:
    script_op("deep.py").insertInto("black_hole")


def two_workers() -> None:
    script_op("killed.py", numWorkers=2).collectToDataframe()


def stream() -> None:
    op = TensorFlow2StreamOp(
        userFiles=[],
        mainScriptFile=str(FOLDER / "deep.py"),
        outputSchemaStr="id BIGINT",
        numWorkers=1,
        numPSs=0,
    )
    MemSourceStreamOp(ROWS, "id BIGINT, x FLOAT").link(op).print()
    StreamOperator.execute()


def user_function() -> None:
    from pyflink.table import DataTypes
    from pyflink.table.expressions import col
    from pyflink.table.udf import udf

    @udf(result_type=DataTypes.BIGINT())
    def refuses(cell: int) -> int:
        raise ValueError(f"bad cell {cell}")

    table = MemSourceBatchOp(ROWS, "id BIGINT, x FLOAT").getOutputTable()
    BatchOperator.fromTable(table.select(refuses(col("id")))).collectToDataframe()


def pipeline() -> None:
    trained = TFTableModelPredictor(outputSchemaStr="y FLOAT").setModelData(
        train_op(TF2TableModelTrainBatchOp, "deep.py")
    )
    PipelineModel(trained).save(str(FOLDER / "model.ak"))


def keras_fit() -> None:
    script_op("keras_fit.py").collectToDataframe()


def keras_runner() -> None:
    train_op(TF2TableModelTrainBatchOp, "awf.py").collectToDataframe()


def estimator_runner() -> None:
    train_op(
        TFTableModelTrainBatchOp, "estimator.py", userParams={"train_max_steps": 1}
    ).collectToDataframe()


def predictor_op() -> Any:
    return TFSavedModelPredictBatchOp(
        modelPath=str(FOLDER / "model"), outputSchemaStr="y FLOAT", selectedCols=["x"]
    )


def predictor() -> None:
    MemSourceBatchOp(ROWS, "id BIGINT, x FLOAT").link(predictor_op()).collectToDataframe()


def local_predictor() -> None:
    LocalPredictor(str(FOLDER / "pipeline.zip"), "x FLOAT").map([0.5])


useLocalEnv(1)
for name in sys.argv[2:]:
    sys.stderr.write(f"===== {name}\n")
    sys.stderr.flush()
    try:
        globals()[name]()
    except Exception:
        if name == sys.argv[-1]:
            raise
        sys.excepthook(*sys.exc_info())
