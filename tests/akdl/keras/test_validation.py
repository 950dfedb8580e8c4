"""Validation is made and tried before the first epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.akdl.keras.support import user_module

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CONFIG: dict[str, Any] = {"batch_size": 2, "epochs": 2, "optimizer": "sgd", "loss": "mse"}


def rows(count: int, width: int = 2) -> Any:
    import tensorflow as tf

    shape = [count, width] if width else [count]
    return tf.data.Dataset.from_tensor_slices((tf.ones(shape), tf.ones([count, 1])))


def model() -> Any:
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])


def train(module: Any, **more: Any) -> tuple[Any, list[str]]:
    from akdl.keras.keras_training import train

    lines: list[str] = []
    return train({**CONFIG, **more}, module, report=lines.append), lines


def test_validation_datasets_are_made_once() -> None:
    calls = []

    def validation() -> Any:
        calls.append("made")
        return rows(3)

    module = user_module(
        awf_create_model_fn=model,
        awf_create_train_dataset_fn=lambda: rows(4),
        awf_create_val_dataset_fn=validation,
    )
    result, _ = train(module)
    assert [list(logs) for logs in result.history] == [["loss", "val_loss"]] * 2
    assert calls == ["made"]


def test_empty_validation_dataset_is_an_error_before_the_model_is_made() -> None:
    made = []
    module = user_module(
        awf_create_model_fn=lambda: made.append(1) or model(),
        awf_create_train_dataset_fn=lambda: rows(4),
        awf_create_val_dataset_fn=lambda: rows(0),
    )
    with pytest.raises(ValueError, match="awf_create_val_dataset_fn in user: there are no rows"):
        train(module)
    assert not made


def test_validation_without_its_function_is_skipped_with_a_message() -> None:
    module = user_module(awf_create_model_fn=model, awf_create_train_dataset_fn=lambda: rows(4))
    result, lines = train(module, val_data_args={"file": "val.csv"})
    assert list(result.history[0]) == ["loss"]
    assert [line for line in lines if "validation" in line] == [
        "no validation: user does not define awf_create_val_dataset_fn, so val_data_args is ignored"
    ]


def test_a_model_that_fails_names_its_line_and_the_shapes() -> None:
    import tensorflow as tf

    class Ranker(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            width = tuple(inputs.shape)[1]
            return self.dense(tf.reshape(inputs, [-1, width]))

    epochs = []

    class Seen(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            epochs.append(epoch)

    module = user_module(
        awf_create_model_fn=Ranker,
        awf_create_train_dataset_fn=lambda: rows(4),
        awf_create_val_dataset_fn=lambda: rows(4, 0),
        Seen=Seen,
    )
    with pytest.raises(
        ValueError, match=r"awf_create_val_dataset_fn in user: the model fails"
    ) as raised:
        train(module, callbacks=["Seen"])
    assert not epochs
    text = str(raised.value)
    assert (
        "test_validation.py, line " in text
        and "in call: IndexError: tuple index out of range" in text
    )
    assert text.endswith("called with features float32[2]")


def test_metrics_that_do_not_fit_name_the_shapes() -> None:
    import tensorflow as tf

    wide = tf.data.Dataset.from_tensor_slices((tf.ones([4, 2]), tf.ones([4, 3])))
    module = user_module(
        awf_create_model_fn=model,
        awf_create_train_dataset_fn=lambda: rows(4),
        awf_create_val_dataset_fn=lambda: wide,
    )
    with pytest.raises(
        ValueError, match=r"val_dataset_fn in user: loss or metrics fail .* labels float32\[2, 3\]"
    ):
        train(module, metrics=["AUC"])


@pytest.fixture
def policy() -> Iterator[Callable[[str], None]]:
    """Set the global policy of Keras for a test."""
    import tensorflow as tf

    yield tf.keras.mixed_precision.set_global_policy
    tf.keras.mixed_precision.set_global_policy("float32")


def regularized() -> Any:
    import tensorflow as tf

    return tf.keras.Sequential(
        [tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_regularizer="l2")]
    )


def test_mixed_float16_is_refused(policy: Callable[[str], None]) -> None:
    policy("mixed_float16")
    module = user_module(
        awf_create_model_fn=regularized, awf_create_train_dataset_fn=lambda: rows(4)
    )
    with pytest.raises(ValueError, match="does not scale losses.*set the policy mixed_bfloat16"):
        train(module)


def test_mixed_bfloat16_trains_with_a_regularizer(policy: Callable[[str], None]) -> None:
    """The mean over 301 rows: bfloat16 would hold 300 or 302."""
    policy("mixed_bfloat16")
    made = regularized()
    made.set_weights([np.full([2, 1], 0.5), np.ones([1])])
    module = user_module(
        awf_create_model_fn=lambda: made, awf_create_train_dataset_fn=lambda: rows(301)
    )
    still = {"name": "SGD", "args": {"learning_rate": 0.0}}
    result, _ = train(module, batch_size=301, epochs=1, optimizer=still)
    assert result.history == [{"loss": pytest.approx(1.0 + 0.01 * 0.5, rel=1e-5)}]


def test_losses_of_the_model_are_a_mean_over_rows() -> None:
    """5 rows in batches of 2: the last one counts less."""
    import tensorflow as tf

    class MeanSquare(tf.keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(tf.reduce_mean(tf.square(inputs)))
            return inputs

    inputs = tf.keras.Input((2,))
    hidden = tf.keras.layers.Dense(
        3, activity_regularizer=tf.keras.regularizers.L2(0.1), kernel_regularizer="l2"
    )(MeanSquare()(inputs))
    made = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
    module = user_module(
        awf_create_model_fn=lambda: made,
        awf_create_train_dataset_fn=lambda: data,
        awf_create_val_dataset_fn=lambda: data,
    )
    still = {"name": "SGD", "args": {"learning_rate": 0.0}}
    result, _ = train(module, optimizer=still)
    made.compile(loss="mse")
    expected = made.evaluate(data.batch(2), verbose=0)
    for logs in result.history:
        assert logs == pytest.approx({"loss": expected, "val_loss": expected}, rel=1e-5)
