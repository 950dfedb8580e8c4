"""Short ways to run the test scripts."""

from __future__ import annotations

import pathlib

import pandas as pd

from operators import BatchOperator, TensorFlow2BatchOp

SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def script_op(name: str, schema: str, workers: int = 1, **params: object) -> TensorFlow2BatchOp:
    """Return an operator that runs a script of tests/e2e/scripts on independent workers."""
    files = [str(SCRIPTS / name), str(SCRIPTS / "tfrecords.py")]
    return TensorFlow2BatchOp(
        userFiles=files,
        mainScriptFile=files[0],
        outputSchemaStr=schema,
        numWorkers=workers,
        numPSs=0,
        **params,
    )


def sequence(table_env: object, rows: int) -> BatchOperator:
    """Return a table with the BIGINT column `id` that counts from 0."""
    name = f"sequence_{id(table_env)}_{rows}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (id BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '1000000000', 'number-of-rows' = '{max(rows, 1)}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        f"'fields.id.end' = '{max(rows, 1) - 1}')"
    )
    return BatchOperator.fromTable(table_env.sql_query(f"SELECT id FROM {name} WHERE id < {rows}"))


def frames(*results: BatchOperator) -> list[pd.DataFrame]:
    """Return the rows of several operators, which one job runs side by side: a job of its own for
    each takes seconds.
    """
    found: list[list[pd.DataFrame]] = [[] for _ in results]
    for result, into in zip(results, found):
        result.lazyCollectToDataframe(into.append)
    BatchOperator.execute()
    return [frame for (frame,) in found]


def by_worker(frame: pd.DataFrame) -> dict[int, tuple[int, int, int]]:
    """Return worker -> (rows, different ids, sum of ids) of what echo_ids has written."""
    return {
        worker: (len(ids), ids.nunique(), int(ids.sum()))
        for worker, ids in frame.groupby("worker").id
    }


def shares_of(*results: BatchOperator) -> list[dict[int, tuple[int, int, int]]]:
    """Run echo_ids in one job, and return what came of each result by worker."""
    return [by_worker(frame) for frame in frames(*results)]


def shares(result: BatchOperator) -> dict[int, tuple[int, int, int]]:
    """Do `shares_of` for one result."""
    return shares_of(result)[0]


def points(table_env: object, rows: int) -> BatchOperator:
    """Return a table `x0 FLOAT, x1 FLOAT, label BIGINT`: points in a square, and whether x0
    > x1.
    """
    places = "CAST(SIN(id * 12.9898) AS FLOAT) AS x0, CAST(COS(id * 78.233) AS FLOAT) AS x1"
    label = "CASE WHEN x0 > x1 THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS label"
    return sequence(table_env, rows).select(places).select(f"*, {label}")


def train_op(name: str, schema: str, *more_files: str, **params: object) -> TensorFlow2BatchOp:
    """Return an operator that runs a training script of tests/e2e/scripts; 2 threads each, as there
    are many processes.
    """
    files = [str(SCRIPTS / file) for file in (name, *more_files)]
    return TensorFlow2BatchOp(
        userFiles=files,
        mainScriptFile=files[0],
        outputSchemaStr=schema,
        intraOpParallelism=2,
        **params,
    )
