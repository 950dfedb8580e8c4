"""Several optimizers, several outputs, and loss and metrics on several devices."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.akdl.keras.support import (
    ENVIRONMENT,
    WIDE_DEEP_OPTIMIZERS,
    script,
    user_module,
    wide_deep_by_hand,
)
from tests.support.deadline import DEADLINE_S

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
Y = (X[:, :1] + X[:, 1:2] ** 2 > 0.5).astype(np.float32)


def wide_deep() -> Any:
    """The user's module with a wide and deep model, on rows in memory."""
    import tensorflow as tf

    module = script("wide_deep")
    module.awf_create_train_dataset_fn = lambda batch_size: tf.data.Dataset.from_tensor_slices(
        (X, Y)
    ).batch(batch_size)
    return module


CONFIG = {
    "batch_size": 10,
    "seed": 7,
    "optimizer": WIDE_DEEP_OPTIMIZERS,
    "loss": "binary_crossentropy",
}


def train(config: dict[str, Any], module: Any) -> Any:
    from akdl.keras.keras_training import train

    return train(config, module)


def test_two_optimizers_equal_a_step_by_hand() -> None:
    result = train(CONFIG, wide_deep())
    start, expected = wide_deep_by_hand(7, [(X[:10], Y[:10]), (X[10:], Y[10:])])
    for ours, theirs, before in zip(result.model.get_weights(), expected, start):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert np.abs(ours - before).max() > 1e-3


def test_two_optimizers_each_move_their_own_variables() -> None:
    still = {"name": "SGD", "args": {"learning_rate": 0.0}}
    moved = train({**CONFIG, "optimizer": [still, "adam"]}, wide_deep()).model
    nothing = train({**CONFIG, "optimizer": [still, still]}, wide_deep()).model
    np.testing.assert_array_equal(
        moved.linear_model.get_weights()[0], nothing.linear_model.get_weights()[0]
    )
    assert (
        np.abs(moved.dnn_model.get_weights()[0] - nothing.dnn_model.get_weights()[0]).max() > 1e-3
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (lambda model: None, "expected a tuple with the variables of each optimizer, got NoneType"),
        (
            lambda model: (model.trainable_variables,),
            "expected a group for each of 2 optimizers, got 1 groups",
        ),
        (lambda model: (model.trainable_variables[:-1], []), "in no group: .*bias"),
        (
            lambda model: (model.trainable_variables, model.trainable_variables[-1:]),
            "in several: .*bias",
        ),
        (
            lambda model: (model.trainable_variables, [object()]),
            "expected trainable variables of the model, got also <object",
        ),
    ],
)
def test_two_optimizers_need_each_variable_in_one_group(groups: Any, message: str) -> None:
    module = wide_deep()
    module.awf_group_trainable_vars_fn = groups
    with pytest.raises(ValueError, match=message):
        train(CONFIG, module)


def module_of_several_outputs() -> Any:
    import tensorflow as tf

    def create() -> Any:
        inputs = tf.keras.Input((4,))
        a = tf.keras.layers.Dense(1, name="a")(inputs)
        b = tf.keras.layers.Dense(1, activation="sigmoid", name="b")(inputs)
        return tf.keras.Model(inputs, {"a": a, "b": b})

    data = tf.data.Dataset.from_tensor_slices((X, {"a": X[:, 1:2], "b": Y}))
    return user_module(awf_create_model_fn=create, awf_create_train_dataset_fn=lambda: data)


def test_several_outputs_have_losses_and_metrics_of_their_own() -> None:
    config = {
        "batch_size": 20,
        "seed": 1,
        "optimizer": {"name": "SGD", "args": {"learning_rate": 0.0}},
        "loss": {"a": "mse", "b": "binary_crossentropy"},
        "loss_weights": {"b": 0.5},
        "metrics": {"a": ["mse"], "b": ["BinaryCrossentropy", "AUC"]},
    }
    (logs,) = train(config, module_of_several_outputs()).history
    assert list(logs) == ["loss", "a_mse", "b_binary_crossentropy", "b_auc"]
    assert logs["loss"] == pytest.approx(
        logs["a_mse"] + 0.5 * logs["b_binary_crossentropy"], rel=1e-5
    )


def test_unknown_output_in_the_config_is_refused() -> None:
    config = {"batch_size": 20, "optimizer": "sgd", "loss": {"c": "mse"}}
    with pytest.raises(ValueError, match="loss: expected one of a, b, got the output 'c'"):
        train(config, module_of_several_outputs())


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="several have the name auc; set their argument 'name'"):
        train({**CONFIG, "metrics": ["AUC", "auc"]}, wide_deep())


def test_a_stand_in_row_of_zeros_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that never had a row: the logarithm of zeros and its gradients are infinite."""
    import tensorflow as tf

    from akdl.training.data import Part
    from akdl.training.loop import Objective, TrainStep, VariableGroups
    from akdl.training.objects import Heads
    from akdl.training.row_metrics import Metrics
    from akdl.training.workers import Group

    inputs = tf.keras.Input((1,), dtype="int32")
    hidden = tf.keras.layers.Embedding(3, 2, embeddings_initializer="zeros")(inputs)
    hidden = tf.keras.layers.Lambda(tf.math.log)(hidden)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activity_regularizer="l2")(hidden))
    before = model.get_weights()
    part = Part(tf.zeros([1, 1], tf.int32), tf.zeros([1, 1, 1]), None, 0)
    heads = Heads(model, model(part.features))
    group = Group({})
    monkeypatch.setattr(group, "sum", lambda values: np.add(values, [2.0, 0.0]))
    step = TrainStep(
        group,
        model,
        VariableGroups(model, [tf.keras.optimizers.SGD()], None),
        Objective({"loss": "mse"}, None, heads),
        Metrics({}, None, heads, part.label, model(part.features)),
    )
    assert float(step([part]).loss) == float(step.losses) == 0.0
    for ours, theirs in zip(model.get_weights(), before):
        np.testing.assert_array_equal(ours, theirs)


TWO_DEVICES = """
import numpy as np, tensorflow as tf
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
from akdl.keras.keras_training import train
from tests.akdl.keras.support import script, user_module
"""
SHUFFLED = """
module = script("shuffled")
config = dict(model_args={"dropout": 0.0}, train_data_args={"rows": 21}, loss="binary_crossentropy", metrics=["AUC"])
"""
MASKED = """
def masked():
    inputs = tf.keras.Input([3], dtype="int32")
    hidden = tf.keras.layers.Embedding(4, 2, mask_zero=True)(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activity_regularizer="l2")(hidden))
rows = tf.constant([[number % 4, number % 3, number % 2] for number in range(21)])
data = tf.data.Dataset.from_tensor_slices((rows, tf.cast(rows[:, :, None], tf.float32)))
module = user_module(awf_create_model_fn=masked, awf_create_train_dataset_fn=lambda: data)
config = dict(loss="mse", metrics=["mae"])
"""
BOTH = """
for devices in ({}, {"devices": ["CPU:0", "CPU:1"]}):
    result = train({**config, **devices, "batch_size": 6, "epochs": 2, "seed": 3, "optimizer": "sgd"}, module)
    print("\\nresult", [value for logs in result.history for value in logs.values()], result.model.get_weights()[0].tolist())
"""
MOVING_MEANS = """
x = np.random.default_rng(0).normal(5.0, 1.0, [12, 2]).astype(np.float32)
def model():
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.BatchNormalization(momentum=0.5)(inputs)))
def made(batch_size, devices):
    data = lambda batch_size: tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4)
    module = user_module(awf_create_model_fn=model, awf_create_train_dataset_fn=data)
    config = dict(batch_size=batch_size, epochs=2, optimizer="sgd", loss="mse", devices=devices)
    return [one.numpy().tolist() for one in train(config, module).model.non_trainable_variables]
print("\\nresult", made(8, ["CPU:0", "CPU:1"]), x.tolist())
"""


def results_of(code: str) -> list[Any]:
    """Run code in a process of its own: devices are made before TensorFlow is used, and TensorFlow
    takes one training on several devices for another one of the same process.
    """
    import ast
    import os

    command = [sys.executable, "-c", TWO_DEVICES + code]
    done = subprocess.run(
        command,
        env={**os.environ, **ENVIRONMENT},
        check=True,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    return [
        ast.literal_eval(line[7:].replace("] [", "], ["))
        for line in done.stdout.splitlines()
        if line[:7] == "result "
    ]


@pytest.mark.slow
def test_a_device_without_rows_leaves_moving_means_to_the_other() -> None:
    """12 rows in batches of 4 for each of two devices: each epoch ends with a batch for one."""
    ((means, variances), x) = results_of(MOVING_MEANS)[0]
    batches = np.reshape(x, [3, 4, 2])
    expected = np.array([np.zeros(2), np.ones(2)])
    for rows in ([batches[0], batches[1]], [batches[2]]) * 2:
        moments = np.mean([[one.mean(0), one.var(0)] for one in rows], axis=0)
        expected = 0.5 * expected + 0.5 * moments
    np.testing.assert_allclose([means, variances], expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(SHUFFLED, id="shuffled"),
        pytest.param(MASKED, id="masked", marks=pytest.mark.long),
    ],
)
def test_two_devices_get_the_weights_of_one(code: str) -> None:
    one, two = results_of(code + BOTH)
    np.testing.assert_allclose(two[0], one[0], rtol=1e-5)
    np.testing.assert_allclose(two[1], one[1], rtol=1e-5, atol=1e-6)
