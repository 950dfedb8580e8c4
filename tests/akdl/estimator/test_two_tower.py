"""The click example: flags, input, exporters, alone and in a group."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.user_code.module import load_module
from tests.akdl.estimator.support import EXAMPLES, run_group, signature

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]
EXAMPLE = EXAMPLES / "estimator_two_tower"


def example(name: str) -> Any:
    return load_module(str(EXAMPLE / f"{name}.py"))


def flags_from(values: dict[str, Any]) -> Any:
    return example("click_flags").flags_from(values)


def test_flags_have_their_defaults() -> None:
    found = flags_from({}).flag_values_dict()
    sides = {"hidden_units": "512,256,128", "dropout": 0.7, "batch_norm": True}
    expected = {
        f"{side}_{name}": value for side in ("user", "item") for name, value in sides.items()
    }
    expected.update(
        model_name="testModelName", model_dir=None, keywords_file=None, keywords_weights_file=None
    )
    expected.update(learning_rate=0.01, train_num_epochs=None, train_shuffle_buffer_size=10000)
    expected.update(
        max_train_steps=1000, max_eval_steps=None, start_delay_secs=120, throttle_secs=600
    )
    for what, batch_size in (("train", 100), ("eval", 100), ("predict", 2)):
        expected.update({f"{what}_files": None, f"{what}_batch_size": batch_size})
        expected.update({f"{what}_reader_num_threads": 1, f"{what}_parser_num_threads": 1})
    assert found == expected


def test_flags_accept_texts_and_values_and_refuse_unknown_ones() -> None:
    import tensorflow as tf

    found = flags_from(
        {"user_dropout": "0.2", "item_batch_norm": False, "max_train_steps": 7, "model_dir": None}
    )
    assert (found.user_dropout, found.item_batch_norm, found.max_train_steps, found.model_dir) == (
        0.2,
        False,
        7,
        None,
    )
    with pytest.raises(ValueError, match="unknown flag steps; the flags are eval_batch_size"):
        flags_from({"steps": 7})
    with pytest.raises(tf.compat.v1.flags.IllegalFlagValueError, match="max_train_steps.*7.5"):
        flags_from({"max_train_steps": 7.5})
    file_list = example("click_flags").file_list
    assert file_list("f", " a,b ") == ["a", "b"]
    with pytest.raises(
        ValueError, match="the flag eval_files should list files separated by commas, got None"
    ):
        file_list("eval_files", None)


def test_flags_of_a_command_are_listed_by_help_and_wrong_ones_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--help` lists all flags and ends with 0; what is wrong ends with 2."""
    flags_of_command = example("click_flags").flags_of_command
    assert (
        flags_of_command(
            "Trains.", ["--train_batch_size=5", "--nouser_batch_norm"]
        ).train_batch_size
        == 5
    )
    for arguments, code in (
        (["--help"], 0),
        (["--model_dir=a", "--helpfull"], 0),
        (["--max_train_steps=x"], 2),
        (["a"], 2),
    ):
        with pytest.raises(SystemExit) as left:
            flags_of_command("Trains.", arguments)
        assert left.value.code == code
    out, err = capsys.readouterr()
    assert all(f"  --{name}: " in out for name in flags_from({}).flag_values_dict())
    assert "max_train_steps" in err and "expected flags only, got a" in err


def input_batches(folder: Path, **arguments: Any) -> list[Any]:
    import tensorflow as tf

    if not (folder / "eval.tfrecord").exists():
        example("click_data").write(str(folder), train=40, test=23)
    spec = {
        "label": tf.io.FixedLenFeature([1], tf.int64),
        "user_age": tf.io.FixedLenFeature([1], tf.float32),
    }
    arguments = {
        "files": [str(folder / "eval.tfrecord")],
        "batch_size": 10,
        "features": spec,
        "num_epochs": 1,
        **arguments,
    }
    return list(example("click_input").input_fn(**arguments).as_numpy_iterator())


def test_input_keeps_the_order_of_rows_and_repeats_epochs(tmp_path: Path) -> None:
    whole = example("click_data").make(23, seed=2)
    batches = input_batches(tmp_path)
    assert [len(label) for _, label in batches] == [10, 10, 3]
    np.testing.assert_array_equal(
        np.concatenate([label for _, label in batches])[:, 0], whole["label"]
    )
    np.testing.assert_array_equal(
        np.concatenate([rows["user_age"] for rows, _ in batches])[:, 0], whole["user_age"]
    )
    assert len(input_batches(tmp_path, drop_final_batch=True)) == 2
    assert sum(len(label) for _, label in input_batches(tmp_path, num_epochs=2)) == 46


def test_input_shuffles_rows_of_several_files(tmp_path: Path) -> None:
    def ages(**arguments: Any) -> Any:
        pattern = str(tmp_path / "train-*.tfrecord")
        return np.concatenate(
            [
                rows["user_age"][:, 0]
                for rows, _ in input_batches(tmp_path, files=[pattern], **arguments)
            ]
        )

    in_order = ages()
    shuffled = ages(shuffle_buffer_size=40, reader_num_threads=2, parser_num_threads=2)
    assert sorted(shuffled) == sorted(in_order) and list(shuffled) != list(in_order)


def test_input_without_a_label_has_features_alone(tmp_path: Path) -> None:
    assert set(input_batches(tmp_path, label_key=None)[0]) == {"label", "user_age"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the folder, the flags and the last evaluation of a training with four evaluations."""
    folder = tmp_path_factory.mktemp("clicks")
    example("click_data").write(str(folder))
    two_tower = example("two_tower")
    flags = flags_from(example("run").settings(folder))
    return folder, flags, two_tower.run(flags)


def exports(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir() if path.name.isdigit())


def evaluated(folder: Path) -> dict[int, float]:
    """Return the area under the curve by step, as the evaluations on disk say."""
    from akdl.engine.early_stopping import read_eval_metrics

    return {
        step: values["auc"]
        for step, values in read_eval_metrics(str(folder / "out" / "eval_eval")).items()
    }


def auc_of_export(folder: str) -> float:
    """Return the area under the curve of an export on the rows of evaluation."""
    import tensorflow as tf

    clicks = example("click_data").make(1000, seed=2)
    path = Path(folder).parents[3] / "eval.tfrecord"
    rows = tf.constant(list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()))
    scores = signature(folder, "predict")(examples=rows)["logistic"].numpy()
    metric = tf.keras.metrics.AUC()
    metric.update_state(clicks["label"], scores[:, 0])
    return float(metric.result())


@pytest.mark.long
def test_training_reaches_its_quality_and_exports_best_last_and_latest_models(trained: Any) -> None:
    folder, _flags, metrics = trained
    assert (
        metrics["global_step"] == 400 and metrics["auc"] > 0.85 and metrics["average_loss"] < 0.56
    )
    export = folder / "out" / "export"
    by_step = evaluated(folder)
    assert list(by_step) == [100, 200, 300, 400]
    (best,), (final,) = exports(export / "testModelName1"), exports(export / "testModelName2")
    latest = exports(export / "testModelName3")
    assert len(latest) == 3, "of four evaluations"
    assert auc_of_export(best) == pytest.approx(max(by_step.values()), abs=1e-4)
    for last in (final, latest[-1]):
        assert auc_of_export(last) == pytest.approx(by_step[400], abs=1e-4)
    assert auc_of_export(latest[0]) == pytest.approx(by_step[200], abs=1e-4)


@pytest.mark.long
def test_the_export_predicts_like_the_estimator(trained: Any) -> None:
    import tensorflow as tf

    folder, flags, _ = trained
    two_tower = example("two_tower")
    estimator, feature_spec = two_tower.make_estimator(flags)
    assert "label" not in feature_spec, "a request does not bring one"
    batches = list(two_tower.predict(estimator, flags, feature_spec))
    assert [len(batch["logistic"]) for batch in batches] == [2] * 50 + [1], "no row is dropped"
    rows = tf.constant(list(tf.data.TFRecordDataset(flags.predict_files).as_numpy_iterator()))
    (final,) = exports(folder / "out" / "export" / "testModelName2")
    served = signature(final, "predict")(examples=rows)
    for key, values in served.items():
        np.testing.assert_allclose(
            np.concatenate([batch[key] for batch in batches]), values, rtol=1e-5, atol=1e-6
        )


@pytest.mark.long
def test_a_worse_model_is_not_the_best_one(trained: Any, tmp_path: Path) -> None:
    """A second run goes on from the first with labels turned round: it exports, but the best model
    stays that of the first.
    """
    import tensorflow as tf

    from akdl.estimator.group import train_and_evaluate

    before_it, _, metrics = trained
    folder = shutil.copytree(before_it, tmp_path / "clicks")
    flags = flags_from({**example("run").settings(folder), "max_train_steps": 600})
    two_tower = example("two_tower")
    estimator, feature_spec = two_tower.make_estimator(flags)
    before = exports(folder / "out" / "export" / "testModelName1")
    spec = two_tower.train_spec(flags, feature_spec)
    turned = tf.estimator.TrainSpec(
        lambda: spec.input_fn().map(lambda features, label: (features, 1 - label)),
        max_steps=spec.max_steps,
    )
    worse = train_and_evaluate(estimator, turned, two_tower.eval_spec(flags, feature_spec))
    assert worse["global_step"] == 600 and worse["auc"] < 0.5 < metrics["auc"]
    assert exports(folder / "out" / "export" / "testModelName1") == before
    assert auc_of_export(
        exports(folder / "out" / "export" / "testModelName3")[-1]
    ) == pytest.approx(worse["auc"], abs=1e-4)


def tower_model(**changes: Any) -> Any:
    import tensorflow as tf

    column = tf.feature_column.numeric_column
    arguments = {"user_hidden_units": [5, 3], "item_hidden_units": [4, 3], **changes}
    return example("towers").TwoTowerModel([column("u", [2])], [column("i")], **arguments)


@pytest.mark.parametrize(
    ("dropout", "batch_norm"), [(0.0, False), (0.5, False), (0.0, True), (0.5, True)]
)
def test_towers_give_cosines_and_use_dropout_in_training_only(
    dropout: float, batch_norm: bool
) -> None:
    """Logits are cosines, each of its own row alone; dropout is at work in training only."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(3)
    model = tower_model(
        user_dropout=dropout,
        item_dropout=dropout,
        user_batch_norm=batch_norm,
        item_batch_norm=batch_norm,
    )
    random = np.random.default_rng(0)
    rows = {
        name: random.normal(size=[6, size]).astype(np.float32)
        for name, size in (("u", 2), ("i", 1))
    }
    logits = model(rows).numpy()
    assert logits.shape == (6, 1) and np.abs(logits).max() <= 1 + 1e-6
    single = np.concatenate(
        [model({name: one[n : n + 1] for name, one in rows.items()}) for n in range(6)]
    )
    np.testing.assert_allclose(single, logits, atol=1e-5)
    np.testing.assert_array_equal(model(rows).numpy(), logits)
    if dropout:
        assert np.abs(model(rows, training=True) - model(rows, training=True)).max() > 1e-3
    assert len(model.trainable_variables) == 8 + (8 if batch_norm else 0)
    twin = type(model).from_config(model.get_config())
    assert twin(rows).shape == (6, 1) and len(twin.trainable_variables) == len(
        model.trainable_variables
    )


def test_towers_of_different_sizes_are_refused() -> None:
    for units in ([], [5, 4]):
        with pytest.raises(
            ValueError,
            match=r"the last layers of both need the same size; got user_hidden_units .* and item_hidden_units \[4, 3\]",
        ):
            tower_model(user_hidden_units=units)


@pytest.mark.long
def test_a_group_trains_by_the_same_command(tmp_path: Path) -> None:
    example("click_data").write(str(tmp_path))
    settings = {**example("run").settings(tmp_path), "max_train_steps": 500}
    command = [
        str(EXAMPLE / "two_tower.py"),
        *(f"--{name}={value}" for name, value in settings.items()),
    ]
    logs = run_group(tmp_path, command, [("chief", 0), ("worker", 0), ("ps", 0)])
    found = re.search(r"evaluation at step (\d+): auc (\S+), loss", logs["chief-0"])
    assert found is not None, logs["chief-0"][-3000:]
    assert int(found.group(1)) >= 500 and float(found.group(2)) > 0.85
    assert "predicted: [" in logs["chief-0"] and "evaluation at step" not in logs["worker-0"]
    for number in (1, 2, 3):
        (exported,) = exports(tmp_path / "out" / "export" / f"testModelName{number}")
        assert os.path.isdir(exported)
