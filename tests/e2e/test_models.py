"""Training that ends in a model table, and what scripts get beside the rows that they share."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from akdl.storage.model_archive import unpack
from bridge.exceptions import TaskError
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
    useLocalEnv,
)
from tests.e2e.jobs import points, script_op, sequence

pytestmark = [pytest.mark.flink, pytest.mark.tf]

SAVE = """
import os
import tensorflow as tf

def main(task_config):
    if task_config.task_type != "chief":
        os.makedirs(task_config.saved_model_dir)  # nobody looks at it
        return
    model = tf.Module()
    model.rows = tf.Variable(task_config.dataset_length)
    serve = tf.function(lambda x: {"y": x * tf.cast(model.rows, tf.float32)}, [tf.TensorSpec([None], tf.float32, name="x")])
    where = os.path.join(task_config.saved_model_dir, task_config.user_params.get("below", ""))
    tf.saved_model.save(model, where, {"serving_default": serve.get_concrete_function()})
"""


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


def train_op(tmp_path: pathlib.Path, script: str, **params: Any) -> TF2TableModelTrainBatchOp:
    file = tmp_path / "train.py"
    file.write_text(script)
    return TF2TableModelTrainBatchOp(
        userFiles=[str(file)], mainScriptFile=str(file), numPSs=0, **params
    )


@pytest.mark.long
@pytest.mark.tf
def test_the_export_of_the_chief_becomes_a_table(tmp_path: pathlib.Path) -> None:
    """Also one below a folder with a number, as TensorFlow's exporters make them."""
    import tensorflow as tf

    op = train_op(tmp_path, SAVE, numWorkers=2, userParams={"below": "1700000000"})
    rows = sequence(getMLEnv().stenv, 10).link(op).collectToDataframe()
    assert op.getColNames() == ["model_id", "model_info"] and op.getColTypes() == [
        "BIGINT",
        "STRING",
    ]
    model = tf.saved_model.load(
        unpack(zip(rows.model_id, rows.model_info), str(tmp_path / "model"))
    )
    (found,) = model.signatures["serving_default"](x=tf.constant([3.0]))["y"].numpy().tolist()
    assert found in (12.0, 15.0, 18.0), "3 times the rows of the chief"


@pytest.mark.slow
def test_a_model_in_a_folder_is_found_by_its_predictor(tmp_path: pathlib.Path) -> None:
    train = train_op(tmp_path, SAVE, numWorkers=1, modelDir=str(tmp_path / "models"))
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT", selectedCols=["x"])
    data = MemSourceBatchOp([[1.0], [2.0]], "x FLOAT")
    found = predict.linkFrom(sequence(getMLEnv().btenv, 10).link(train), data).collectToDataframe()
    assert sorted(found.y) == [10.0, 20.0]
    assert [path.suffix for path in (tmp_path / "models").iterdir()] == [".zip"]


def test_a_script_without_an_export_is_an_error(tmp_path: pathlib.Path) -> None:
    message = (
        "the script failed: the script left no model in task_config.saved_model_dir: export it"
    )
    with pytest.raises(TaskError, match=message):
        sequence(getMLEnv().btenv, 10).link(
            train_op(tmp_path, "def main(config): pass\n", numWorkers=1)
        ).collectToDataframe()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_every_process_gets_every_extra_input_whole(mode: str) -> None:
    env = getattr(getMLEnv(), mode)
    cells = "SELECT CAST('a b' AS STRING) AS name, CAST(1.5 AS DOUBLE) AS x, CAST(NULL AS INT) AS n, TRUE AS flag, DATE '2020-02-03' AS d"
    first = BatchOperator.fromTable(
        env.sql_query(cells + " UNION ALL " + cells.replace("1.5", "2.5"))
    )
    second = sequence(env, 20_000)
    op = script_op("extra_inputs.py", "worker INT, found STRING", 2)
    found = op.linkFrom(points(env, 9), first, second, sequence(env, 0)).collectToDataframe()
    assert sorted(found.worker) == [0, 1]
    shares = 0
    for text in found.found:
        length, (one, two, empty) = json.loads(text)
        shares += length
        types = {name: type_.replace(" NOT NULL", "") for name, type_ in one["columns"]}
        assert types == {
            "name": "STRING",
            "x": "DOUBLE",
            "n": "INT",
            "flag": "BOOLEAN",
            "d": "DATE",
        }
        assert sorted(row["x"] for row in one["rows"]) == ["1.5", "2.5"]
        assert {(row["name"], row["n"], row["flag"], row["d"]) for row in one["rows"]} == {
            ("'a b'", "None", "True", "18295")
        }
        assert sorted(one["text"].splitlines()) == [
            "a b 1.5 null true 2020-02-03",
            "a b 2.5 null true 2020-02-03",
        ]
        assert sorted(int(row["id"]) for row in two["rows"]) == list(range(20_000))
        assert empty == {"columns": [["id", "BIGINT"]], "rows": [], "text": ""}
    assert shares == 9
