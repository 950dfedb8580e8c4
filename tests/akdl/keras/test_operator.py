"""The runner as main script of an operator, on rows of a table, without Flink."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.keras import operator
from akdl.storage.model_archive import unpack
from akdl.storage.training_folders import ask_to_stop
from akdl.user_code.config_file import ConfigError
from tests.akdl.keras.support import SCRIPTS, load, script
from tests.support.tf_group import run_group

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TYPES = {"x0": "FLOAT", "x1": "FLOAT", "label": "BIGINT"}
X = np.random.default_rng(3).uniform(-1, 1, [60, 2])
TABLE = {"x0": X[:, 0], "x1": X[:, 1], "label": (X[:, 0] > X[:, 1]).astype(int)}
FILE = {"file": "${DATASET_FILE}$"}
TRAIN = {
    "train_data_args": FILE,
    "batch_size": 10,
    "epochs": 5,
    "seed": 1,
    "optimizer": {"name": "sgd", "args": {"learning_rate": 1.0}},
    "loss": "binary_crossentropy",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The task of a training that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    task_config = testing.train_task_config(TABLE, TYPES, str(folder), {"config": TRAIN})
    operator.main(task_config, script("rows"))
    return task_config


@pytest.fixture(scope="module")
def trained(whole: Any) -> str:
    """A saved model, which tests only read."""
    return str(whole.saved_model_dir)


def test_a_train_operator_gets_the_saved_model(trained: str) -> None:
    model = load(trained)
    assert np.mean((model(X.astype(np.float32)).numpy()[:, 0] > 0.5) == TABLE["label"]) > 0.9


def test_a_batch_operator_gets_the_model_as_rows(tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "rows.py", tmp_path)
    (tmp_path / "train.json").write_text(json.dumps(TRAIN))
    output = {"model_id": "BIGINT", "model_info": "STRING"}
    task_config = testing.batch_task_config(
        TABLE, TYPES, str(tmp_path), {"config": "train.json"}, output
    )
    operator.main(task_config, "rows.py")
    rows = [(row["model_id"], row["model_info"]) for row in task_config.output_writer.rows]
    path = unpack(
        [(number, text.decode() if isinstance(text, bytes) else text) for number, text in rows],
        str(tmp_path / "m"),
    )
    assert load(path)(X[:3].astype(np.float32)).shape == (3, 1)


def test_evaluation_gives_a_row_per_metric(tmp_path: Path, trained: str) -> None:
    config = {
        "models": [{"name": "m", "path": "${MODEL_PATH}$"}],
        "test_data_args": FILE,
        "batch_size": 7,
        "metrics": ["AUC", "BinaryAccuracy"],
    }
    params = {"task": "evaluate", "config": json.dumps(config), "MODEL_PATH": trained}
    output = {"model": "STRING", "metric": "STRING", "value": "DOUBLE"}
    task_config = testing.batch_task_config(TABLE, TYPES, str(tmp_path), params, output)
    operator.main(task_config, script("rows"))
    rows = task_config.output_writer.rows
    assert [(row["model"], row["metric"]) for row in rows] == [
        ("m", "auc(all)"),
        ("m", "binary_accuracy(all)"),
    ]
    assert rows[0]["value"] > 0.95


def test_prediction_gives_a_row_per_row(tmp_path: Path, trained: str) -> None:
    config = {
        "model": {"name": "m", "path": trained},
        "predict_data_args": FILE,
        "batch_size": 7,
        "keep": ["x0"],
    }
    output = {"x0": "FLOAT", "prediction": "FLOAT"}
    params = {"task": "predict", "config": config}
    task_config = testing.batch_task_config(TABLE, TYPES, str(tmp_path), params, output)
    operator.main(task_config, script("rows"))
    rows = task_config.output_writer.rows
    assert [row["x0"] for row in rows] == pytest.approx(TABLE["x0"].tolist(), abs=1e-6)
    assert (
        np.mean([(row["prediction"] > 0.5) == label for row, label in zip(rows, TABLE["label"])])
        > 0.9
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "config: missing; set it in userParams"),
        (
            {"config": TRAIN, "task": "fit"},
            "task: expected one of train, evaluate, predict, got 'fit'",
        ),
        ({"config": '{"a": 1,}'}, "config: line 1, column"),
        ({"config": {**TRAIN, "batch_size": 0}}, "batch_size: expected 1 or more, got 0"),
    ],
)
def test_operator_refuses_wrong_parameters(
    tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        operator.main(
            testing.train_task_config(TABLE, TYPES, str(tmp_path), params), script("rows")
        )


@pytest.mark.long
def test_a_group_gets_the_weights_of_one_process(tmp_path: Path) -> None:
    """Shares of different size, one of them empty; a step takes all rows, in float32:
    within 1e-5.
    """
    config = {**TRAIN, "batch_size": 180, "seed": 2}
    shares = [
        {name: values[part] for name, values in TABLE.items()}
        for part in (slice(0, 41), slice(41, 60), slice(60, 60))
    ]
    rows = run_group(
        tmp_path / "group", SCRIPTS / "rows_main.py", shares, TYPES, {"config": config}
    )
    group = load(
        unpack([(row["model_id"], row["model_info"]) for row in rows], str(tmp_path / "m"))
    )
    alone = testing.train_task_config(TABLE, TYPES, str(tmp_path), {"config": config})
    operator.main(alone, script("rows"))
    x = X.astype(np.float32)
    np.testing.assert_allclose(group(x), load(alone.saved_model_dir)(x), atol=1e-5)


def test_operator_stops_and_resumes_from_its_checkpoint_dir(tmp_path: Path, whole: Any) -> None:
    """Without a word in the config; a stop keeps the last step, and the next job goes on to the
    same weights.
    """
    address = "memory://keras-operator/checkpoints"

    def run(name: str, **task: Any) -> Any:
        (tmp_path / name).mkdir()
        args = {"keep": 1, "path": str(tmp_path / "replaced")}
        config = (
            {**TRAIN, "callbacks": [{"name": "checkpoint", "args": args}]}
            if name == "second"
            else TRAIN
        )
        task_config = testing.train_task_config(
            TABLE, TYPES, str(tmp_path / name), {"config": config}, **task
        )
        operator.main(task_config, script("rows"))
        return task_config

    ask_to_stop(address)
    stopped = run("first", checkpoint_dir=address)
    x = X.astype(np.float32)
    assert load(stopped.saved_model_dir)(x).shape == (60, 1), "the model so far"
    finished = run("second", checkpoint_dir=address)
    latest = finished.reports.latest()
    assert latest.step == 30 and 0 < latest.metrics["loss"] < 0.7
    assert whole.reports.latest().step == 30
    np.testing.assert_allclose(
        load(finished.saved_model_dir)(x), load(whole.saved_model_dir)(x), atol=1e-6
    )
    # what TensorFlow's side may do without
    system = pytest.importorskip("fsspec").filesystem("memory")
    names = {path.rpartition("/")[2] for path in system.find("/keras-operator")}
    system.store.clear()
    assert names == {"checkpoint", "checkpoint-6.index", "checkpoint-6.data-00000-of-00001"}, (
        "of the stop, and of each epoch"
    )
