"""Hooks of a training with four functions, in sessions of their own."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.user_code.module import UserModuleError

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


def run(steps: int, make_hook: Any) -> None:
    """Count the global step in a session with the hook `make_hook(step)`."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
        with tf.train.MonitoredSession(hooks=[make_hook(step)]) as session:
            for _ in range(steps):
                session.run(train)


@pytest.mark.parametrize(("steps", "shown"), [(5, ["step 1", "step 2", "step 4"]), (1, ["step 1"])])
def test_progress_lines_have_step_loss_and_rate(steps: int, shown: list[str]) -> None:
    lines: list[str] = []
    run(steps, lambda step: progress(lines))
    assert [line.split("  ")[0] for line in lines] == shown
    assert all(line.split("  ")[1] == "loss 0.5" for line in lines)
    assert "steps/s" not in lines[0] and all("steps/s" in line for line in lines[1:])


def progress(lines: list[str]) -> Any:
    import tensorflow.compat.v1 as tf

    from akdl.engine.estimator_watch import StepHook
    from akdl.training.training_watch import TrainingWatch

    tf.add_to_collection(tf.GraphKeys.LOSSES, tf.constant(0.5))
    return StepHook(TrainingWatch(None, None), lines=lines.append, every_steps=2)


def test_a_process_without_steps_says_so() -> None:
    lines: list[str] = []
    run(0, lambda step: progress(lines))
    assert lines == [
        "this process made no step: its train_input_fn gives no batch, or other workers made all steps"
    ]


@pytest.mark.parametrize(
    ("exported", "is_trained", "message"),
    [
        ({"w": [2]}, True, None),
        ({"w": None}, True, None),
        ({}, False, "the train_op of model_fn in user.py does not increment the global step"),
        (
            {"v": [2]},
            True,
            "makes variables in mode PREDICT that it does not make in mode TRAIN: v. The export",
        ),
        (
            {"w": [3]},
            True,
            r"makes the variable w with shape \[3\] in mode PREDICT and with \[2\] in mode TRAIN",
        ),
    ],
)
def test_graphs_that_would_fail_later(
    exported: dict[str, Any], is_trained: bool, message: str | None
) -> None:
    import tensorflow.compat.v1 as tf

    from akdl.estimator.dry_run import GraphChecks

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        tf.get_variable("w", [2])
        if is_trained:
            tf.assign_add(step, 1)
        hook = GraphChecks("user.py", exported)
        if message is None:
            hook.begin()
            return
        with pytest.raises(UserModuleError, match=message):
            hook.begin()
