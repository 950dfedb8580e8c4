"""Stages of pipelines that train and predict with a Keras model of layers."""

from __future__ import annotations

from typing import Any, Union

from operators.batch_operator import BatchOperator
from operators.keras_sequential import (
    KerasSequentialClassifierPredictBatchOp,
    KerasSequentialClassifierPredictStreamOp,
    KerasSequentialClassifierTrainBatchOp,
    KerasSequentialRegressorPredictBatchOp,
    KerasSequentialRegressorPredictStreamOp,
    KerasSequentialRegressorTrainBatchOp,
    prediction_values,
)
from operators.params import catalog
from operators.params.accessors import KerasPredictParams, KerasTrainerParams
from operators.pipeline import TableModelPredictor, Trainer


class _KerasModel(KerasPredictParams, TableModelPredictor):
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


class _KerasTrainer(KerasTrainerParams, Trainer):
    _operator: type[Union[KerasSequentialClassifierTrainBatchOp, KerasSequentialRegressorTrainBatchOp]]
    _model: type[_KerasModel]

    def fit(self, data: BatchOperator) -> TableModelPredictor:
        """Return a predictor with the model that is trained on a table, when it is first needed."""
        self._values_of_all()  # mistakes come to light before anything is trained
        given = self._given()
        train = {param.name: given[param.name] for param in catalog.KERAS_TRAIN if param.name in given}
        predict = {param.name: given[param.name] for param in catalog.KERAS_PREDICT if param.name in given}
        return self._model(**predict).setModelData(data.link(self._operator(**train)))


class KerasSequentialClassifier(_KerasTrainer):
    """Trains a classifier, and predicts with the model.

    Example:
        stage = KerasSequentialClassifier(tensorCol="x", labelCol="label", layers=["Dense(8)"], predictionCol="predicted")
        predicted = stage.fit(data).transform(data)

    Raises:
        ConfigurationError: A parameter is wrong; raised by `fit`, before anything is trained.
    """

    _operator = KerasSequentialClassifierTrainBatchOp
    _model = KerasSequentialClassificationModel


class KerasSequentialRegressor(_KerasTrainer):
    """Trains a model that predicts a number, and predicts with it, see `KerasSequentialClassifier`."""

    _operator = KerasSequentialRegressorTrainBatchOp
    _model = KerasSequentialRegressionModel
