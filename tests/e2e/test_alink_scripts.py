"""Scripts as people bring them from Alink."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from akdl.storage.model_archive import unpack
from operators import (
    BatchOperator,
    StreamOperator,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TF2TableModelTrainBatchOp,
    getMLEnv,
    useLocalEnv,
)
from tests.e2e.jobs import SCRIPTS, points

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.slow]
MODEL = "model_id LONG, model_info STRING"
PARAMS = json.dumps(
    {
        "featureCols": json.dumps(["x0", "x1"]),
        "labelCol": "label",
        "batch_size": 16,
        "num_epochs": 1,
        "flag": True,
    }
)


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


def arguments(name: str, **params: object) -> dict[str, object]:
    script = str(SCRIPTS / "alink" / name)
    return {
        "userFiles": [script],
        "mainScriptFile": script,
        "userParams": PARAMS,
        "intraOpParallelism": 2,
        **params,
    }


def signature(rows: object, folder: pathlib.Path) -> Any:
    import tensorflow as tf

    return tf.saved_model.load(unpack(rows, str(folder))).signatures["predict"]


def rows_of(op: object) -> list[tuple[int, str]]:
    return list(op.collectToDataframe()[["model_id", "model_info"]].itertuples(index=False))


@pytest.mark.long
def test_script_of_alink_trains_two_workers_with_unequal_shares(tmp_path: pathlib.Path) -> None:
    op = TF2TableModelTrainBatchOp(**arguments("dnn_train.py", numWorkers=2, numPSs=0))
    assert set(
        signature(rows_of(points(getMLEnv().btenv, 33).link(op)), tmp_path / "m").structured_outputs
    ) >= {"logits"}


def test_copied_batch_script_of_alink_gives_a_model(tmp_path: pathlib.Path) -> None:
    op = TensorFlow2BatchOp(
        **arguments("dnn_batch.py", numWorkers=1, numPSs=0, outputSchemaStr=MODEL)
    )
    assert set(
        signature(rows_of(points(getMLEnv().btenv, 64).link(op)), tmp_path / "m").structured_outputs
    ) >= {"logits"}


@pytest.mark.long
@pytest.mark.own_processes
def test_copied_stream_script_of_alink_gives_a_model(tmp_path: pathlib.Path) -> None:
    stream = StreamOperator.fromTable(points(getMLEnv().stenv, 64).getOutputTable())
    op = TensorFlow2StreamOp(
        **arguments("dnn_stream.py", numWorkers=1, numPSs=0, outputSchemaStr=MODEL)
    )
    with stream.link(op).getOutputTable().execute().collect() as rows:
        found = [tuple(row) for row in rows]
    assert set(signature(found, tmp_path / "m").structured_outputs) >= {"logits"}


def test_plain_keras_runs_with_the_default_numbers_of_processes() -> None:
    """At a parallelism of 2 these are a worker and a parameter server, which nobody needs."""
    op = TensorFlow2BatchOp(**arguments("plain_keras.py", outputSchemaStr="role STRING, n BIGINT"))
    (row,) = points(getMLEnv().btenv, 40).link(op).collectToDataframe().itertuples(index=False)
    assert tuple(row) == ("chief", 40)


def test_work_folder_files_and_a_checkpoint_are_returned_with_the_model(
    tmp_path: pathlib.Path,
) -> None:
    env = getMLEnv().btenv
    tensors = BatchOperator.fromTable(env.sql_query("SELECT ARRAY[CAST(1 AS DOUBLE), 2] AS t"))
    extra = BatchOperator.fromTable(
        env.sql_query("SELECT CAST(0.1 AS DOUBLE) AS d, CAST('a b' AS STRING) AS s")
    )
    params = {"userParams": {"ALINK:save_latest_checkpoint": True}, "numWorkers": 1, "numPSs": 0}
    rows = rows_of(
        TF2TableModelTrainBatchOp(**arguments("files.py", **params)).linkFrom(tensors, extra)
    )
    model, checkpoint = json.loads(dict(rows)[0])
    assert (checkpoint["name"].rsplit("/", 1)[-1], checkpoint["chunks"]) == (
        "latest_ckpt.zip",
        1,
    ) and len(rows) == model["chunks"] + 2
    assert list(signature(rows, tmp_path / "m").structured_outputs) == ["y"]
