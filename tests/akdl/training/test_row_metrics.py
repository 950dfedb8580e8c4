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


def test_row_metrics_equal_those_of_keras() -> None:
    """20 rows in batches of 8: the last one has 4."""
    import tensorflow as tf

    from akdl.keras.keras_training import train

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
    module = user_module(
        awf_create_model_fn=lambda: model,
        awf_create_train_dataset_fn=lambda: data,
        awf_create_val_dataset_fn=lambda: data,
    )
    config: dict[str, Any] = {
        "batch_size": 8,
        "optimizer": {"name": "SGD", "args": {"learning_rate": 0.0}},
        "loss": "mse",
        "metrics": ["MeanSquaredError"],
        "weighted_metrics": ["MeanSquaredError", "MeanAbsoluteError"],
    }
    (logs,) = train(config, module).history
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
