"""Keras trainings that are interrupted, resumed and stopped."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.storage.training_folders import STOP, STOPPED, CheckpointFolder, ask_to_stop
from akdl.user_code.module import load_module
from akdl.user_code.script_warnings import ScriptWarnings
from tests.akdl.engine.test_strategy import TYPES as POINTS
from tests.akdl.engine.test_strategy import tables
from tests.akdl.engine.test_train import EXPORT, INPUT, TYPES, served
from tests.akdl.keras.support import averaged_args
from tests.support.tf_group import ROOT, SCRIPTS, run_group

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TRAIN = {"batch_size": 20, "num_epochs": 4, "seed": 3, "shuffle_factor": 2}
X = np.random.default_rng(5).uniform(-1, 1, 200)
STEPS = 10  # of an epoch


class Killed(Exception):
    """Stands for the end of a process."""


def config(folder: Path, checkpoints: Any = None, **task: Any) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    address = None if checkpoints is None else str(checkpoints)
    return testing.train_task_config(
        {"x": X, "label": (X > 0).astype(int)}, TYPES, str(folder), checkpoint_dir=address, **task
    )


def compiled(rate: float = 0.5) -> Any:
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    x = tf.keras.Input([1], name="x")
    hidden = tf.keras.layers.Dense(4, activation="tanh")(x)
    model = tf.keras.Model({"x": x}, tf.keras.layers.Dense(1, name="logits")(hidden))
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
    model.compile(
        optimizer, tf.keras.losses.BinaryCrossentropy(from_logits=True), weighted_metrics=[]
    )
    return model


def train(task_config: Any, **changes: Any) -> Any:
    """Train a model anew and return it with its history."""
    from akdl.engine.train import train_keras_model

    model = compiled()
    history = train_keras_model(model, INPUT, {**TRAIN, **changes}, task_config, EXPORT)
    return model, history.history


def killed_after(
    task_config: Any, step: int, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> None:
    """Train until the step is done and what is due after it, then fail."""
    from akdl.training.training_watch import TrainingWatch

    with monkeypatch.context() as patch:

        def step_end(self: Any, done: int, metrics: Any) -> None:
            if done > step:
                raise Killed

        patch.setattr(TrainingWatch, "step_end", step_end)
        with pytest.raises(Killed):
            train(task_config, **changes)


def weights(model: Any) -> list[float]:
    return [float(value) for array in model.get_weights() for value in array.ravel()]


@pytest.mark.parametrize("seed", [None, 3])
def test_weights_become_their_averages_once_at_the_end(tmp_path: Path, seed: int | None) -> None:
    """Also in a second job, which finds all epochs in its checkpoint."""
    import tensorflow as tf

    from akdl.keras.keras_fit import Plan, fit

    def averaged() -> Any:
        model = compiled()
        model.compile(tf.keras.optimizers.SGD(**averaged_args()), "mse")
        return model

    x = X[:, np.newaxis]
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, x)).batch(50)
    expected = averaged()
    expected.fit(data, epochs=3, shuffle=False, verbose=0)
    for job in ("first", "second"):
        model = averaged()
        plan = Plan(lambda seed: data, None, 3, None, {"seed": seed})
        fit(model, plan, config(tmp_path / job, tmp_path / "checkpoints"))
        assert weights(model) == pytest.approx(weights(expected), rel=1e-5)


@pytest.fixture(scope="module")
def task_of_whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    return config(folder / "work", folder / "a {b} $HOME ~ %20 %s #1 &;=+ 中")


@pytest.fixture(scope="module")
def whole(task_of_whole: Any) -> Any:
    """A training that nobody interrupts."""
    with pytest.MonkeyPatch.context() as patch:
        # or there are more reports on a slower machine
        patch.setattr("akdl.training.training_watch.REPORT_S", 3600.0)
        return train(task_of_whole)


@pytest.mark.parametrize(
    ("killed", "every", "lost"),
    [
        pytest.param(13, None, 3, id="within an epoch"),
        pytest.param(17, 4, 1, id="after a step's checkpoint", marks=pytest.mark.long),
        pytest.param(20, 10, 0, id="at the end of an epoch", marks=pytest.mark.long),
        pytest.param(5, None, 5, id="before any checkpoint", marks=pytest.mark.long),
    ],
)
def test_resumed_training_has_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Any, killed: int, every: Any, lost: int
) -> None:
    checkpoints = tmp_path / "checkpoints"
    changes = {} if every is None else {"save_checkpoints_steps": every}
    killed_after(config(tmp_path / "work", checkpoints), killed, monkeypatch, **changes)
    again = config(tmp_path / "work", checkpoints, attempt=1)
    steps: list[int] = []
    monkeypatch.setattr("akdl.training.training_watch.REPORT_S", 0.0)
    monkeypatch.setattr(type(again), "report", lambda self, step, **metrics: steps.append(step))
    model, history = train(again, **changes)
    assert steps[0] == killed - lost + 1
    np.testing.assert_allclose(weights(model), weights(whole[0]), rtol=1e-7)
    assert history["loss"][-1] == pytest.approx(whole[1]["loss"][-1], rel=1e-5)
    assert len(history["loss"]) == 4


@pytest.mark.slow
def test_steps_per_epoch_go_on_in_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"steps_per_epoch": 7, "save_checkpoints_steps": 5, "shuffle_factor": 0}
    expected, _ = train(config(tmp_path / "whole"), **changes)
    checkpoints = tmp_path / "checkpoints"
    killed_after(config(tmp_path / "work", checkpoints), 18, monkeypatch, **changes)
    model, history = train(config(tmp_path / "work", checkpoints, attempt=1), **changes)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-7)
    assert len(history["loss"]) == 4 and int(model.optimizer.iterations.numpy()) == 28


def test_checkpoint_of_the_last_step_of_an_epoch_resumes_with_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the step's checkpoint and before the one of the epoch."""
    from akdl.keras import keras_fit

    changes = {"steps_per_epoch": 3, "save_checkpoints_steps": 3, "num_epochs": 3}
    expected, _ = train(config(tmp_path / "whole"), **changes)
    checkpoints = tmp_path / "checkpoints"

    def killed(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(keras_fit._EpochCallback, "on_epoch_end", killed)
        with pytest.raises(Killed):
            train(config(tmp_path / "work", checkpoints), **changes)
    model, _ = train(config(tmp_path / "work", checkpoints, attempt=1), **changes)
    np.testing.assert_allclose(weights(model), weights(expected), rtol=1e-7)
    assert int(model.optimizer.iterations.numpy()) == 9


@pytest.mark.parametrize(("workers", "first"), [(1, 120), (2, 60), (4, 20)])
def test_steps_per_epoch_of_a_worker_go_on_behind_the_rows_of_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, first: int
) -> None:
    """After 6 steps of 20 rows of all workers; a batch lasts for as many steps as there are."""
    changes = {"steps_per_epoch": 3, "shuffle_factor": 0}
    checkpoints = tmp_path / "checkpoints"
    train(config(tmp_path / "work", checkpoints), **{**changes, "num_epochs": 2})
    if workers > 1:
        monkeypatch.setattr("akdl.keras.keras_fit.sum_over_workers", lambda strategy: list)
    seen: list[float] = []

    def fit(self: Any, data: Any, **options: object) -> None:
        seen.extend(next(iter(data))[0]["x"].numpy().ravel())
        raise Killed

    monkeypatch.setattr("tensorflow.keras.Model.fit", fit)
    with pytest.raises(Killed):
        train(config(tmp_path / "work", checkpoints, num_workers=workers), **changes)
    np.testing.assert_allclose(seen, X[first : first + 20], rtol=1e-6)


@pytest.mark.long
def test_checkpoints_at_an_address_resume_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Any
) -> None:
    fsspec = pytest.importorskip("fsspec")
    address = "memory://keras-fit/checkpoints"
    killed_after(config(tmp_path / "work", address), 25, monkeypatch)
    model, _ = train(config(tmp_path / "work", address, attempt=1))
    np.testing.assert_allclose(weights(model), weights(whole[0]), rtol=1e-7)
    names = {path.rpartition("/")[2] for path in fsspec.filesystem("memory").find("/keras-fit")}
    assert names == {"checkpoint", "checkpoint-4.index", "checkpoint-4.data-00000-of-00001"}
    fsspec.filesystem("memory").store.clear()


def test_finished_training_is_exported_again_without_training(
    tmp_path: Path, whole: Any, task_of_whole: Any
) -> None:
    checkpoints = task_of_whole.checkpoint_dir
    task_config = config(tmp_path / "work", checkpoints)
    model, history = train(task_config)
    assert weights(model) == weights(whole[0]) and len(history["loss"]) == 4
    assert served(__import__("tensorflow"), task_config.saved_model_dir)
    more, _ = train(config(tmp_path / "work", checkpoints), num_epochs=5)
    assert weights(more) != weights(model)


def test_stop_request_ends_training_at_the_next_step_and_the_next_job_resumes(
    tmp_path: Path, whole: Any
) -> None:
    checkpoints = tmp_path / "checkpoints"
    ask_to_stop(str(checkpoints))
    stopped = config(tmp_path / "work", checkpoints)
    model, history = train(stopped)
    assert int(model.optimizer.iterations.numpy()) == 1 and len(history["loss"]) == 1
    assert served(__import__("tensorflow"), stopped.saved_model_dir), "the model so far"
    assert (checkpoints / STOPPED).exists() and not (checkpoints / STOP).exists()
    model, _ = train(config(tmp_path / "work", checkpoints, attempt=1))
    assert int(model.optimizer.iterations.numpy()) == 2, "a restart of the same job"
    model, history = train(config(tmp_path / "work", checkpoints))
    np.testing.assert_allclose(weights(model), weights(whole[0]), rtol=1e-7)
    assert len(history["loss"]) == 4


@pytest.mark.parametrize("rows", ["in epochs of 7 steps", "counted", "of unknown number"])
def test_a_stop_at_the_last_step_of_an_epoch_leaves_it_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    import tensorflow as tf

    from akdl.training.training_watch import TrainingWatch

    work, changes = tmp_path / "work", {"num_epochs": 2}
    if rows == "in epochs of 7 steps":
        changes["steps_per_epoch"] = 7
    elif rows == "of unknown number":
        raw = testing.encode_rows({"x": X, "label": (X > 0).astype(int)}, TYPES)
        changes["raw_dataset_fn"] = lambda: tf.data.Dataset.from_tensor_slices(raw).filter(
            lambda row: True
        )
    last = changes.get("steps_per_epoch", STEPS)
    with monkeypatch.context() as patch:

        def step_end(self: Any, done: int, metrics: Any) -> None:
            self.stop = done == last

        patch.setattr(TrainingWatch, "step_end", step_end)
        _, stopped = train(config(work, tmp_path / "checkpoints"), **changes)
    model, history = train(config(work, tmp_path / "checkpoints"), **changes)
    assert len(history["loss"]) == 2 and history["loss"][:1] == stopped["loss"]
    assert int(model.optimizer.iterations.numpy()) == 2 * last


def test_the_best_checkpoints_are_kept(tmp_path: Path) -> None:
    import tensorflow as tf

    checkpoints = tmp_path / "checkpoints"
    records = testing.encode_rows(
        {"x": X[:50], "label": (X[:50] < 0).astype(int)}, TYPES
    )  # the more it learns, the worse it does here
    valid = {"valid_raw_dataset_fn": lambda: tf.data.Dataset.from_tensor_slices(records)}
    _, history = train(config(tmp_path / "work", checkpoints), keep_best_checkpoints=2, **valid)
    losses = history["val_loss"]
    assert losses == sorted(losses)
    kept = json.loads((checkpoints / "best" / "metrics.json").read_text())
    assert kept == {
        f"checkpoint-{number + 1}": pytest.approx(losses[number]) for number in range(2)
    }
    best = tf.train.latest_checkpoint(str(checkpoints / "best"))
    model = compiled()
    tf.train.Checkpoint(model=model).restore(best).expect_partial()
    parsed = tf.io.parse_example(
        records,
        {
            "x": tf.io.FixedLenFeature([1], tf.float32),
            "label": tf.io.FixedLenFeature([1], tf.int64),
        },
    )
    assert model.evaluate({"x": parsed["x"]}, parsed["label"], verbose=0) == pytest.approx(
        losses[0], rel=1e-5
    )


@pytest.mark.parametrize("name", ["run[1]", "run*", "run?", "run\\1"])
def test_checkpoint_folder_that_tensorflow_reads_as_a_pattern_is_refused(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match=r"TensorFlow reads .* in the path of a file as a pattern"):
        train(config(tmp_path / "work", tmp_path / name))


def test_training_reports_its_first_step_and_each_epoch(whole: Any, task_of_whole: Any) -> None:
    _, history = whole
    latest = task_of_whole.reports.latest()
    assert latest.step == 4 * STEPS
    assert dict(latest.metrics) == {"loss": pytest.approx(history["loss"][-1])}
    assert latest.number == 1 + 4, "of the first step, and of each epoch"


@pytest.mark.parametrize("is_chief", [False, True])
def test_checkpoints_in_the_work_folder_are_not_said_to_be_files_of_the_script(
    tmp_path: Path, is_chief: bool
) -> None:
    from akdl.training.checkpoints import save

    warnings = ScriptWarnings(str(tmp_path))
    warnings.watch_files()
    folder = CheckpointFolder(f"memory://keras-fit/of-worker-{is_chief}", str(tmp_path))
    save(folder.path, None, is_chief, {}, model=compiled())
    assert (
        len(list(tmp_path.rglob("checkpoint-1.index"))) == is_chief and warnings.sentences() == []
    )


def test_settings_and_checkpoints_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from akdl.engine.train import train_keras_model

    checkpoints = tmp_path / "checkpoints"
    with pytest.raises(
        ValueError, match="keep_best_checkpoints needs a place for checkpoints: set checkpointDir"
    ):
        train(config(tmp_path / "work"), keep_best_checkpoints=1)
    with pytest.raises(ValueError, match="best_checkpoint_metric: expected one of loss, got 'auc'"):
        train(
            config(tmp_path / "work", checkpoints),
            keep_best_checkpoints=1,
            best_checkpoint_metric="auc",
        )
    import tensorflow as tf

    x = tf.keras.Input([1], name="x")
    other = tf.keras.Model({"x": x}, tf.keras.layers.Dense(1)(tf.keras.layers.Dense(9)(x)))
    other.compile("sgd", "mse")
    with pytest.raises(
        ValueError,
        match="checkpoint-1 belongs to another model or another optimizer: .* choose another checkpointDir",
    ):
        train_keras_model(other, INPUT, TRAIN, config(tmp_path / "work", checkpoints), EXPORT)


@pytest.mark.long
@pytest.mark.parametrize(("batch_size", "steps"), [(100, None), (10, 2)])
def test_workers_in_step_go_on_together_and_stop_at_one_step(
    tmp_path: Path, batch_size: int, steps: int | None
) -> None:
    checkpoints, shares = tmp_path / "checkpoints", tables(31, 12)

    def train_group(name: str, epochs: int, folder: Path | None) -> Any:
        params = {"batchSize": batch_size, "numEpochs": epochs, "seed": 1}
        if steps is not None:
            params["stepsPerEpoch"] = steps
        (row,) = run_group(
            tmp_path / name, "keras_allreduce.py", shares, POINTS, params, checkpoint_dir=folder
        )
        return json.loads(row["weights"])

    train_group("first", 2, checkpoints)
    assert saved_steps(checkpoints) == 2 * 2, "a batch of each share, in a part per worker"
    resumed = train_group("second", 4, checkpoints)
    assert saved_steps(checkpoints) == 4 * 2
    np.testing.assert_allclose(resumed, train_group("whole", 4, None), atol=1e-5)
    ask_to_stop(str(checkpoints))
    train_group("stopped", 100, checkpoints)
    assert (checkpoints / STOPPED).exists()
    assert 4 * 2 < saved_steps(checkpoints) < 100 * 2


REPORTS = """
import json
import tensorflow as tf
from akdl.training import training_watch
from akdl.engine.strategy import choose_strategy
from akdl.engine.train import train_keras_model
from keras_group import INPUT

training_watch.REPORT_S = 0.0


class OwnStep(tf.keras.Model):
    def train_step(self, data):
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
        self.optimizer.minimize(loss, self.trainable_variables, tape)
        self.compiled_metrics.update_state(y, self(x))
        part = tf.constant(1.0) / tf.distribute.get_strategy().num_replicas_in_sync  # which Keras adds up
        return {**{metric.name: metric.result() for metric in self.metrics}, "part": part}


def main(task_config):
    with choose_strategy(task_config).scope():
        inputs = {name: tf.keras.Input([1], name=name) for name in ("x0", "x1")}
        joined = tf.keras.layers.Concatenate()([inputs["x0"], inputs["x1"]])
        kind = OwnStep if task_config.user_params["own"] else tf.keras.Model
        model = kind(inputs, tf.keras.layers.Dense(1, "sigmoid", name="above")(joined))
        model.compile(tf.keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["binary_accuracy"])
    reports = []
    task_config.report = lambda step, **metrics: reports.append((step, metrics))
    train_keras_model(model, INPUT, {"batch_size": 20, "num_epochs": 2}, task_config, {"saved_model_dir": "export"})
    if task_config.task_type == "chief":
        task_config.output_writer.write_batch({"reports": [json.dumps(reports)]})
"""


@pytest.mark.parametrize(
    "own",
    [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)],
    ids=["the step of Keras", "a train_step of the model"],
)
def test_reports_of_a_group_are_those_of_one_worker_inside_an_epoch_too(
    tmp_path: Path, own: bool
) -> None:
    (tmp_path / "reports.py").write_text(REPORTS)
    (tmp_path / "keras_group.py").write_text((SCRIPTS / "keras_group.py").read_text())
    (row,) = run_group(tmp_path, tmp_path / "reports.py", tables(50, 50), POINTS, {"own": own})
    by_step: dict[int, list[dict[str, float]]] = {}
    for step, metrics in json.loads(row["reports"]):
        by_step.setdefault(step, []).append(metrics)
    last, at_end = by_step[max(by_step)]
    assert last == pytest.approx(at_end), "the last step of an epoch has the values of the epoch"
    assert max(each["binary_accuracy"] for found in by_step.values() for each in found) <= 1.0
    assert not own or last["part"] == 1.0


def saved_steps(checkpoints: Path) -> int:
    """Return the steps in the last checkpoint, as the optimizer has counted them."""
    import tensorflow as tf

    name = "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"
    return int(tf.train.load_variable(tf.train.latest_checkpoint(str(checkpoints)), name))


@pytest.mark.long
def test_other_numbers_of_workers_make_the_steps_of_one_process(tmp_path: Path) -> None:
    """2 workers, 3 from step 6 on and 2 from step 18 on; see docs/parity.md."""
    parity = load_module(str(ROOT / "scripts" / "parity_train_keras.py"))
    assert parity.rescaled(sys.executable, tmp_path) <= 1e-6


@pytest.mark.long
def test_parameter_servers_go_on_with_other_numbers_of_processes(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"

    def train_group(name: str, epochs: int, shares: Any, num_servers: int) -> Any:
        params, more = (
            {"numEpochs": epochs},
            {"num_servers": num_servers, "chief_coordinates": True},
        )
        (row,) = run_group(
            tmp_path / name,
            "keras_ps.py",
            shares,
            POINTS,
            params,
            checkpoint_dir=checkpoints,
            **more,
        )
        return row

    first = train_group("first", 1, tables(75, 45), 1)
    second = train_group("second", 3, tables(40, 40, 40), 2)
    third = train_group("third", 5, tables(120), 1)
    assert saved_steps(checkpoints) == 5 * 6
    assert third["loss"] < second["loss"] < first["loss"]
