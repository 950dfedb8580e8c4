"""The head of a model with one logit: its loss, metrics, predictions and exports.

TensorFlow's own heads compute loss and metrics. This head adds hooks, a scaffold and the
optimizers of `tf.compat.v1.train`, and its predictions are numbers alone, without TensorFlow's
texts of the classes.

With logits z and labels y, both of shape [n, 1], the loss is the mean of -y log p - (1 - y) log(1 -
p) for classification, where p = 1 / (1 + exp(-z)), and of (z - y)^2 for regression. Regularization
losses are added to both.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Optional, Sequence

import tensorflow as tf

from akdl.estimator.common_estimator import is_keras
from akdl.tf_version import require_estimator

Several = Optional[Sequence[Any]]
"""Hooks, losses, variables or operations; None without any."""

_estimator = require_estimator("UserDefineHead")

CLASSIFICATION = "classification"
REGRESSION = "regression"


class PredictionKeys:
    """Keys of a head's predictions.

    TensorFlow's own heads have the same constants, which are not public there.
    """

    LOGITS = "logits"
    LOGISTIC = "logistic"
    PROBABILITIES = "probabilities"
    CLASS_IDS = "class_ids"
    PREDICTIONS = "predictions"


class UserDefineHead(_estimator.Head):  # type: ignore[misc, name-defined]
    """A head for one logit, to use or to derive from.

    `task_type` is "classification" or "regression".

    Hooks are called in addition to the hooks of a TrainSpec or EvalSpec. `scaffold` is a
    `tf.compat.v1.train.Scaffold` for initialization and saving, such as an `init_fn` that fills an
    embedding, or a `saver`.
    """

    def __init__(
        self,
        task_type: str,
        training_hooks: Several = None,
        training_chief_hooks: Several = None,
        evaluation_hooks: Several = None,
        prediction_hooks: Several = None,
        scaffold: Any = None,
    ) -> None:
        if task_type not in (CLASSIFICATION, REGRESSION):
            raise ValueError(
                f"task_type: expected {CLASSIFICATION!r} or {REGRESSION!r}, got {task_type!r}"
            )
        self._task_type = task_type
        # These two differ in loss and metrics. The labels of a classification have to be from 0 to
        # 1.
        own_head = (
            _estimator.BinaryClassHead if task_type == CLASSIFICATION else _estimator.RegressionHead
        )
        self._own_head = own_head(loss_reduction=self.loss_reduction)
        self._training_hooks = training_hooks
        self._training_chief_hooks = training_chief_hooks
        self._evaluation_hooks = evaluation_hooks
        self._prediction_hooks = prediction_hooks
        self._scaffold = scaffold

    @property
    def name(self) -> str:
        return "UserDefineHead"

    @property
    def logits_dimension(self) -> int:
        return 1

    @property
    def loss_reduction(self) -> Any:
        return tf.compat.v2.keras.losses.Reduction.SUM_OVER_BATCH_SIZE

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Mapping[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Several = None,
    ) -> Any:
        """Return the mean loss of the rows plus the regularization losses.

        Labels have the shape [n] or [n, 1].

        `features` and `mode` are for heads that derive from this one.
        """
        # The head adds up the losses of regularization, which fails for an empty list.
        return self._own_head.loss(labels, logits, features, mode, regularization_losses or None)

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the predictions by `PredictionKeys`; `keys` None for all.

        They are `logits` [n, 1]; for classification `logistic` [n, 1], the probability of class 1,
        `probabilities` [n, 2] and `class_ids` int64 [n, 1], 1 where the logit is above 0; for
        regression `predictions` [n, 1].
        """
        # The head of a classification would also give texts of the classes.
        own_keys = (PredictionKeys.LOGISTIC, PredictionKeys.PROBABILITIES, PredictionKeys.CLASS_IDS)
        arguments = () if self._task_type == REGRESSION else (own_keys,)
        found = {PredictionKeys.LOGITS: logits, **self._own_head.predictions(logits, *arguments)}
        unknown = [key for key in keys or () if key not in found]
        if unknown:
            raise ValueError(
                f"keys: expected some of {', '.join(found)} for {self._task_type}, got"
                f" {', '.join(unknown)}"
            )
        return found if keys is None else {key: found[key] for key in keys}

    def metrics(self, regularization_losses: Several = None) -> dict[str, Any]:
        """Return the metrics of an evaluation by name, before the first row.

        `average_loss` is the mean over all rows without regularization; a difference between
        `label/mean` and `prediction/mean` is the bias of the model. Classification also has
        `accuracy`, `auc` and the other metrics of `tf.estimator.BinaryClassHead`.
        """
        return dict(self._own_head.metrics(regularization_losses or None))

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Mapping[str, Any],
        logits: Any,
        labels: Any,
        mode: str | None = None,
        regularization_losses: Several = None,
    ) -> dict[str, Any]:
        """Add a batch to the result of `metrics` and return it."""
        return dict(
            self._own_head.update_metrics(
                eval_metrics,
                features,
                logits,
                labels,
                regularization_losses=regularization_losses or None,
            )
        )

    def create_estimator_spec(
        self,
        features: Mapping[str, Any],
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Several = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Several = None,
        regularization_losses: Several = None,
    ) -> Any:
        """Return the `tf.estimator.EstimatorSpec` of a mode.

        To train, pass an `optimizer`, see `akdl.estimator.common_estimator.maker`, or a
        `train_op_fn`, a function from a loss to an operation that trains. `update_ops` are further
        operations of a step, such as the updates of batch normalization.
        """
        keys = tf.estimator.ModeKeys
        predictions = self.predictions(logits)
        spec = functools.partial(tf.estimator.EstimatorSpec, mode=mode, predictions=predictions)
        if mode == keys.PREDICT:
            return spec(
                export_outputs=self._export_outputs(predictions),
                prediction_hooks=self._prediction_hooks,
            )
        loss = self.loss(labels, logits, features, mode, regularization_losses)
        if mode == keys.EVAL:
            metrics = self.metrics(regularization_losses)
            updates = self.update_metrics(
                metrics, features, logits, labels, mode, regularization_losses
            )
            return spec(loss=loss, eval_metric_ops=updates, evaluation_hooks=self._evaluation_hooks)
        return spec(
            loss=loss,
            train_op=_train_op(loss, optimizer, trainable_variables, train_op_fn, update_ops),
            training_hooks=self._training_hooks,
            training_chief_hooks=self._training_chief_hooks,
            scaffold=self._scaffold,
        )

    def _export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        export = tf.estimator.export
        if self._task_type == REGRESSION:
            default = export.RegressionOutput(value=predictions[PredictionKeys.PREDICTIONS])
        else:
            default = export.ClassificationOutput(scores=predictions[PredictionKeys.PROBABILITIES])
        return {
            "predict": export.PredictOutput(dict(predictions)),
            # These two take serialized Examples only. TensorFlow leaves them out of an export that
            # takes tensors.
            "serving_default": default,
            self._task_type: default,
        }


def _train_op(
    loss: Any,
    optimizer: Any,
    variables: Several,
    train_op_fn: Callable[[Any], Any] | None,
    update_ops: Several,
) -> Any:
    """Return the operation of a step: gradients, the global step, and further updates.

    Raises:
        ValueError: Neither an optimizer nor a `train_op_fn`, or both.
    """
    if (optimizer is None) == (train_op_fn is None):
        raise ValueError(
            "create_estimator_spec in mode TRAIN: pass either an optimizer or a train_op_fn"
        )
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    # The gradients of replicas are added up, so each of them takes its part of the mean.
    if replicas > 1:
        loss = loss / replicas
    if train_op_fn is not None:
        step = train_op_fn(loss)
    elif is_keras(optimizer):
        step = optimizer.get_updates(loss, variables)[0]
    else:
        step = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step(), variables)
    operations = [step, *(update_ops or ())]
    return tf.group(*operations)
