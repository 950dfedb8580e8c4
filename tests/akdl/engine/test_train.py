from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.rows.file_rows import FileRows
from akdl.runner.context import TFContext
from akdl.storage.model_forms import find_saved_model
from tests.akdl.engine.linear import INPUT, TRAIN, TYPES, classifier
from tests.support.random_rows import chunk_of, ended

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
EXPORT: dict[str, Any] = {
    "placeholders_config": [{"name": "x", "dtype": "float", "shape": [1]}],
    "export_batch_dim": True,
}


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


@pytest.fixture
def task_config(tmp_path: Path) -> Any:
    x = np.linspace(-1, 1, 200)
    return testing.train_task_config({"x": x, "label": x > 0}, TYPES, str(tmp_path))


def arriving(task_config: Any, folder: Path) -> Any:
    """Return a config with the same rows, as they come through Flink."""
    (folder / "arriving").mkdir()
    x = np.linspace(-1, 1, 200)
    parts = [slice(first, first + 30) for first in range(0, 200, 30)]
    chunks = [chunk_of({"x": x[part], "label": x[part] > 0}, TYPES) for part in parts]
    columns = task_config.tf_context.columns
    context = TFContext(FileRows(str(folder / "arriving"), ended(chunks), columns), columns)
    config = copy.copy(task_config)
    config.tf_context, config.saved_model_dir = context, str(folder / "arriving" / "model")
    return config


def served(tf: Any, folder: str, key: str = "serving_default") -> Any:
    return tf.saved_model.load(find_saved_model(folder)).signatures[key]


def logits(tf: Any, folder: str, values: list[float], key: str = "serving_default") -> list[float]:
    result = served(tf, folder, key)(x=tf.constant(values, tf.float32, [len(values), 1]))
    # Keras 3 counts outputs
    return result["logits" if "logits" in result else "output_0"].numpy()[:, 0].tolist()


@pytest.mark.long
def test_train_estimator_trains_evaluates_on_validation_rows_and_exports(
    tf: Any, task_config: Any
) -> None:
    from akdl.engine.train import train_estimator

    records = testing.encode_rows({"x": [-0.5, 0.5, 0.6, 0.7], "label": [0, 1, 1, 0]}, TYPES)
    train = dict(TRAIN, valid_raw_dataset_fn=lambda: tf.data.Dataset.from_tensor_slices(records))
    found = train_estimator(classifier(tf, task_config), INPUT, train, EXPORT, task_config)
    assert found is not None
    assert found["accuracy"] == 0.75
    assert found["global_step"] == 100
    assert tf.executing_eagerly()
    for key in ("serving_default", "predict"):
        low, high = logits(tf, task_config.saved_model_dir, [-0.5, 0.5], key)
        assert low < -0.3 < 0.3 < high


def test_train_estimator_trains_on_the_rows_of_raw_dataset_fn(tf: Any, task_config: Any) -> None:
    from akdl.engine.train import train_estimator

    estimator = classifier(tf, task_config)
    records = testing.encode_rows({"x": [0.5], "label": [1]}, TYPES)
    train = dict(
        TRAIN, raw_dataset_fn=lambda: tf.data.Dataset.from_tensor_slices(records), num_epochs=2
    )
    found = train_estimator(estimator, INPUT, train, EXPORT, task_config)
    assert estimator.get_variable_value("global_step") == 1  # two rows, one batch
    assert found is None, "there are no rows to evaluate on"


@pytest.mark.parametrize("name", ["train_estimator", "train_estimator_one_worker"])
def test_train_estimator_ends_at_max_steps_and_names_an_unknown_key(
    tf: Any, task_config: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    from akdl.engine import train

    estimator = classifier(tf, task_config)
    ends: list[int] = []

    class Hook(tf.estimator.SessionRunHook):  # type: ignore[misc]
        def end(self, session: Any) -> None:
            ends.append(1)

    caplog.set_level(logging.WARNING, "akdl")
    getattr(train, name)(
        estimator,
        INPUT,
        dict(TRAIN, num_epochs=None, max_steps=7, hooks=[Hook()], batchsize=1),
        EXPORT,
        task_config,
    )
    assert "train_config: unknown keys are ignored: batchsize" in caplog.text
    assert estimator.get_variable_value("global_step") == 7
    assert ends == [1]


def test_train_estimator_of_a_worker_does_not_export(tf: Any, task_config: Any) -> None:
    from akdl.engine.train import train_estimator

    task_config.num_workers, task_config.task_type = 2, "worker"
    train_estimator(
        classifier(tf, task_config), INPUT, dict(TRAIN, num_epochs=1), EXPORT, task_config
    )
    assert not Path(task_config.saved_model_dir).exists()


@pytest.mark.parametrize(
    ("train", "export", "match"),
    [
        ({"num_epochs": 1}, EXPORT, "train_config needs the key 'batch_size', got num_epochs"),
        (TRAIN, {}, "export_config needs the key 'placeholders_config', got no keys"),
    ],
)
def test_train_estimator_refuses_a_wrong_config_before_training(
    tf: Any, task_config: Any, train: Any, export: Any, match: str
) -> None:
    from akdl.engine.train import train_estimator

    estimator = classifier(tf, task_config)
    with pytest.raises(ValueError, match=match):
        train_estimator(estimator, INPUT, train, export, task_config)
    assert not Path(estimator.model_dir, "checkpoint").exists()


def test_train_estimator_refuses_a_tensorflow_without_estimators(
    tf: Any, task_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akdl.engine.train import train_estimator

    monkeypatch.setattr(tf, "__version__", "2.16.1")
    with pytest.raises(
        RuntimeError,
        match="train_estimator needs tf.estimator, .*2.16.1 of .* does not have: 2.15 is the last",
    ):
        train_estimator(None, INPUT, TRAIN, EXPORT, task_config)


def train_one_worker(
    tf: Any, task_config: Any, export: dict[str, Any], valid_label: Any, **train: Any
) -> Any:
    """Train with validation rows x = -0.9..0.9 that have this label; return metrics, estimator."""
    from akdl.engine.train import train_estimator_one_worker

    x = np.linspace(-0.9, 0.9, 50)
    records = testing.encode_rows({"x": x, "label": valid_label(x)}, TYPES)
    config = dict(
        TRAIN, valid_raw_dataset_fn=lambda: tf.data.Dataset.from_tensor_slices(records), **train
    )
    estimator = classifier(tf, task_config)
    return train_estimator_one_worker(
        estimator, INPUT, config, dict(EXPORT, **export), task_config
    ), estimator


@pytest.mark.long
def test_one_worker_trains_and_exports_the_latest_model(tf: Any, task_config: Any) -> None:
    metrics, _estimator = train_one_worker(tf, task_config, {}, lambda x: x > 0)
    assert metrics["global_step"] == 100
    assert metrics["accuracy"] > 0.9
    low, high = logits(tf, task_config.saved_model_dir, [-0.5, 0.5])
    assert low < -0.3 < 0.3 < high


@pytest.mark.slow
def test_one_worker_stops_early_and_exports_the_best_model(tf: Any, task_config: Any) -> None:
    # The better the model learns, the worse it does on these rows: the first evaluation is the best
    # one.
    from akdl.engine.early_stopping import read_eval_metrics

    metrics, estimator = train_one_worker(
        tf,
        task_config,
        {"exporter_type": "best"},
        lambda x: x < 0,
        early_stopping_patience_steps=40,
    )
    evaluations = read_eval_metrics(estimator.eval_dir())
    assert 60 <= metrics["global_step"] <= 80
    losses = [evaluation["loss"] for evaluation in evaluations.values()]
    assert losses == sorted(losses)
    assert next(iter(evaluations)) == 20
    first = abs(logits(tf, task_config.saved_model_dir, [0.5])[0])
    weight, bias = (
        estimator.get_variable_value(name)
        for name in estimator.get_variable_names()
        if "linear_model" in name
    )
    last = abs(np.sum(weight) * 0.5 + np.sum(bias))
    assert first < last


def test_one_worker_exports_without_validation_rows(tf: Any, task_config: Any) -> None:
    from akdl.engine.train import train_estimator_one_worker

    assert (
        train_estimator_one_worker(
            classifier(tf, task_config), INPUT, dict(TRAIN, num_epochs=1), EXPORT, task_config
        )
        is None
    )
    assert len(logits(tf, task_config.saved_model_dir, [0.5])) == 1


@pytest.mark.parametrize(
    ("train", "export", "match"),
    [
        (
            {"early_stopping_patience_steps": 5},
            {},
            "early_stopping_patience_steps needs rows to evaluate on",
        ),
        ({}, {"exporter_type": "best"}, "exporter_type 'best' needs rows to evaluate on"),
        ({}, {"exporter_type": "first"}, "exporter_type 'first', expected 'latest' or 'best'"),
    ],
)
def test_one_worker_refuses_a_wrong_config(
    tf: Any, task_config: Any, train: Any, export: Any, match: str
) -> None:
    from akdl.engine.train import train_estimator_one_worker

    estimator = classifier(tf, task_config)
    with pytest.raises(ValueError, match=match):
        train_estimator_one_worker(
            estimator, INPUT, dict(TRAIN, **train), dict(EXPORT, **export), task_config
        )


def keras_model(tf: Any) -> Any:
    x = tf.keras.Input([1], name="x")
    model = tf.keras.Model({"x": x}, tf.keras.layers.Dense(1, name="logits")(x))
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(
        tf.keras.optimizers.SGD(0.5), loss, metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)]
    )
    return model


@pytest.mark.long
def test_train_keras_model_columns_train_as_parsed_rows_do(
    tf: Any, task_config: Any, tmp_path: Path
) -> None:
    from akdl.engine.train import train_keras_model

    config = dict(TRAIN, shuffle_factor=0, num_epochs=2)
    models = []
    for rows in (task_config, arriving(task_config, tmp_path)):
        tf.keras.utils.set_random_seed(1)
        models.append(keras_model(tf))
        train_keras_model(models[-1], INPUT, config, rows)
        config = dict(config, prefetch_buffer_size=2)
    (one, other) = (
        np.concatenate([weight.ravel() for weight in model.get_weights()]) for model in models
    )
    assert one.tolist() == pytest.approx(other.tolist(), rel=1e-5)


def test_train_keras_model_trains_evaluates_on_validation_rows_and_exports(
    tf: Any, task_config: Any
) -> None:
    from akdl.engine.train import train_keras_model

    records = testing.encode_rows({"x": [-0.5, 0.5, 0.6, 0.7], "label": [0, 1, 1, 0]}, TYPES)
    train = dict(TRAIN, valid_raw_dataset_fn=lambda: tf.data.Dataset.from_tensor_slices(records))
    history = train_keras_model(keras_model(tf), INPUT, train, task_config)
    assert history.history["val_binary_accuracy"][-1] == 0.75
    assert len(history.history["loss"]) == 10
    low, high = logits(tf, task_config.saved_model_dir, [-0.5, 0.5])
    assert low < -0.3 < 0.3 < high


def test_train_keras_model_of_a_worker_leaves_no_files(tf: Any, task_config: Any) -> None:
    from akdl.engine.train import train_keras_model

    task_config.num_workers, task_config.task_type = 2, "worker"
    train_keras_model(keras_model(tf), INPUT, dict(TRAIN, num_epochs=1), task_config)
    assert [path.name for path in Path(task_config.work_dir).iterdir()] == ["dataset.columns"]


def test_train_keras_model_rows_of_weight_0_do_not_count(tf: Any, tmp_path: Path) -> None:
    from akdl.engine.train import train_keras_model

    x = np.linspace(-1, 1, 200)
    rows = {
        "x": np.tile(x, 2),
        "label": np.concatenate([x > 0, x < 0]),
        "weight": np.repeat([1.0, 0.0], 200),
    }
    task_config = testing.train_task_config(rows, {**TYPES, "weight": "FLOAT"}, str(tmp_path))
    weight = {"name": "weight", "dtype": "float", "shape": [1]}
    inputs = {**INPUT, "example_config": [*INPUT["example_config"], weight], "weight_col": "weight"}  # type: ignore[misc]
    config = dict(TRAIN, shuffle_factor=20)
    history = train_keras_model(keras_model(tf), inputs, config, task_config)
    assert "val_loss" not in history.history
    low, high = logits(tf, task_config.saved_model_dir, [-0.5, 0.5])
    assert low < -0.3 < 0.3 < high


def test_train_keras_model_makes_the_steps_per_epoch_asked_for(tf: Any, task_config: Any) -> None:
    from akdl.engine.train import train_keras_model

    model = keras_model(tf)
    train_keras_model(model, INPUT, dict(TRAIN, num_epochs=2, steps_per_epoch=13), task_config)
    assert int(model.optimizer.iterations.numpy()) == 26  # more than the rows are good for


def test_train_keras_model_exports_to_a_given_folder_or_asks_for_one(
    tf: Any, tmp_path: Path
) -> None:
    from akdl.engine.train import train_keras_model

    task_config = testing.batch_task_config({"x": [1], "label": [1]}, TYPES, str(tmp_path))
    with pytest.raises(
        ValueError, match="a BatchTaskConfig has no saved_model_dir: set one in export_config"
    ):
        train_keras_model(keras_model(tf), INPUT, TRAIN, task_config)
    train_keras_model(
        keras_model(tf),
        INPUT,
        dict(TRAIN, num_epochs=1),
        task_config,
        {"saved_model_dir": str(tmp_path / "export")},
    )
    assert len(logits(tf, str(tmp_path / "export"), [0.5])) == 1


# What `train_keras_model` feeds under parameter servers; `test_strategy.py` runs a group.
CLUSTER = {
    "chief": ["localhost:1"],
    "worker": ["localhost:2", "localhost:3"],
    "ps": ["localhost:4"],
}


def chief_task_config(tmp_path: Path, *sizes: int) -> Any:
    shares = []
    for number, size in enumerate(sizes):
        (tmp_path / str(number)).mkdir()
        share = testing.train_task_config(
            {"x": [number] * size, "label": [0] * size}, TYPES, str(tmp_path / str(number))
        )
        shares += share.tf_context.shares()
    return testing.train_task_config(
        [], TYPES, str(tmp_path), shares=shares, cluster=CLUSTER, num_workers=3
    )


def test_input_by_workers_each_worker_reads_its_own_share(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akdl.engine import train

    creator, steps = train._input_by_workers(INPUT, TRAIN, chief_task_config(tmp_path, 41, 20))
    assert steps == 4
    for worker in range(2):
        number = tf.constant(worker, tf.int64)
        monkeypatch.setattr(train, "_worker_number", lambda context, number=number: number)
        batches = list(creator(tf.distribute.InputContext()).take(5).as_numpy_iterator())
        assert {len(label) for _, label in batches} == {20}
        assert {value for features, _ in batches for value in features["x"].ravel()} == {worker}


def test_input_by_workers_uses_given_steps_and_the_datasets_of_the_script(
    tf: Any, tmp_path: Path
) -> None:
    from akdl.engine import train

    records = testing.encode_rows({"x": [5], "label": [1]}, TYPES)
    config = dict(
        TRAIN, raw_dataset_fn=lambda: tf.data.Dataset.from_tensor_slices(records), steps_per_epoch=3
    )
    creator, steps = train._input_by_workers(INPUT, config, chief_task_config(tmp_path))
    assert steps == 3
    ((features, _),) = creator(tf.distribute.InputContext()).take(1)
    assert features["x"].numpy().tolist() == [[5.0]] * 20


@pytest.mark.parametrize(
    ("sizes", "options", "match"),
    [
        ((3, 0), {}, "worker 1 got no rows to train on"),
        (
            (3, 3),
            {"valid_raw_dataset_fn": len},
            "valid_raw_dataset_fn cannot be used with parameter servers",
        ),
        (
            (3, 3),
            {"raw_dataset_fn": len},
            "with parameter servers, raw_dataset_fn needs the key 'steps_per_epoch'",
        ),
    ],
)
def test_input_by_workers_refuses_empty_shares_and_wrong_options(
    tf: Any, tmp_path: Path, sizes: Any, options: Any, match: str
) -> None:
    from akdl.engine import train

    with pytest.raises(ValueError, match=match):
        train._input_by_workers(INPUT, {**TRAIN, **options}, chief_task_config(tmp_path, *sizes))
