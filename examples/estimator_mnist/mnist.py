"""Classifier of digits: the four functions of an Estimator, with two hidden layers and two heads.

`path` is one of

- a file with the arrays of `mnist.npz`, such as the one that `digits.py` writes;
- a TFRecord file with `images` (784 floats from 0 to 1) and `label`: in an operator, the rows of a
  table;
- `mnist`: the real digits, downloaded by `tf.keras.datasets`.

It runs on TensorFlow 1.15 to 2.15. On 1.15, `import tensorflow as tf` works as well.
"""

import numpy as np
import tensorflow.compat.v1 as tf

BATCH_SIZE = 64


def read(path, part):
    """Return a dataset of batches of ({"images": float32 [n, 28, 28]}, int64 [n])."""
    if path == "mnist" or path.endswith(".npz"):
        arrays = tf.keras.datasets.mnist.load_data() if path == "mnist" else load(path)
        images, labels = arrays[0 if part == "train" else 1]
        dataset = tf.data.Dataset.from_tensor_slices(
            ({"images": (images / 255.0).astype(np.float32)}, labels.astype(np.int64))
        )
        if part == "train":
            dataset = dataset.shuffle(10000).repeat()
        return dataset.batch(BATCH_SIZE)
    dataset = tf.data.TFRecordDataset(path)
    if part == "train":
        dataset = dataset.shuffle(10000).repeat()
    return dataset.batch(BATCH_SIZE).map(parse)


def load(path):
    with np.load(path) as arrays:
        return [(arrays["x_" + part], arrays["y_" + part]) for part in ("train", "test")]


def parse(rows):
    spec = {
        "images": tf.FixedLenFeature([28, 28], tf.float32),
        "label": tf.FixedLenFeature([], tf.int64),
    }
    features = tf.parse_example(rows, spec)
    return features, features.pop("label")


def train_input_fn(path, params):
    return read(path, "train")


def eval_input_fn(path, params):
    return read(path, "test")


def model_fn(features, labels, mode, params):
    # The dataset and the placeholder below use the same key.
    columns = tf.feature_column.numeric_column(key="images", shape=[28, 28])
    net = tf.feature_column.input_layer(features, columns)
    for _ in range(2):
        net = tf.layers.dense(net, params.get("hidden_units", 128), activation=tf.nn.relu)
        net = tf.layers.dropout(net, rate=0.2, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 10, activation=None)  # one per digit
    predicted = tf.argmax(logits, 1)

    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "class_id": predicted,
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }
        heads = {
            # One of several heads needs this key, "serving_default".
            tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: (
                tf.estimator.export.PredictOutput(predictions)
            ),
            "predict_images": tf.estimator.export.PredictOutput({"scores": tf.nn.softmax(logits)}),
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=heads)

    loss = tf.losses.softmax_cross_entropy(
        onehot_labels=tf.one_hot(labels, 10, 1, 0), logits=logits
    )
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.metrics.accuracy(labels=labels, predictions=predicted, name="acc_op")
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    optimizer = tf.train.AdamOptimizer(params.get("learning_rate", 0.001))
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_receiver_fn():
    images = tf.placeholder(tf.float32, shape=[1, 28, 28], name="images")
    # The exported model accepts any batch size in the first dimension.
    return tf.estimator.export.build_raw_serving_input_receiver_fn({"images": images})
