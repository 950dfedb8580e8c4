"""The script of KerasSequential.

It trains a Keras model of layers in text form, and exports it with its labels.

User parameters are the parameters of the operators, and `labels`: True for a classifier, whose
labels are the rows of extra input 1.

The signature "serving_default" takes `tensor`, float32 of shape [n] + the tensor's shape. It
returns `prediction` of shape [n]: labels as strings, booleans, int64 or float64, or float32 for a
regression. A classifier also returns `detail`, a JSON object with the probability of each label.
"""

from __future__ import annotations

import functools
import json
import math
import os
import time
from typing import Any, Sequence

import tensorflow as tf

from akdl.engine.inputs import get_columns_parser
from akdl.engine.strategy import choose_strategy, require_keras_for
from akdl.features import feature_spec, unsharded
from akdl.keras.epoch_end import Total
from akdl.keras.keras_fit import Plan, fit
from akdl.models.tf.keras_sequential.layer_text import OPTIMIZERS, make, parse_call
from akdl.rows.batches import with_length
from akdl.runner.config import TrainTaskConfig
from akdl.runner.context import first_shape
from akdl.runner.io_helper import remove_checkpoint_files
from akdl.runner.user_params import plain
from akdl.storage.training_folders import CheckpointFolder
from akdl.training.checkpoints import BEST, restore
from akdl.training.objects import make_metric
from akdl.training.workers import sum_over_workers
from akdl.user_code.config_file import Config
from akdl.wire.column_type import type_of

_BIGGER_IS_BETTER = (
    "auc",
    "binary_accuracy",
    "precision",
    "recall",
    "true_negatives",
    "true_positives",
    "sparse_categorical_accuracy",
)


def main(task_config: TrainTaskConfig) -> None:
    """Train on this worker's rows; the chief exports into `saved_model_dir`.

    `akdl.keras.keras_fit` trains, as for scripts with `train_keras_model`: it has the checkpoints,
    the reports, and the end of an epoch before Keras makes a step without rows.
    """
    params = plain(task_config.user_params)
    if params.get("seed") is not None:
        # Keras has a generator of its own, which the seed of TensorFlow does not reach.
        tf.keras.utils.set_random_seed(int(params["seed"]))
    strategy = choose_strategy(task_config)
    require_keras_for(strategy)
    labels = _labels(task_config) if params["labels"] else None
    shape = first_shape(task_config.tf_context.rows, params["tensorCol"])
    if shape is None:
        raise ValueError(
            f"{task_config.task_type} {task_config.task_index} got no row with a value in tensorCol"
            f" {params['tensorCol']!r}, which should be an ARRAY column: feed more rows or set"
            " fewer workers"
        )
    num_labels = None if labels is None else len(labels)
    make_model = functools.partial(build_model, params["layers"], shape, num_labels)
    with strategy.scope():
        model = make_model()
        metrics = _metrics(labels)
        model.compile(_optimizer(params), _loss(labels), metrics=metrics)
    total = sum_over_workers(strategy)
    train, valid = _datasets(task_config, params, shape, labels, is_alone=total is None)
    _clear_checkpoints(task_config, params, total)
    train_config: Config = {}
    if params["saveBestOnly"]:
        if valid is None:
            raise ValueError("saveBestOnly needs two rows, of which it evaluates one; got one")
        train_config = _best_checkpoint(params["bestMetric"], metrics)
        # The best epoch is a checkpoint, so that a continued training compares its epochs with it.
        task_config.checkpoint_dir = task_config.checkpoint_dir or os.path.join(
            task_config.work_dir, ".best"
        )
    epochs, secs = int(params["numEpochs"]), params.get("saveCheckpointsSecs")
    every_epochs = max(1, round(params["saveCheckpointsEpochs"]))
    plan = Plan(
        lambda seed: train,
        None if valid is None else lambda: valid,
        epochs,
        None,
        train_config,
        # All workers have to write at the same step, and their clocks differ. So a group counts
        # epochs. Each epoch may be the best one.
        every_epochs=1 if train_config else epochs if secs and total is None else every_epochs,
        every_secs=secs,
    )
    fit(model, plan, task_config)
    if train_config:
        assert task_config.checkpoint_dir is not None
        folder = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir).path
        restore(os.path.join(folder, BEST), total, model=model, optimizer=model.optimizer)
    # Every worker reads the weights, because some variables are sums over all workers.
    weights = model.get_weights()
    if task_config.task_type == "chief":
        # The chief exports a fresh model with these weights. Saving the trained one would need all
        # workers, as it reads such sums.
        served = make_model()
        served.set_weights(weights)
        folder = os.path.join(task_config.saved_model_dir, str(int(time.time())))
        _export(served, shape, labels, folder)
        _write_facts(task_config, params, folder)


def build_model(layers: Sequence[str], shape: Sequence[int], num_labels: int | None) -> Any:
    """Build the network of the layers' texts, with a last layer for the labels.

    Args:
        layers: One text per layer.
        shape: Shape of the tensor of one row.
        num_labels: Number of labels; None for a regression. Two labels need one logit.

    Raises:
        ValueError: A layer does not take the output of the layer before it.
    """
    x = inputs = tf.keras.Input(tuple(shape), name="tensor")
    for text in layers:
        layer = make(parse_call(text))
        try:
            x = layer(x)
        except ValueError as error:
            raise ValueError(
                f"layers: {text!r} does not take its input, of shape"
                f" {tuple(x.shape)}{_other_shape(x.shape)}"
            ) from error
    outputs = 1 if num_labels is None or num_labels == 2 else num_labels
    return tf.keras.Model(
        inputs, tf.keras.layers.Dense(outputs, name="y" if num_labels is None else "logits")(x)
    )


def _other_shape(shape: Sequence[int]) -> str:
    """Hint for a layer that does not take a vector, such as Conv1D."""
    if len(shape) != 2:
        return ""
    length = int(shape[1])
    width = next(each for each in range(math.isqrt(length), 0, -1) if length % each == 0)
    return (
        f": put a layer such as 'Reshape(({length // width}, {width}))' before it, which makes a"
        " matrix of the vector"
    )


def _optimizer(params: Config) -> Any:
    call = parse_call(params["optimizer"], OPTIMIZERS)
    if (
        params.get("learningRate") is not None
        and not call.positional
        and "learning_rate" not in call.named
    ):
        call.named["learning_rate"] = float(params["learningRate"])
    return make(call, OPTIMIZERS)


def _labels(task_config: TrainTaskConfig) -> list[Any]:
    """Return the labels in order; their places are the classes of the network."""
    (column,) = task_config.extra_inputs[0].columns
    found = [
        row[column.name]
        for row in task_config.extra_inputs[0].rows()
        if row[column.name] is not None
    ]
    # NaN equals no label, not even itself.
    if any(label != label for label in found):
        raise ValueError(
            f"labelCol {column.name!r}: expected a label in each row, got NaN. Replace NaN in the"
            " query, or leave its rows out"
        )
    found.sort()
    if len(found) < 2:
        raise ValueError(
            f"labelCol {column.name!r}: expected two labels or more for a classifier, got {found}"
        )
    return found


def _loss(labels: list[Any] | None) -> Any:
    if labels is None:
        return tf.keras.losses.MeanAbsoluteError()
    if len(labels) == 2:
        return tf.keras.losses.BinaryCrossentropy(from_logits=True)
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _metrics(labels: list[Any] | None) -> list[Any]:
    metrics = tf.keras.metrics
    if labels is None:
        return ["mse", metrics.RootMeanSquaredError(), "mae", "mape", "msle"]
    if len(labels) > 2:
        return [metrics.SparseCategoricalAccuracy()]
    kinds = (
        "true_positives",
        "false_positives",
        "true_negatives",
        "false_negatives",
        "precision",
        "recall",
    )
    # Every metric has a name, because Keras would number them. A logit of 0 is a probability of one
    # half.
    made = [make_metric({"name": name, "args": {"thresholds": 0.0}}, None) for name in kinds]
    return [metrics.AUC(from_logits=True, name="auc"), metrics.BinaryAccuracy(threshold=0.0), *made]


def _best_checkpoint(metric: str, metrics: list[Any]) -> Config:
    """Return the keys of a train config that keep the best checkpoint by a metric."""
    metric = {"acc": "binary_accuracy", "accuracy": "binary_accuracy"}.get(metric, metric)
    known = sorted(["loss", *(one if isinstance(one, str) else one.name for one in metrics)])
    if metric not in known:
        raise ValueError(f"bestMetric: expected one of {', '.join(known)}, got {metric!r}")
    return {
        "keep_best_checkpoints": 1,
        "best_checkpoint_metric": f"val_{metric}",
        "best_checkpoint_bigger": metric in _BIGGER_IS_BETTER,
    }


def _datasets(
    task_config: TrainTaskConfig,
    params: Config,
    shape: Sequence[int],
    labels: list[Any] | None,
    is_alone: bool,
) -> tuple[Any, Any]:
    """Return the training data and, with validationSplit, the first rows as validation data."""
    context, batch_size = task_config.tf_context, int(params["batchSize"])
    names = [params["tensorCol"], params["labelCol"]]
    columns = [column for column in context.columns if column.name in names]
    shapes, types = {names[0]: list(shape), names[1]: []}, feature_spec(columns)
    specs = {name: tf.io.FixedLenFeature(shapes[name], types[name].dtype) for name in names}
    if specs[names[1]].dtype == tf.float32:
        # A DOUBLE label of a classifier is exact.
        specs[names[1]] = tf.io.FixedLenFeature([], tf.float64)
    parser = get_columns_parser(specs, names[1], None, columns)
    if parser is None:
        got = ", ".join(f"{column.name} {column.type}" for column in columns)
        raise ValueError(
            f"expected an ARRAY of numbers in tensorCol and single values in labelCol, got {got}"
        )

    def parse(cells: Any) -> tuple[Any, Any]:
        features, label = parser(cells)
        return tf.cast(features[names[0]], tf.float32), _target(label, labels)

    def batches(shuffle_rows: int) -> Any:
        return context.batches(batch_size, columns=names, shuffle_rows=shuffle_rows).map(parse)

    # The number of rows is needed only to hold some of them out. Without that, the first epoch
    # reads rows while they arrive.
    split = params["validationSplit"]
    length = task_config.dataset_length if split else 0
    # Of a few rows one is held out, unless it is the only one.
    held_out = max(int(length * split), int(length > 1))
    if not held_out:
        return batches(10 * batch_size), None
    rows = batches(0).unbatch()
    train = rows.skip(held_out).shuffle(10 * batch_size).batch(batch_size)
    valid = rows.take(held_out).batch(batch_size)
    # With a known length, `EpochEnd` need not read ahead. In a group, Keras would take the length
    # of one share for the steps of all.
    if is_alone:
        train = with_length(train, -(-(length - held_out) // batch_size))
        valid = with_length(valid, -(-held_out // batch_size))
    return unsharded(train), unsharded(valid)


def _target(label: Any, labels: list[Any] | None) -> Any:
    """Return the class of each label by its place among the labels; a float32 for a regression."""
    if labels is None:
        return tf.cast(label, tf.float32)
    known = _constant(labels)
    hits = tf.equal(tf.cast(label, known.dtype)[:, tf.newaxis], known[tf.newaxis, :])
    message = (
        "labelCol: a row has a label that the query of the distinct labels did not find: store the"
        " table first if its query gives other rows each time"
    )
    found = tf.debugging.assert_equal(tf.reduce_any(hits, axis=1), True, message=message)
    with tf.control_dependencies([found]):
        return tf.argmax(tf.cast(hits, tf.int32), axis=1)


def _constant(labels: Sequence[Any]) -> Any:
    kinds = {str: tf.string, bool: tf.bool, int: tf.int64, float: tf.float64}
    return tf.constant(labels, kinds[type(labels[0])])


def _export(model: Any, shape: Sequence[int], labels: list[Any] | None, folder: str) -> None:
    module = tf.Module()
    module.model = model

    def serve(tensor: Any) -> dict[str, Any]:
        outputs = model(tensor, training=False)
        if labels is None:
            return {"prediction": outputs[:, 0]}
        if len(labels) == 2:
            second = tf.sigmoid(outputs)
            probabilities = tf.concat([1.0 - second, second], axis=1)
        else:
            probabilities = tf.nn.softmax(outputs)
        prediction = tf.gather(_constant(labels), tf.argmax(probabilities, axis=1))
        return {"prediction": prediction, "detail": _detail(labels, probabilities)}

    module.serve = tf.function(
        serve, input_signature=[tf.TensorSpec([None, *shape], tf.float32, name="tensor")]
    )
    tf.saved_model.save(module, folder, {"serving_default": module.serve})


def _write_facts(task_config: TrainTaskConfig, params: Config, folder: str) -> None:
    """Write the file next to the SavedModel that `operators.keras_sequential` reads."""
    (label,) = (
        type_of(column)
        for column in task_config.tf_context.columns
        if column.name == params["labelCol"]
    )
    facts = {
        "tensorCol": params["tensorCol"],
        "labels": params["labels"],
        "prediction": label.element_sql if params["labels"] else "DOUBLE",
    }
    os.makedirs(os.path.join(folder, "assets.extra"), exist_ok=True)
    with open(
        os.path.join(folder, "assets.extra", "keras_sequential.json"), "w", encoding="utf-8"
    ) as file:
        json.dump(facts, file)


def _detail(labels: Sequence[Any], probabilities: Any) -> Any:
    """Return the probabilities of each row as a JSON object, made by operations of the graph.

    Keys are JSON texts themselves, also for labels that are numbers, since a key of JSON is a text.
    """
    # A label that is a number becomes a text as well, since keys of JSON are texts.
    keys = tf.constant(
        [json.dumps(each if isinstance(each, str) else json.dumps(each)) + ": " for each in labels]
    )
    numbers = tf.strings.as_string(probabilities, precision=9, shortest=True)
    pairs = tf.strings.reduce_join(keys[tf.newaxis, :] + numbers, axis=1, separator=", ")
    return tf.strings.join(["{", pairs, "}"])


def _clear_checkpoints(task_config: TrainTaskConfig, params: Config, total: Total | None) -> None:
    """Remove the checkpoints of earlier jobs if the user wants so."""
    if task_config.checkpoint_dir is None or not params["removeCheckpointBeforeTraining"]:
        return
    # A restart of the same job continues from its own checkpoint.
    if task_config.attempt:
        return
    if task_config.task_type == "chief":
        folder = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir)
        # TensorFlow supports few storages, so files at an address are removed from a copy, whose
        # changes are then published.
        folder.fetch()
        remove_checkpoint_files(folder.path)
        folder.publish()
    if total is not None:
        # The sum makes all workers wait for the chief. Otherwise one of them could resume from a
        # checkpoint that the chief removes.
        total([0.0])
