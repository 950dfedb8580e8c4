"""A script of `awf_*` callbacks as the main script of an operator: trained, evaluated and applied
on Flink tables.

Rows reach a worker in no fixed order. Where weights are compared, a step takes all rows, so that
only the order of sums in float32 differs: within 1e-5.
"""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.user_code.module import load_module
from bridge.exceptions import TaskError
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    TensorFlow2BatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
    useLocalEnv,
)
from tests.akdl.keras.support import (
    MLP_ARGS,
    SCRIPTS,
    WIDE_DEEP_OPTIMIZERS,
    save,
    script,
    weights_in,
    wide_deep_by_hand,
)
from tests.e2e.jobs import frames, points
from tests.support.tf_group import ROOT

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.flink,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

SCRIPT = str(SCRIPTS / "rows.py")
FILE = {"file": "${DATASET_FILE}$"}
RANKNET = ROOT / "examples" / "keras_ranknet" / "ranknet.py"
RANKNET_MODEL = RANKNET.with_name("ranknet_model.py")
CONFIG = {
    "train_data_args": FILE,
    "batch_size": 20,
    "epochs": 30,
    "seed": 1,
    "optimizer": {"name": "SGD", "args": {"learning_rate": 1.0}},
    "loss": "binary_crossentropy",
}


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


@pytest.mark.long
def test_runner_that_does_not_suit_the_script_is_refused() -> None:
    train = TF2TableModelTrainBatchOp(
        userFiles=[SCRIPT],
        mainScriptFile=SCRIPT,
        userParams={"config": CONFIG, "runner": "estimator"},
        numWorkers=1,
        numPSs=0,
    )
    with pytest.raises(
        TaskError,
        match="user parameter 'runner': .*rows.py holds no functions of the kind estimator",
    ):
        points(getMLEnv().btenv, 5).link(train).collectToDataframe()


def table(values: dict[str, Any], types: dict[str, str]) -> BatchOperator:
    rows = [[cell.tolist() for cell in row] for row in zip(*(values[name] for name in types))]
    return MemSourceBatchOp(rows, ", ".join(f"{name} {type_}" for name, type_ in types.items()))


def callbacks_op(op: type, *files: Any, workers: int = 1, **params: Any) -> Any:
    """Return an operator with the callbacks in the first file."""
    schema = {"outputSchemaStr": params.pop("schema")} if "schema" in params else {}
    names = [str(SCRIPTS / file) for file in files]
    return op(
        userFiles=names,
        mainScriptFile=names[0],
        userParams=params,
        numWorkers=workers,
        numPSs=0,
        **schema,
    )


TYPES = {"id": "BIGINT", "x": "ARRAY<FLOAT>", "label": "INT"}
ROWS = 90


@pytest.fixture(scope="module")
def values() -> dict[Any, Any]:
    x = np.random.default_rng(0).normal(size=(ROWS, 6)).astype(np.float32)
    return {"id": np.arange(ROWS), "x": x, "label": np.digitize(x[:, 0] + x[:, 1], [-1, 0, 1])}


def mlp_config(**more: Any) -> dict[str, Any]:
    sgd = {"name": "SGD", "args": {"learning_rate": 0.5}}
    config = {
        "model_args": MLP_ARGS,
        "train_data_args": FILE,
        "val_data_args": FILE,
        "batch_size": ROWS,
        "seed": 5,
    }
    return {**config, "optimizer": sgd, "loss": "binary_crossentropy", "metrics": ["AUC"], **more}


@pytest.fixture(scope="module")
def trained(values: dict[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model of one process that was not interrupted, on the same rows from a file."""
    from akdl.keras.keras_training import train

    folder = tmp_path_factory.mktemp("alone")
    file = testing.train_task_config(values, TYPES, str(folder)).dataset_file
    return train(mlp_config(epochs=6), script("mlp_rows"), {"DATASET_FILE": file}).model


@pytest.mark.long
def test_mlp_two_workers_begin_one_goes_on_and_the_model_table_predicts(
    values: dict[Any, Any], trained: Any, tmp_path: pathlib.Path
) -> None:
    checkpoints = {"name": "checkpoint", "args": {"path": "${CHECKPOINTS}$"}}
    rows = table(values, TYPES)

    def op(workers: int, epochs: int) -> Any:
        config = mlp_config(epochs=epochs, callbacks=[checkpoints])
        files = ("mlp_rows.py", "mlp.py")
        return callbacks_op(
            TF2TableModelTrainBatchOp,
            *files,
            workers=workers,
            config=config,
            CHECKPOINTS=str(tmp_path / "checkpoints"),
        )

    rows.link(op(2, 4)).collectToDataframe()
    last = max((tmp_path / "checkpoints").iterdir())
    written = last.stat().st_mtime_ns
    predict = TFTableModelPredictBatchOp(outputSchemaStr="output FLOAT", selectedCols=["input"])
    found = predict.linkFrom(
        rows.link(op(1, 6)), rows.select("id, x AS `input`")
    ).collectToDataframe()
    assert last.stat().st_mtime_ns == written, "the training began anew"
    for ours, theirs in zip(weights_in(tmp_path / "checkpoints"), trained.get_weights()):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    expected = trained(values["x"]).numpy()[:, 0]
    np.testing.assert_allclose(found.sort_values("id").output, expected, atol=1e-5)


def op_of_two_workers(task: str, schema: str, config: dict[str, Any], model: str) -> Any:
    """Return an operator that does something with the model in a folder."""
    files = ("mlp_rows.py", "mlp.py")
    return callbacks_op(
        TensorFlow2BatchOp, *files, workers=2, schema=schema, task=task, config=config, MODEL=model
    )


@pytest.mark.long
def test_mlp_is_evaluated_and_predicts_with_two_workers_each(
    values: dict[Any, Any], trained: Any, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    both = {"batch_size": 16}
    model = save(trained, tmp_path / "model")
    evaluation = op_of_two_workers(
        "evaluate",
        "model STRING, metric STRING, `value` DOUBLE",
        {
            **both,
            "models": [{"name": "m", "path": "${MODEL}$"}],
            "test_data_args": FILE,
            "metrics": ["AUC"],
        },
        model,
    )
    prediction = op_of_two_workers(
        "predict",
        "id BIGINT, prediction FLOAT",
        {
            **both,
            "model": {"name": "m", "path": "${MODEL}$"},
            "predict_data_args": FILE,
            "keep": ["id"],
        },
        model,
    )
    rows = table(values, TYPES)
    metrics, found = frames(rows.link(evaluation), rows.link(prediction))
    expected = {}
    for number, threshold in enumerate((0, 2)):
        auc = tf.keras.metrics.AUC()
        auc.update_state(values["label"] > threshold, trained(values["x"]))
        expected[f"auc({number})"] = pytest.approx(float(auc.result()), abs=1e-6)
    assert dict(zip(metrics.metric, metrics["value"])) == expected
    found = found.sort_values("id")
    assert found.id.tolist() == list(range(ROWS))
    np.testing.assert_allclose(found.prediction, trained(values["x"]).numpy()[:, 0], atol=1e-6)


@pytest.mark.long
def test_two_optimizers_on_two_workers_equal_steps_by_hand(tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    y = (x[:, :1] + x[:, 1:2] ** 2 > 0.5).astype(np.float32)
    config = {
        "train_data_args": FILE,
        "batch_size": 40,  # so that a share fits into a step, whatever its size
        "epochs": 3,
        "seed": 7,
        "optimizer": WIDE_DEEP_OPTIMIZERS,
        "loss": "binary_crossentropy",
        "callbacks": [{"name": "checkpoint", "args": {"path": str(tmp_path / "checkpoints")}}],
    }
    rows = table({"x": x, "label": y[:, 0]}, {"x": "ARRAY<FLOAT>", "label": "FLOAT"})
    schema = "model_id BIGINT, model_info STRING"
    op = callbacks_op(TensorFlow2BatchOp, "wide_deep.py", workers=2, schema=schema, config=config)
    assert len(rows.link(op).collectToDataframe()) >= 2, "a model table"
    start, expected = wide_deep_by_hand(7, [(x, y)] * 3)
    for ours, theirs, before in zip(weights_in(tmp_path / "checkpoints"), expected, start):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        assert np.abs(ours - before).max() > 1e-3


@pytest.mark.long
def test_ranknet_trained_on_weighted_pairs_serves_its_ranker(tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=(200, 6)).astype(np.float32)
    score = x @ random.normal(size=6)
    grade = np.digitize(score, np.quantile(score, [0.25, 0.5, 0.75])) - 1
    one, two = np.array(
        [pair for pair in random.integers(200, size=(3000, 2)) if grade[pair[0]] != grade[pair[1]]]
    ).T
    ids = np.array([f"d{number}" for number in range(200)])
    values = {"label": (grade[one] > grade[two]).astype(np.float32)}
    types = {"label": "FLOAT"}
    for number, chosen in (("1", one), ("2", two)):
        values.update(
            {
                f"id_{number}": ids[chosen],
                f"x_{number}": x[chosen],
                f"grade_{number}": grade[chosen],
            }
        )
        types.update(
            {f"id_{number}": "STRING", f"x_{number}": "ARRAY<FLOAT>", f"grade_{number}": "INT"}
        )
    config = {
        "model_args": {"name": "ranknet", "input_size": 6},
        "train_data_args": FILE,
        "val_data_args": FILE,
        "batch_size": 50,
        "epochs": 4,
        "seed": 1,
        "optimizer": {"name": "Adam", "args": {"learning_rate": 0.003}},
        "loss": "BinaryCrossentropy",
        "metrics": ["AUC"],
        "callbacks": [
            # Without the metrics of both validation sets, these would fail.
            {"name": "early_stopping", "args": {"monitor": "val_auc(0)", "patience": 9}},
            {"name": "early_stopping", "args": {"monitor": "val_auc(1)", "patience": 9}},
            {"name": "checkpoint", "args": {"path": str(tmp_path / "checkpoints")}},
        ],
    }
    train = callbacks_op(
        TF2TableModelTrainBatchOp, "ranknet_rows.py", RANKNET, RANKNET_MODEL, config=config
    )
    documents = table(
        {"id": np.arange(200), "digits": x}, {"id": "BIGINT", "digits": "ARRAY<FLOAT>"}
    )
    predict = TFTableModelPredictBatchOp(
        outputSchemaStr="predictions FLOAT", selectedCols=["digits"]
    )
    found = (
        predict.linkFrom(table(values, types).link(train), documents)
        .collectToDataframe()
        .sort_values("id")
    )
    served = found.predictions.to_numpy()
    model = load_module(str(RANKNET)).awf_create_model_fn("ranknet", 6)
    model.set_weights(weights_in(tmp_path / "checkpoints"))
    np.testing.assert_allclose(served, model.ranker(x).numpy()[:, 0], rtol=1e-5, atol=1e-5)
    pairs = [(a, b) for a, b in itertools.combinations(range(200), 2) if grade[a] != grade[b]]
    assert np.mean([(served[a] > served[b]) == (grade[a] > grade[b]) for a, b in pairs]) > 0.9
