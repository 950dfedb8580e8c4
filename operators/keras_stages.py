"""Stages of pipelines that train and predict with a Keras model of layers."""

from __future__ import annotations

from typing import Any

from operators.keras_sequential import (
    KerasSequentialClassifierPredictBatchOp,
    KerasSequentialClassifierPredictStreamOp,
    KerasSequentialClassifierTrainBatchOp,
    KerasSequentialRegressorPredictBatchOp,
    KerasSequentialRegressorPredictStreamOp,
    KerasSequentialRegressorTrainBatchOp,
    prediction_values,
)
from operators.params.accessors import KerasPredictStreamParams, KerasTrainerParams
from operators.pipeline import TableModelPredictor, Trainer


class _KerasModel(KerasPredictStreamParams, TableModelPredictor):
    def _values_of_all(self) -> dict[str, Any]:
        """Return the values of a predictor for any model, which is what a saved pipeline holds."""
        return prediction_values(type(self).__name__, super()._values_of_all(), self._model_file())


class KerasSequentialClassificationModel(_KerasModel):
    """Predicts labels; what `fit` of a `KerasSequentialClassifier` returns, see `KerasSequentialClassifier`."""

    _batch = KerasSequentialClassifierPredictBatchOp
    _stream = KerasSequentialClassifierPredictStreamOp


class KerasSequentialRegressionModel(_KerasModel):
    """Predicts numbers; what `fit` of a `KerasSequentialRegressor` returns, see `KerasSequentialClassifier`."""

    _batch = KerasSequentialRegressorPredictBatchOp
    _stream = KerasSequentialRegressorPredictStreamOp


class KerasSequentialClassifier(KerasTrainerParams, Trainer[KerasSequentialClassificationModel]):
    """Trains a classifier, and predicts with the model.

    Example:
        stage = KerasSequentialClassifier(tensorCol="x", labelCol="label", layers=["Dense(8)"], predictionCol="predicted")
        predicted = stage.fit(data).transform(data)

    Raises:
        ConfigurationError: A parameter is wrong; raised by `fit`, before anything is trained.
    """

    _operator = KerasSequentialClassifierTrainBatchOp
    _predictor = KerasSequentialClassificationModel


class KerasSequentialRegressor(KerasTrainerParams, Trainer[KerasSequentialRegressionModel]):
    """Trains a model that predicts a number, and predicts with it, see `KerasSequentialClassifier`."""

    _operator = KerasSequentialRegressorTrainBatchOp
    _predictor = KerasSequentialRegressionModel
