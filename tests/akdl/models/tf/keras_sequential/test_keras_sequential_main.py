"""Training of a model of layers as text, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from akdl import testing
from akdl.runner.extra_inputs import ExtraInput
from akdl.storage.model_forms import find_saved_model
from akdl.storage.training_folders import files_at

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PARAMS: dict[str, Any] = {
    "tensorCol": "t", "labelCol": "label", "layers": ["Dense(8, activation='relu')"], "optimizer": "Adam()", "learningRate": 0.05,
    "numEpochs": 4, "batchSize": 32, "validationSplit": 0.0, "saveBestOnly": False, "bestMetric": "loss",
    "saveCheckpointsEpochs": 1.0, "saveCheckpointsSecs": None, "removeCheckpointBeforeTraining": True,
    "seed": 3, "labels": True,
}  # fmt: skip
VALUES = np.random.default_rng(5).uniform(-1, 1, [400, 4])


def train(
    folder: Path,
    labels: Any,
    label_type: str,
    /,
    checkpoint_dir: str | None = None,
    **changes: Any,
) -> Any:
    """Train, and return the signature of the exported model."""
    import tensorflow as tf

    from akdl.models.tf.keras_sequential.keras_sequential_main import main

    folder.mkdir()
    types, params = {"t": "ARRAY<DOUBLE>", "label": label_type}, {**PARAMS, **changes}
    config = testing.train_task_config(
        {"t": VALUES[: len(labels)].tolist(), "label": labels},
        types,
        str(folder),
        params,
        exact_doubles=params["labels"],
        checkpoint_dir=checkpoint_dir,
    )
    if params["labels"]:
        (folder / "labels").mkdir()
        known = testing.batch_task_config(
            {"label": sorted(set(labels))},
            {"label": label_type},
            str(folder / "labels"),
            exact_doubles=True,
        )
        config.extra_inputs = [
            ExtraInput(known.dataset_file, testing.table_columns({"label": label_type}), True)
        ]
    main(config)
    return tf.saved_model.load(find_saved_model(config.saved_model_dir)).signatures[
        "serving_default"
    ]


def predict(signature: Any, rows: Any = VALUES) -> dict[str, Any]:
    import tensorflow as tf

    return {
        name: value.numpy()
        for name, value in signature(tensor=tf.constant(rows, tf.float32)).items()
    }


@pytest.mark.parametrize(
    ("names", "label_type"),
    [
        pytest.param(["no", 'ye"s'], "STRING", marks=pytest.mark.long),
        pytest.param([3, 7], "INT", marks=pytest.mark.long),
        ([False, True], "BOOLEAN"),
        ([0.1, 100000001.0, 100000002.0], "DOUBLE"),
        (["a", "b", "c"], "STRING"),
    ],
)
def test_predicted_labels_have_the_type_of_the_label_column(
    tmp_path: Path, names: list[Any], label_type: str
) -> None:
    index = np.digitize(VALUES.sum(axis=1), [0.0] if len(names) == 2 else [-0.5, 0.5])
    labels = [names[each] for each in index]
    found = predict(train(tmp_path / "w", labels, label_type))
    predicted = [
        each.decode() if isinstance(each, bytes) else each for each in found["prediction"].tolist()
    ]
    assert np.mean([one == other for one, other in zip(predicted, labels)]) > 0.8
    for label, detail in zip(predicted[:20], found["detail"][:20]):
        probabilities = json.loads(detail)
        assert list(probabilities) == [
            each if isinstance(each, str) else json.dumps(each) for each in names
        ]
        best = label if isinstance(label, str) else json.dumps(label)
        assert max(probabilities, key=probabilities.get) == best
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.long
def test_regression_is_repeatable_with_a_seed(tmp_path: Path) -> None:
    labels = VALUES.sum(axis=1).tolist()
    first, again = (
        predict(train(tmp_path / name, labels, "DOUBLE", labels=False)) for name in "ab"
    )
    assert (
        list(first) == ["prediction"]
        and first["prediction"].tolist() == again["prediction"].tolist()
    )
    assert np.corrcoef(first["prediction"], labels)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("attempt", "removes", "stays"), [(0, True, False), (1, True, True), (0, False, True)]
)
def test_checkpoints_of_other_jobs_are_removed_and_own_ones_stay(
    attempt: int, removes: bool, stays: bool, tmp_path: Path
) -> None:
    from akdl.models.tf.keras_sequential.keras_sequential_main import _clear_checkpoints

    kept = tmp_path / "kept" / "checkpoint"
    config = testing.train_task_config(
        {"t": [1]},
        {"t": "INT"},
        str(tmp_path),
        attempt=attempt,
        checkpoint_dir=str(kept.parent),
    )
    kept.parent.mkdir()
    kept.touch()
    _clear_checkpoints(config, {"removeCheckpointBeforeTraining": removes}, None)
    assert kept.exists() == stays


def test_checkpoints_at_an_address_are_removed(tmp_path: Path) -> None:
    from akdl.models.tf.keras_sequential.keras_sequential_main import _clear_checkpoints

    address = "memory://akdl-keras-sequential"
    for name in ("checkpoint", "best/checkpoint", "notes.txt"):
        fsspec.filesystem("memory").pipe_file(f"/akdl-keras-sequential/{name}", b"x")
    config = testing.train_task_config(
        {"t": [1]}, {"t": "INT"}, str(tmp_path), checkpoint_dir=address
    )
    _clear_checkpoints(config, {"removeCheckpointBeforeTraining": True}, None)
    assert list(files_at(address)) == ["notes.txt"]


def test_best_epoch_of_an_earlier_training_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rate makes the training worse, and the second job has one epoch more, or none."""
    changes = {
        "labels": False,
        "validationSplit": 0.25,
        "saveBestOnly": True,
        "layers": [],
        "optimizer": "SGD(1.0, 0.99)",
        "checkpoint_dir": str(tmp_path / "kept"),
        "removeCheckpointBeforeTraining": False,
    }
    models = [
        train(tmp_path / f"job {number}", VALUES.sum(axis=1), "DOUBLE", numEpochs=count, **changes)
        for number, count in enumerate([2, 3, 3])
    ]
    losses = [float(text.split()[0]) for text in capsys.readouterr().out.split("val_loss: ")[1:]]
    assert len(losses) == 3 and losses[0] < min(losses[1:])
    first, *others = (predict(model)["prediction"].tolist() for model in models)
    assert others == [first, first]


def test_one_of_a_few_rows_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"labels": False, "validationSplit": 0.1, "saveBestOnly": True, "numEpochs": 1}
    train(tmp_path / "two", [0.0, 1.0], "DOUBLE", **changes)
    assert "val_loss: " in capsys.readouterr().out
    with pytest.raises(ValueError, match="saveBestOnly needs two rows, .*; got one"):
        train(tmp_path / "one", [0.0], "DOUBLE", **changes)


@pytest.mark.slow
def test_the_best_epoch_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a rate that makes training worse, the first epochs are better than the last."""
    labels = ["b" if each > 0 else "a" for each in VALUES.sum(axis=1)]
    changes = {
        "validationSplit": 0.25,
        "bestMetric": "auc",
        "numEpochs": 6,
        "layers": [],
        "optimizer": "SGD(100.0, 0.9)",
    }
    found = {}
    for best in (True, False):
        found[best] = predict(
            train(tmp_path / str(best), labels, "STRING", saveBestOnly=best, **changes),
            VALUES[:100],
        )
    aucs = [float(text.split()[0]) for text in capsys.readouterr().out.split("val_auc: ")[1:]]
    assert len(aucs) == 12 and aucs[:6] == aucs[6:], "the seed makes both alike"
    scores = {
        best: np.array([json.loads(each)["b"] for each in one["detail"]])
        for best, one in found.items()
    }
    same = max(aucs[:6]) == aucs[5]
    assert (scores[True].tolist() == scores[False].tolist()) == same
    with pytest.raises(
        ValueError, match="bestMetric: expected one of auc, binary_accuracy, .*, got 'nothing'"
    ):
        train(
            tmp_path / "wrong",
            labels,
            "STRING",
            saveBestOnly=True,
            **{**changes, "bestMetric": "nothing"},
        )


@pytest.mark.long
def test_training_goes_on_from_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = VALUES.sum(axis=1).tolist()
    changes = {"labels": False, "checkpoint_dir": str(tmp_path / "kept")}
    train(tmp_path / "first", labels, "DOUBLE", numEpochs=2, **changes)
    train(
        tmp_path / "more",
        labels,
        "DOUBLE",
        numEpochs=3,
        removeCheckpointBeforeTraining=False,
        **changes,
    )
    train(tmp_path / "anew", labels, "DOUBLE", numEpochs=3, **changes)
    epochs = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Epoch ")]
    assert epochs == [f"Epoch {each}" for each in ("1/2", "2/2", "3/3", "1/3", "2/3", "3/3")]


def test_classifier_refuses_a_single_label(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match="labelCol 'label': expected two labels or more for a classifier, got \\['a'\\]",
    ):
        train(tmp_path / "one", ["a"] * 400, "STRING")


def test_classifier_refuses_nan_as_a_label(tmp_path: Path) -> None:
    nan = float("nan")
    with pytest.raises(ValueError, match="labelCol 'label': expected a label in each row, got NaN"):
        train(tmp_path / "nan", [0.0, 1.0, nan, 2.0] * 100, "DOUBLE")


def test_row_of_an_unknown_label_is_an_error() -> None:
    import tensorflow as tf

    from akdl.models.tf.keras_sequential.keras_sequential_main import _target

    rows = tf.data.Dataset.from_tensors(["b", "a", "c"]).map(
        lambda label: _target(label, ["a", "b"])
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row has a label that"):
        next(iter(rows))


@pytest.mark.parametrize(
    ("layers", "length", "told"),
    [
        (
            ["Conv1D(4, 2)"],
            12,
            r"layers: 'Conv1D\(4, 2\)' .* of shape \(None, 12\): put a layer such as 'Reshape\(\(4, 3\)\)' before",
        ),
        (
            ["Dense(7)", "LSTM(4)"],
            3,
            r"'LSTM\(4\)' .* of shape \(None, 7\): put a layer such as 'Reshape\(\(7, 1\)\)' before it",
        ),
        (
            ["Reshape((4, 3))", "Conv2D(4, 2)"],
            12,
            r"'Conv2D\(4, 2\)' does not take its input, of shape \(None, 4, 3\)$",
        ),
    ],
)
def test_a_layer_that_takes_no_vector_says_which_layer_makes_a_matrix(
    layers: list[str], length: int, told: str
) -> None:
    from akdl.models.tf.keras_sequential.keras_sequential_main import build_model

    with pytest.raises(ValueError, match=told):
        build_model(layers, [length], None)
    advised = ["Reshape((4, 3))", "Conv1D(4, 2)", "Flatten()"]
    assert build_model(advised, [12], None).output_shape == (None, 1)
