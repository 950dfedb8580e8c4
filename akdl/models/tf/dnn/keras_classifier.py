"""The DNN classifier without `tf.estimator`, trained by Keras in one process.

TensorFlow 2.15 is the last version with Estimators. Network, optimizer and signatures are the same,
so a predictor cannot distinguish the two exports, which a test compares.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from akdl.engine.inputs import get_feature_placeholders
from akdl.engine.train import train_keras_model
from akdl.runner.config import TaskConfig
from akdl.user_code.config_file import Config


def train_classifier(
    hidden_units: list[int],
    inputs: Sequence[Config],
    input_config: Config,
    train_config: Config,
    export_dir: str,
    task_config: TaskConfig,
) -> None:
    """Train as `classifier.train_classifier` does, and export the outputs of an Estimator."""
    model = DenseClassifier([each["name"] for each in inputs], hidden_units)
    # A checkpoint needs the variables, which the first call makes.
    model({each["name"]: tf.zeros([1, *each["shape"]]) for each in inputs})
    # With XLA the check of labels would be left out, and compiling would take longer than the
    # training of such a small model.
    model.compile(
        tf.keras.optimizers.Adagrad(0.05, initial_accumulator_value=0.1), _loss, jit_compile=False
    )
    export_config = {
        "saved_model_dir": export_dir,
        "save_fn": lambda model, folder: _export(model, inputs, folder),
    }
    train_keras_model(model, input_config, train_config, task_config, export_config)


class DenseClassifier(tf.keras.Model):  # type: ignore[misc]
    """The network: dense layers over the concatenated features, and one logit."""

    # A functional model would need the columns' names for its inputs, and these may have blanks and
    # slashes.
    def __init__(self, names: list[str], hidden_units: list[int]) -> None:
        super().__init__()
        layers = [tf.keras.layers.Dense(units, "relu") for units in hidden_units]
        self._order, self._dense = names, tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)])

    def call(self, features: Config) -> object:
        return self._dense(tf.concat([features[name] for name in self._order], axis=1))


def _loss(labels: Any, logits: object) -> object:
    """Return the loss per row, and fail for labels besides 0 and 1, as an Estimator does."""
    classes = tf.cast(tf.cast(labels, tf.bool), labels.dtype)
    with tf.control_dependencies(
        [tf.debugging.assert_equal(labels, classes, "labels must be 0 or 1")]
    ):
        return tf.keras.losses.binary_crossentropy(
            tf.cast(labels, tf.float32), logits, from_logits=True
        )


def _export(model: Any, inputs: Sequence[Config], folder: str) -> None:
    """Write the SavedModel of an Estimator from the weights of the Keras model.

    It is built as a graph of TensorFlow 1. Names of a function's arguments could have neither
    blanks nor umlauts, which names of columns have.
    """
    v1, values = tf.compat.v1, model.get_weights()
    with tf.Graph().as_default(), v1.Session() as session:
        given = get_feature_placeholders(inputs, True)
        logits = tf.concat(list(given.values()), axis=1)
        weights = [v1.Variable(each) for each in values]
        for number in range(0, len(weights), 2):
            # The weights are in pairs, kernel and bias. Each layer but the last has a relu behind
            # it, which is applied in front of the next.
            logits = (
                tf.matmul(tf.nn.relu(logits) if number else logits, weights[number])
                + weights[number + 1]
            )
        both = tf.concat([tf.zeros_like(logits), logits], axis=1)
        ids = tf.argmax(both, axis=1)[:, None]
        all_ids = tf.tile([[0, 1]], [tf.shape(logits)[0], 1])
        outputs = {
            "logits": logits,
            "logistic": tf.sigmoid(logits),
            "probabilities": tf.nn.softmax(both),
            "class_ids": ids,
            "classes": tf.strings.as_string(ids),
            "all_class_ids": all_ids,
            "all_classes": tf.strings.as_string(all_ids),
        }
        signature = v1.saved_model.predict_signature_def(given, outputs)
        builder = v1.saved_model.Builder(folder)
        signatures = dict.fromkeys(("predict", "serving_default"), signature)
        session.run(v1.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
