"""Training with four functions, in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.estimator.parameters import with_defaults
from akdl.user_code.config_file import ConfigError
from akdl.user_code.module import UserModuleError
from tests.akdl.estimator.support import QUIET, linear_module, signature

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


def train(module: Any, folder: Path, **params: Any) -> tuple[Any, list[str]]:
    from akdl.estimator.estimator_training import train as run

    lines: list[str] = []
    return run(module, "data", {**QUIET, **params}, str(folder), report=lines.append), lines


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name[11:-6]) for path in folder.glob("model.ckpt-*.index"))


def test_train_evaluate_export_and_go_on(tmp_path: Path) -> None:
    """The loss falls below a bound, a second run goes on at the step of the first, and the export
    predicts like `predict`.
    """
    import tensorflow as tf

    module = linear_module()
    first, lines = train(
        module, tmp_path, train_max_steps=30, batches=None, log_step_count_steps=10
    )
    assert first.global_step == first.metrics["global_step"] == 30
    steps = [line.split("  ")[0] for line in lines if line.startswith("step")]
    assert steps == ["step 1", "step 10", "step 20", "step 30"]
    assert (
        lines[-2].startswith("evaluation at step 30  loss ")
        and lines[-1] == f"exported to {first.exported}"
    )
    params = with_defaults(
        {**QUIET, "train_max_steps": 30, "batches": None, "log_step_count_steps": 10}
    )
    assert module.calls == [("data", params)] * 3, (
        "to try, to train and to evaluate, with all parameters"
    )

    second, lines = train(
        linear_module(), tmp_path, train_max_steps=100, batches=None, log_step_count_steps=10
    )
    assert lines[0].startswith("step 31  "), "not from the start"
    assert second.global_step == 100
    assert second.metrics["loss"] < min(1e-3, first.metrics["loss"])

    third, lines = train(linear_module(), tmp_path, train_max_steps=100)
    assert [line.split(" ")[0] for line in lines] == ["evaluation", "exported"], (
        "nothing left to train"
    )
    assert third.metrics == pytest.approx(second.metrics, rel=1e-4)

    x = np.float32([-3, 0, 0.5])
    estimator = tf.estimator.Estimator(module.model_fn, str(tmp_path), params={})
    predicted = estimator.predict(lambda: tf.data.Dataset.from_tensor_slices({"x": x}).batch(3))
    served = signature(third.exported)(x=tf.constant(x))["y"].numpy()
    np.testing.assert_array_equal(served, [one["y"] for one in predicted])
    np.testing.assert_allclose(served, 2 * x + 1, atol=0.2)


def test_training_lasts_until_the_dataset_ends_or_the_steps_of_a_tuple(tmp_path: Path) -> None:
    import tensorflow.compat.v1 as tf

    result, _ = train(linear_module(), tmp_path / "dataset", train_max_steps=None, batches=7)
    assert result.global_step == 7

    def tuple_fn(path: str, params: dict[str, Any]) -> Any:
        x = tf.constant([0.0, 1.0])
        return {"x": x}, 2 * x + 1

    module = linear_module(train_input_fn=tuple_fn, eval_input_fn=tuple_fn)
    result, _ = train(module, tmp_path / "tuple", train_max_steps=5, eval_steps=1)
    assert result.global_step == 5


# At every checkpoint where no time has to pass between two, and otherwise at the end alone.
@pytest.mark.parametrize(
    ("params", "steps"),
    [
        pytest.param(
            {"eval_start_delay_secs": 0, "eval_throttle_secs": 0},
            [4, 8, 10],
            marks=pytest.mark.long,
        ),
        ({"eval_start_delay_secs": 0, "eval_throttle_secs": 600}, [4, 10]),
        pytest.param(
            {"eval_start_delay_secs": 120, "eval_throttle_secs": 0}, [10], marks=pytest.mark.long
        ),
    ],
)
def test_evaluations_follow_delay_and_throttle(
    tmp_path: Path, params: dict[str, Any], steps: list[int]
) -> None:
    _result, lines = train(
        linear_module(),
        tmp_path,
        train_max_steps=10,
        save_checkpoints_steps=4,
        keep_checkpoint_max=2,
        **params,
    )
    assert [line.split("  ")[0] for line in lines[:-1]] == [
        f"evaluation at step {step}" for step in steps
    ]
    assert checkpoints(tmp_path) == [8, 10]


@pytest.mark.parametrize("keep", [pytest.param(0, marks=pytest.mark.long), None])
def test_all_checkpoints_are_kept(tmp_path: Path, keep: int | None) -> None:
    train(
        linear_module(),
        tmp_path,
        train_max_steps=7,
        save_checkpoints_steps=1,
        keep_checkpoint_max=keep,
    )
    assert checkpoints(tmp_path) == list(range(8))


def test_training_without_saving_keeps_only_the_exported_checkpoint(tmp_path: Path) -> None:
    params = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}
    result, lines = train(
        linear_module(),
        tmp_path,
        train_max_steps=7,
        eval_start_delay_secs=0,
        eval_throttle_secs=0,
        **params,
    )
    assert checkpoints(tmp_path) == [7]
    assert [line.split(" ")[0] for line in lines] == ["evaluation", "exported"]
    assert os.path.isdir(result.exported)


def test_export_without_a_default_head_is_refused_before_training(tmp_path: Path) -> None:
    """Here of several heads without the default one."""
    import tensorflow.compat.v1 as tf

    whole = linear_module()

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = whole.model_fn(features, labels, mode, params)
        if mode != tf.estimator.ModeKeys.PREDICT:
            return spec
        heads = {key: tf.estimator.export.PredictOutput(spec.predictions) for key in ("one", "two")}
        return tf.estimator.EstimatorSpec(mode, predictions=spec.predictions, export_outputs=heads)

    with pytest.raises(
        UserModuleError,
        match="in mode infer: .*Multiple .*export_outputs.* none of them (is|are) specified as the default",
    ):
        train(linear_module(model_fn=model_fn), tmp_path)
    assert checkpoints(tmp_path) == []


def test_wrong_parameters_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="eval_steps: expected"):
        train(linear_module(), tmp_path, eval_steps=0)


def test_a_head_left_out_of_the_export_is_reported(tmp_path: Path) -> None:
    import tensorflow.compat.v1 as tf

    whole = linear_module()

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = whole.model_fn(features, labels, mode, params)
        if mode != tf.estimator.ModeKeys.PREDICT:
            return spec
        export, y = tf.estimator.export, spec.predictions["y"]
        heads = {
            "serving_default": export.PredictOutput({"y": y}),
            "number": export.RegressionOutput(y),
        }
        return spec._replace(export_outputs=heads)

    result, lines = train(linear_module(model_fn=model_fn), tmp_path, train_max_steps=1)
    assert (
        lines[0] == "the export leaves out the head 'number': its type is float32 instead of string"
    )
    assert os.path.isdir(result.exported)


def test_model_whose_export_fails_is_kept_and_exported_by_the_next_run(tmp_path: Path) -> None:
    from akdl.user_code.module import TrainingFailed

    whole = linear_module()

    def eval_input_fn(path: str, params: dict[str, Any]) -> Any:
        """Put a file where the export goes to, as soon as the model is trained."""
        if checkpoints(tmp_path):
            (tmp_path / "export").rmdir()
            (tmp_path / "export").touch()
        return whole.eval_input_fn(path, params)

    with pytest.raises(
        TrainingFailed,
        match=r"the model is trained, but .*Its checkpoint is .*model\.ckpt-5: fix the cause",
    ):
        train(linear_module(eval_input_fn=eval_input_fn), tmp_path, train_max_steps=5)
    (tmp_path / "export").unlink()
    result, lines = train(linear_module(), tmp_path, train_max_steps=5)
    assert [line.split(" ")[0] for line in lines] == [
        "evaluation",
        "exported",
    ] and result.global_step == 5
