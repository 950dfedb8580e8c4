"""Estimators that are interrupted, resumed and stopped."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.storage.training_folders import STOPPED, ask_to_stop
from tests.akdl.engine.test_strategy import TYPES as POINTS
from tests.akdl.engine.test_strategy import tables
from tests.akdl.engine.test_train import EXPORT, INPUT, TRAIN, TYPES, logits
from tests.support.tf_group import run_group

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

X = np.random.default_rng(5).uniform(-1, 1, 200)


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


def config(folder: Path, checkpoints: Any = None, **task: Any) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    address = None if checkpoints is None else str(checkpoints)
    return testing.train_task_config(
        {"x": X, "label": X > 0}, TYPES, str(folder), checkpoint_dir=address, **task
    )


def train(tf: Any, task_config: Any, **changes: Any) -> Any:
    from akdl.engine.train import train_estimator

    estimator = seeded(tf, task_config)
    train_estimator(estimator, INPUT, {**TRAIN, **changes}, EXPORT, task_config)
    return estimator


def seeded(tf: Any, task_config: Any) -> Any:
    """A linear classifier that gets its rows in an order of its own seed."""
    from akdl.engine.run_config import generate_run_config

    run_config = generate_run_config(**TRAIN).replace(tf_random_seed=1)
    column = tf.feature_column.numeric_column("x", shape=[1])
    return tf.estimator.LinearClassifier(
        [column], f"{task_config.work_dir}/model_dir", optimizer="SGD", config=run_config
    )


def weights(estimator: Any) -> list[float]:
    return [
        float(estimator.get_variable_value(name).ravel()[0])
        for name in sorted(estimator.get_variable_names())
    ]


def killed_at(tf: Any, step: int) -> Any:
    class Kill(tf.estimator.SessionRunHook):  # type: ignore[misc]
        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_context.session.run(tf.compat.v1.train.get_global_step()) >= step:
                raise KeyboardInterrupt

    return Kill()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("checkpoints", marks=pytest.mark.long),
        "memory://estimator-watch/checkpoints",
    ],
)
def test_resumed_training_has_the_weights_of_an_uninterrupted_one(
    tf: Any, tmp_path: Path, address: str
) -> None:
    checkpoints = address if "://" in address else tmp_path / address
    with pytest.raises(KeyboardInterrupt):
        train(tf, config(tmp_path / "work", checkpoints), hooks=[killed_at(tf, 47)])
    again = config(tmp_path / "work", checkpoints, attempt=1)
    resumed = train(tf, again)
    expected = train(tf, config(tmp_path / "whole"))
    assert resumed.get_variable_value("global_step") == 100
    np.testing.assert_allclose(weights(resumed), weights(expected), rtol=1e-6)
    assert len(logits(tf, again.saved_model_dir, [0.5])) == 1
    latest = again.reports.latest()
    assert latest.step == 100 and latest.metrics["loss"] > 0


def test_stop_request_ends_training_at_the_next_step_and_the_next_job_resumes(
    tf: Any, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "checkpoints"
    ask_to_stop(str(checkpoints))
    task_config = config(tmp_path / "work", checkpoints)
    assert train(tf, task_config).get_variable_value("global_step") == 1
    assert len(logits(tf, task_config.saved_model_dir, [0.5])) == 1, "the model so far"
    assert (checkpoints / STOPPED).exists()
    assert (
        train(tf, config(tmp_path / "work", checkpoints)).get_variable_value("global_step") == 100
    )


@pytest.mark.long
def test_the_best_checkpoints_are_kept(tf: Any, tmp_path: Path) -> None:
    # the more it learns, the worse it does here
    records = testing.encode_rows({"x": X[:50], "label": X[:50] < 0}, TYPES)
    valid = {"valid_raw_dataset_fn": lambda: tf.data.Dataset.from_tensor_slices(records)}
    estimator = train(tf, config(tmp_path / "work"), keep_best_checkpoints=2, **valid)
    best = Path(estimator.model_dir, "best")
    kept = json.loads((best / "metrics.json").read_text())
    assert list(kept) == ["model.ckpt-20", "model.ckpt-40"] and sorted(kept.values()) == list(
        kept.values()
    )
    found = estimator.evaluate(
        valid_fn(tf, records), checkpoint_path=tf.train.latest_checkpoint(str(best))
    )
    assert found["loss"] == pytest.approx(kept["model.ckpt-20"])


def valid_fn(tf: Any, records: Any) -> Any:
    from akdl.engine.inputs import get_dataset_fn, parse_feature_specs

    specs = parse_feature_specs(INPUT["example_config"])  # type: ignore[arg-type]
    raw = lambda: tf.data.Dataset.from_tensor_slices(records)  # noqa: E731
    return get_dataset_fn(
        feature_specs=specs,
        raw_dataset_fn=raw,
        label_col="label",
        batch_size=20,
        num_epochs=1,
        shuffle_factor=0,
    )


def test_best_checkpoints_need_rows_to_evaluate_on(tf: Any, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="keep_best_checkpoints needs valid_raw_dataset_fn, to evaluate on"
    ):
        train(tf, config(tmp_path / "work"), keep_best_checkpoints=1)


REPORTS = """
import json
import tensorflow as tf
from akdl.engine.run_config import generate_run_config
from akdl.engine.train import train_estimator

INPUTS = [{"name": name, "dtype": "float", "shape": [1]} for name in ("x0", "x1")]


def main(task_config):
    columns = [tf.feature_column.numeric_column(each["name"], shape=[1]) for each in INPUTS]
    run_config = generate_run_config(save_checkpoints_steps=1000)
    if task_config.user_params["tensorflow"] == 1:
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.0)
        mean = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE
        estimator = tf.compat.v1.estimator.LinearClassifier(
            columns, "model", optimizer=optimizer, config=run_config, loss_reduction=mean
        )
    else:
        optimizer = tf.keras.optimizers.legacy.SGD(0.0)
        estimator = tf.estimator.LinearClassifier(columns, "model", optimizer=optimizer, config=run_config)
    losses = []
    task_config.report = lambda step, loss=None, **known: losses.append(loss)
    columns = [*INPUTS, {"name": "label", "dtype": "int", "shape": [1]}]
    model = {"placeholders_config": INPUTS, "export_batch_dim": True, "saved_model_dir": "export"}
    train = {"batch_size": 10, "num_epochs": 1, "max_steps": 100}
    train_estimator(estimator, {"example_config": columns, "label_col": "label"}, train, model, task_config)
    if task_config.task_type == "chief":
        task_config.output_writer.write_batch({"losses": [json.dumps([float(loss) for loss in losses if loss is not None])]})
"""


@pytest.mark.long
@pytest.mark.parametrize("tensorflow", [1, 2])
def test_reported_loss_of_a_group_is_that_of_one_worker(tmp_path: Path, tensorflow: int) -> None:
    (tmp_path / "reports.py").write_text(REPORTS)
    (row,) = run_group(
        tmp_path, tmp_path / "reports.py", tables(20, 20), POINTS, {"tensorflow": tensorflow}
    )
    losses = json.loads(row["losses"])
    assert losses and losses == pytest.approx([math.log(2)] * len(losses)), "the weights stay 0"
