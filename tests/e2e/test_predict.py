"""Train, predict, compare: what the predictors say is what TensorFlow says of the same rows."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl.storage.files import sha256_of
from akdl.storage.model_archive import pack
from bridge.exceptions import ConfigurationError, RowError
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    TableSourceBatchOp,
    TF2TableModelTrainBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
    useLocalEnv,
)
from tests.e2e.jobs import frames, points, sequence
from tests.support.http import served
from tests.support.leftovers import wait_until

pytestmark = [pytest.mark.flink, pytest.mark.tf]

SCRIPT = """
import tensorflow as tf

def main(task_config):
    model = tf.Module()
    model.w = tf.Variable([[2.0], [-1.0]])
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x0"), tf.TensorSpec([None], tf.float32, name="x1")])
    def serve(x0, x1):
        both = tf.stack([x0, x1], 1)
        return {"y": (both @ model.w)[:, 0], "both": both, "sign": tf.where(x0 > x1, "more", "less"),
                "place": tf.cast(x0 * 1000, tf.int64)}
    tf.saved_model.save(model, task_config.saved_model_dir, {"serving_default": serve, "other": serve})
"""
OUTPUTS = "y DOUBLE, both ARRAY<FLOAT>, sign STRING, place BIGINT"


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the model that the script exports."""
    import tensorflow as tf

    from akdl import testing

    folder = tmp_path_factory.mktemp("exported")
    config = testing.train_task_config({"x": [1]}, {"x": "INT"}, str(folder))
    scope = {}
    exec(SCRIPT, scope)
    scope["main"](config)
    assert tf.saved_model.contains_saved_model(config.saved_model_dir)
    return config.saved_model_dir


def model_table(tmp_path: pathlib.Path) -> TF2TableModelTrainBatchOp:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    op = TF2TableModelTrainBatchOp(userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0)
    return sequence(getMLEnv().btenv, 5).link(op)


def check(found: Any) -> None:
    x0, x1 = found.x0.to_numpy(), found.x1.to_numpy()
    assert len(found) == 3001 and len(np.unique(x0)) > 2900
    np.testing.assert_allclose(found.y, 2 * x0 - x1, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.array(found.both.tolist(), "f4"), np.stack([x0, x1], 1))
    assert found.sign.tolist() == ["more" if a > b else "less" for a, b in zip(x0, x1)]
    assert found.place.tolist() == (x0 * np.float32(1000)).astype(int).tolist()


def no_model_process_is_left() -> None:
    place = pathlib.Path(tempfile.gettempdir(), f"akdl_models_{os.geteuid()}")
    wait_until(
        lambda: not place.is_dir() or not any(place.iterdir()),
        "model processes have ended and removed their folders",
    )


@pytest.mark.long
def test_a_trained_table_predicts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_table(tmp_path)
    rows = points(getMLEnv().btenv, 3001)
    op = TFTableModelPredictBatchOp(outputSchemaStr=OUTPUTS, selectedCols=["x0", "x1"]).linkFrom(
        model, rows
    )
    assert op.getColNames() == ["x0", "x1", "label", "y", "both", "sign", "place"]
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    check(op.collectToDataframe())
    assert "TFTableModelPredictBatchOp: 3,001 rows in, 3,001 out, " in capsys.readouterr().err
    no_model_process_is_left()


BAD = "SELECT id, CASE WHEN MOD(id, 3) = 1 THEN CAST(NULL AS FLOAT) ELSE CAST(id AS FLOAT) END AS x0, CAST(1 AS FLOAT) AS x1 FROM "


def with_nulls() -> TableSourceBatchOp:
    env = getMLEnv().btenv
    env.create_temporary_view("akdl_test_rows", sequence(env, 7).getOutputTable())
    try:
        return BatchOperator.fromTable(env.sql_query(BAD + "akdl_test_rows"))
    finally:
        env.drop_temporary_view("akdl_test_rows")


def predictor(exported: str, **params: Any) -> TFSavedModelPredictBatchOp:
    return TFSavedModelPredictBatchOp(
        modelPath=exported, outputSchemaStr="y DOUBLE", selectedCols=["x0", "x1"], **params
    )


def test_a_row_that_cannot_be_predicted_fails_the_job(exported: str) -> None:
    with pytest.raises(
        RowError, match="row [0-9] of a batch cannot be predicted: .*x0.*null.*errorCol, a column"
    ):
        with_nulls().link(predictor(exported)).collectToDataframe()
    no_model_process_is_left()


@pytest.mark.fault("data", "A row that cannot be predicted leaves its error in errorCol")
def test_models_in_folders_at_addresses_and_in_files_of_tables_predict(
    exported: str, tmp_path: pathlib.Path
) -> None:
    """In one job; a row that cannot be predicted may leave its error in a column."""
    fsspec = pytest.importorskip("fsspec")
    env = getMLEnv().btenv
    env.execute_sql(
        "CREATE TEMPORARY TABLE kept_model (model_id BIGINT, model_info STRING) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path / 'kept'}', 'format' = 'json')"
    )
    model = MemSourceBatchOp(list(pack(exported)), "model_id BIGINT, model_info STRING")
    model.getOutputTable().execute_insert("kept_model").wait()
    by_table = TFTableModelPredictBatchOp(outputSchemaStr=OUTPUTS, selectedCols=["x0", "x1"])
    by_table.linkFrom(BatchOperator.fromTable(env.from_path("kept_model")), points(env, 3001))

    by_folder = TFSavedModelPredictBatchOp(
        modelPath=exported, outputSchemaStr="a STRING, x1 DOUBLE", outputSignatureDefs=["both", "y"], signatureDefKey="other",
        selectedCols=["x0", "x1"], inputSignatureDefs=["x1", "x0"], reservedCols=["label"], intraOpParallelism=1,
    )  # fmt: skip
    rows = points(env, 5)
    rows.link(by_folder)
    assert by_folder.getColNames() == ["x1", "label", "a"], (
        "an output with the name of an input column takes its place"
    )

    packed = pathlib.Path(shutil.make_archive(str(tmp_path / "m"), "gztar", exported))
    with served(files={"/m.tar.gz": packed.read_bytes()}) as site:
        by_http = rows.link(predictor(f"{site.url}/m.tar.gz#sha256={sha256_of(str(packed))}"))
        with pytest.raises(
            ConfigurationError, match=r"modelPath: http://\S+/nope: HTTP 404: it has no such file"
        ):
            rows.link(predictor(f"{site.url}/nope"))
    fsspec.filesystem("memory").put(exported, "/akdl_exported", recursive=True)
    by_address = by_http.link(
        predictor("memory://akdl_exported", signatureDefKey="other", reservedCols=["x0", "x1"])
    )

    with_errors = with_nulls().link(predictor(exported, errorCol="why", reservedCols=["id"]))
    of_table, of_folder, given, of_address, of_nulls = frames(
        by_table, by_folder, rows, by_address, with_errors
    )
    check(of_table)
    np.testing.assert_allclose(sorted(of_folder.x1), sorted(2 * given.x1 - given.x0), rtol=1e-5)
    pairs = sorted(tuple(map(float, text.split())) for text in of_folder.a)
    np.testing.assert_allclose(pairs, sorted(zip(given.x1, given.x0)), rtol=1e-5)
    np.testing.assert_allclose(
        of_address.y, 2 * of_address.x0 - of_address.x1, rtol=1e-4, atol=1e-6
    )
    assert of_nulls.columns.tolist() == ["id", "y", "why"]
    bad = of_nulls.id % 3 == 1
    assert of_nulls.y.isna().tolist() == bad.tolist()
    assert of_nulls.why.notna().tolist() == bad.tolist() and len(of_nulls) == 7
    assert of_nulls.y[~bad].tolist() == [2.0 * number - 1 for number in of_nulls.id[~bad]]
    assert all("x0" in text and "null" in text for text in of_nulls.why[bad])
    no_model_process_is_left()


@pytest.mark.long
def test_a_model_with_2500_inputs_predicts_a_table_of_as_many_columns(
    tmp_path: pathlib.Path,
) -> None:
    """It took more than 150 s: PyFlink looked at all types for each column."""
    import tensorflow as tf

    names = [f"c{number}" for number in range(2500)]
    signature = {name: tf.TensorSpec([None], tf.float32, name=name) for name in names}
    model = tf.Module()
    serve = tf.function(
        lambda **columns: {"total": tf.add_n(list(columns.values()))}
    ).get_concrete_function(**signature)
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": serve})
    wide = pd.DataFrame(
        {
            "id": [0, 1],
            **{name: np.float32([number, number + 1]) for number, name in enumerate(names)},
        }
    )
    op = TFSavedModelPredictBatchOp(
        modelPath=str(tmp_path / "model"),
        selectedCols=names,
        outputSchemaStr="total DOUBLE",
        reservedCols=["id"],
    )
    found = BatchOperator.fromDataframe(wide).link(op).collectToDataframe().sort_values("id")
    assert found.total.tolist() == [sum(range(2500)), sum(range(2500)) + 2500]


@pytest.mark.long
@pytest.mark.own_processes
def test_alinks_dnn_on_two_workers_and_a_server_predicts_logits() -> None:
    """As Alink's own test has it, but with values: the logits of a table are those of the exported
    model.
    """
    import json
    import zipfile

    import tensorflow as tf

    import akdl.models.tf.dnn.dnn_train as script

    rows = points(getMLEnv().btenv, 100)
    params = {
        "featureCols": json.dumps(["x0", "x1"]),
        "labelCol": "label",
        "batch_size": 16,
        "num_epochs": 1,
    }
    op = TF2TableModelTrainBatchOp(
        userFiles=[],
        mainScriptFile=script.__file__,
        userParams=params,
        numWorkers=2,
        numPSs=1,
        intraOpParallelism=1,
    )
    model = rows.link(op)
    predict = TFTableModelPredictBatchOp(
        outputSchemaStr="logits double",
        outputSignatureDefs=["logits"],
        signatureDefKey="predict",
        selectedCols=["x0", "x1"],
    )
    found = predict.linkFrom(model, rows).collectToDataframe()
    assert found.columns.tolist() == ["x0", "x1", "label", "logits"]
    with tempfile.TemporaryDirectory(prefix="akdl_test_") as folder:
        with zipfile.ZipFile(model._packed) as file:
            file.extractall(folder)
        served = tf.saved_model.load(folder).signatures["predict"]
        (shape,) = {len(spec.shape) for spec in served.structured_input_signature[1].values()}
        cells = {
            name: tf.constant(found[name].to_numpy().reshape([-1, 1] if shape == 2 else [-1]))
            for name in ("x0", "x1")
        }
        np.testing.assert_allclose(
            found.logits, served(**cells)["logits"].numpy()[:, 0], rtol=1e-4, atol=1e-5
        )
