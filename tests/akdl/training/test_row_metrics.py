"""Metrics over batches of different size, with scalar labels and weights, are those of Keras
itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.akdl.keras.support import user_module

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def logs_of(model: Any, data: Any, **config: object) -> dict[str, float]:
    """Return the figures of an epoch of the runner that leaves the weights as they are, with the
    same rows for validation.
    """
    from akdl.keras.keras_training import train

    module = user_module(
        awf_create_model_fn=lambda: model,
        awf_create_train_dataset_fn=lambda: data,
        awf_create_val_dataset_fn=lambda: data,
    )
    optimizer = {"name": "SGD", "args": {"learning_rate": 0.0}}
    (logs,) = train({"optimizer": optimizer, "loss": "mse", **config}, module).history
    return logs


def test_row_metrics_equal_those_of_keras() -> None:
    """20 rows in batches of 8: the last one has 4."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    x = random.normal(size=(20, 3)).astype(np.float32)
    y, weights = (
        random.normal(size=20).astype(np.float32),
        random.uniform(size=20).astype(np.float32),
    )
    data = tf.data.Dataset.from_tensor_slices((x, y, weights))
    model = tf.keras.Sequential(
        [tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    logs = logs_of(
        model,
        data,
        batch_size=8,
        metrics=["MeanSquaredError"],
        weighted_metrics=["MeanSquaredError", "MeanAbsoluteError"],
    )
    model.compile(
        loss="mse",
        metrics=[tf.keras.metrics.MeanSquaredError(name="plain")],
        weighted_metrics=[
            tf.keras.metrics.MeanSquaredError(name="weighted"),
            tf.keras.metrics.MeanAbsoluteError(name="mae"),
        ],
    )
    expected = model.evaluate(data.batch(8), verbose=0, return_dict=True)
    for ours, theirs in (
        ("mean_squared_error", "plain"),
        ("weighted_mean_squared_error", "weighted"),
        ("mean_absolute_error", "mae"),
    ):
        assert logs[ours] == pytest.approx(expected[theirs], rel=1e-5), ours
        assert logs[f"val_{ours}"] == pytest.approx(expected[theirs], rel=1e-5), ours
    assert abs(expected["plain"] - expected["weighted"]) > 1e-3


def test_states_of_workers_with_and_without_updates_can_be_added() -> None:
    import tensorflow as tf

    from akdl.training.data import Part
    from akdl.training.loop import Evaluation
    from akdl.training.objects import Heads
    from akdl.training.row_metrics import Metrics
    from akdl.training.workers import Group

    label = output = tf.constant([[1.0], [0.0]])
    part, heads = Part(None, label, None, 2), Heads(None, output)
    states = []
    for updates in (0, 1):
        metrics = Metrics({"metrics": ["R2Score", "mse"]}, user_module(), heads, label, output)
        Evaluation(Group({}), None, metrics).try_on(part, output, "")
        assert not metrics.state().any()
        for _ in range(updates):
            metrics.update(part, output)
        states.append(metrics.state())
    assert len(states[0]) == len(states[1])
    with pytest.raises(ValueError, match="expected a state of 7 numbers for r2_score, mse, got 4"):
        metrics.set_state(states[0][:4])


@pytest.mark.fault("data", "A loss pairs each output with the label of its own row")
@pytest.mark.parametrize("label_shape", [[2], [2, 1]])
@pytest.mark.parametrize("output_shape", [[2], [2, 1]])
@pytest.mark.parametrize("loss", ["mse", "squares"])
def test_loss_and_metrics_pair_each_output_with_its_own_label(
    loss: str, output_shape: list[int], label_shape: list[int]
) -> None:
    import tensorflow as tf

    from akdl.training.data import Part
    from akdl.training.loop import Objective
    from akdl.training.objects import Heads
    from akdl.training.row_metrics import Metrics

    def squares(label: Any, output: Any) -> Any:
        return tf.square(label - output)

    user = user_module(squares=squares)
    label = tf.reshape(tf.constant([1.0, 4.0]), label_shape)
    output = tf.reshape(tf.constant([1.0, 2.0]), output_shape)
    heads = Heads(None, output)
    config: dict[str, Any] = {"loss": loss, "weighted_metrics": [loss]}
    for weight, expected in ((None, 2.0), (tf.constant([2.0, 0.5]), 1.0)):
        part = Part(None, label, weight, 2)
        assert float(Objective(config, user, heads)(part, output, 2.0)) == expected
    metrics = Metrics(config, user, heads, label, output)
    metrics.update(Part(None, label, tf.constant([3.0, 1.0]), 2), output)
    total, count = metrics.state()
    assert total / count == 1.0


@pytest.mark.fault(
    "data", "Loss and metrics count the steps that a Keras mask keeps, and no others"
)
def test_masked_steps_count_as_in_keras() -> None:
    import tensorflow as tf

    x = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [1, 2, 3, 4], [2, 0, 0, 0]], np.int32)
    y = np.where(x > 0, x, 9).astype(np.float32)[..., None]
    data = tf.data.Dataset.from_tensor_slices((x, y, np.array([1, 2, 3, 4], np.float32)))
    inputs = tf.keras.Input([4], dtype="int32")
    steps = tf.keras.layers.Embedding(5, 2, mask_zero=True)(inputs)
    steps = tf.keras.layers.LSTM(3, return_sequences=True)(steps)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(steps))
    logs = logs_of(
        model,
        data,
        batch_size=4,
        metrics=["MeanAbsoluteError"],
        weighted_metrics=["MeanSquaredError"],
    )
    squares, distances = (np.array(model(x)) - y) ** 2, np.abs(np.array(model(x)) - y)
    # Keras 3 takes a weight per row for one per step.
    of_rows = np.array([[1], [2], [3], [4]], np.float32)
    kept, weights = x > 0, of_rows * (x > 0)
    expected = {
        "loss": (squares[..., 0] * weights).sum() / kept.sum(),
        "mean_absolute_error": distances[..., 0][kept].mean(),
        "mean_squared_error": np.average(squares[..., 0], weights=weights),
    }
    for name, value in expected.items():
        assert logs[name] == pytest.approx(value, rel=1e-5), name
        assert logs[f"val_{name}"] == pytest.approx(value, rel=1e-5), name
    model.compile(loss="mse")
    whole = model.evaluate(x, y, sample_weight=of_rows, batch_size=4, verbose=0)
    assert logs["loss"] == pytest.approx(whole, rel=1e-5)


def test_masked_parts_add_up_to_the_mean_of_a_step() -> None:
    """Two replicas whose masks keep different numbers of values per row."""
    import tensorflow as tf

    from akdl.training.data import Part
    from akdl.training.loop import Objective
    from akdl.training.objects import Heads

    outputs = [tf.zeros([1, 3, 1]), tf.zeros([2, 3, 1])]
    labels = [tf.ones([1, 3, 1]), 2 * tf.ones([2, 3, 1])]
    masks = [tf.constant([[True, True, True]]), tf.constant([[True, False, False], [False] * 3])]
    objective = Objective({"loss": "mse"}, user_module(), Heads(None, outputs[0]))
    shares = [
        objective(Part(None, label, None, 0), output, 3.0, mask, lambda kept: tf.constant(4.0))
        for output, label, mask in zip(outputs, labels, masks)
    ]
    assert float(tf.add_n(shares)) == pytest.approx((3 * 1.0 + 4.0) / 4)
    nothing = objective(Part(None, labels[0], None, 0), outputs[0], 1.0, masks[0] & False)
    assert float(nothing) == 0.0
