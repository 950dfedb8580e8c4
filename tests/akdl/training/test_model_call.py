"""A test call of a model: its outputs, and errors that name the user's line and the shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def call(model: Any, features: Any) -> Any:
    from akdl.training.data import Part
    from akdl.training.model_call import call_on_sample
    from akdl.training.workers import Group

    return call_on_sample(Group(), model, Part(features, None, None, 4), "the model on rows")


def test_call_runs_the_model_as_in_evaluation() -> None:
    import tensorflow as tf

    model = tf.keras.Sequential(
        [tf.keras.Input((2,)), tf.keras.layers.Dropout(0.9), tf.keras.layers.Rescaling(3.0)]
    )
    np.testing.assert_array_equal(call(model, tf.ones([4, 2])), np.full([4, 2], 3.0))


def test_failing_model_names_the_line_of_the_user_and_the_features() -> None:
    import tensorflow as tf

    from akdl.training.user_functions import ObjectError

    class Broken(tf.keras.Model):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return tf.matmul(inputs["x"], tf.ones([5, 1]))

    line = Broken.call.__code__.co_firstlineno + 1
    with pytest.raises(ObjectError) as caught:
        call(Broken(), {"x": tf.ones([4, 2])})
    text = str(caught.value)
    assert text.startswith(
        f"the model on rows: the model fails on the first batch: test_model_call.py, line {line}, in call: "
    )
    assert "Error: " in text and text.endswith("; it was called with features {'x': float32[4, 2]}")


def test_an_error_outside_of_the_users_code_has_no_line() -> None:
    import tensorflow as tf

    from akdl.training.user_functions import ObjectError

    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    with pytest.raises(
        ObjectError,
        match=r"fails on the first batch: \w+Error: .*called with features float32\[4, 3\]$",
    ):
        call(model, tf.ones([4, 3]))
