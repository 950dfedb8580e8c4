"""KerasSequential operators and stages: a Keras model of layers as text predicts labels or numbers
from one ARRAY column.
"""

from __future__ import annotations

import inspect
import json
import os
import zipfile
from typing import Any

from akdl.models.tf.keras_sequential.layer_text import (
    LAYERS,
    OPTIMIZERS,
    LayerTextError,
    parse_call,
)
from akdl.storage.archive import damage_is_named
from akdl.storage.limits import TEXT
from akdl.wire.column_type import FLOATS, INTEGERS, Kind
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import quoted
from operators.base.job import schema_of
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.flink.env import prepare_for_batch
from operators.params import catalog
from operators.params.accessors import (
    KerasPredictParams,
    KerasPredictStreamParams,
    KerasTrainerParams,
    KerasTrainParams,
)
from operators.params.param import Param
from operators.pipeline import TableModelPredictor, Trainer
from operators.predict_batch import TableModelPredictBatchOp
from operators.predict_stream import TableModelPredictStreamOp
from operators.script import ScriptOp

# The script imports TensorFlow, which this program may not have. So its folder is found by a module
# next to it that can be imported without TensorFlow.
SCRIPT = f"{os.path.dirname(inspect.getfile(parse_call))}/keras_sequential_main.py"
# The script writes this file into the SavedModel: the column that feeds the model and the types of
# its results, which the predict operators need.
FACTS = "assets.extra/keras_sequential.json"

_NUMBERS = {*INTEGERS, *FLOATS}


class _KerasTrainBatchOp(KerasTrainParams, ScriptOp, BatchOperator):
    """Base of the operators that train; they differ in the type of the label column."""

    _kind = "train"
    _has_own_script = True
    _checkpoint_param = "checkpointFilePath"
    _label_kinds: frozenset[Kind]
    _with_labels: bool

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Train on a table, when the model is requested."""
        (op,) = self._inputs(ops, "one BatchOperator")
        values = self._values_of_all()
        self._check_known("tensorCol and labelCol", values["selectedCols"], op.getColNames())
        selection = op.select(values["selectedCols"])
        self._check_types(selection)
        labels = (
            # The labels are an extra input, which each process receives in full, because a worker's
            # share may lack some of them.
            [selection.select(f"DISTINCT {quoted(values['selectedCols'][1])}")]
            if self._with_labels
            else []
        )
        self._link((selection, *labels), prepare_for_batch)
        return self

    def _check_types(self, selection: BatchOperator) -> None:
        name = self._name
        tensor, label = schema_of(name, selection.getOutputTable())
        if not tensor.type.is_array or tensor.type.kind not in _NUMBERS:
            raise ConfigurationError(
                f"{name}: tensorCol: expected an ARRAY column of numbers, got {tensor.name}"
                f" {tensor.type.sql}: convert text with toTensor"
            )
        if label.type.is_array or label.type.kind not in self._label_kinds:
            kinds = ", ".join(kind.value for kind in Kind if kind in self._label_kinds)
            raise ConfigurationError(
                f"{name}: labelCol: expected a column of type {kinds}, got {label.name}"
                f" {label.type.sql}: CAST it in SQL"
            )

    def _values_of_all(self) -> dict[str, Any]:
        own = super()._values_of_all()
        name = self._name
        evaluates = own["validationSplit"] > 0
        for parameter, texts, module in (
            ("layers", own["layers"], LAYERS),
            ("optimizer", [own["optimizer"]], OPTIMIZERS),
        ):
            with refused_at(f"{name}: {parameter}", LayerTextError):
                for text in texts:
                    parse_call(text, module)
        if own["saveBestOnly"] and not evaluates:
            raise ConfigurationError(
                f"{name}: saveBestOnly needs rows for evaluation: set validationSplit"
            )
        if evaluates and own["numWorkers"] not in (None, 1):
            raise ConfigurationError(
                f"{name}: validationSplit needs numWorkers=1, got {own['numWorkers']}"
            )
        params = {
            param.name: own[param.name]
            for param in catalog.KERAS_TRAIN
            if param not in catalog.TRAIN
        }
        columns = [own["tensorCol"], own["labelCol"]]
        return {
            **_defaults(catalog.TRAIN),
            **{param.name: own[param.name] for param in catalog.TRAIN if param.name in own},
            # The rows for evaluation are the first ones of the table, which only a single worker
            # has.
            "numWorkers": 1 if evaluates else own["numWorkers"],
            "userFiles": [SCRIPT],
            "mainScriptFile": SCRIPT,
            "selectedCols": columns,
            "checkpointFilePath": own["checkpointFilePath"],
            # A float32 of a DOUBLE label would be another label.
            "exactDoubles": self._with_labels,
            "userParams": json.dumps({**params, "labels": self._with_labels}),
        }


class KerasSequentialClassifierTrainBatchOp(_KerasTrainBatchOp):
    """Trains a classifier of Keras layers; the result is its model table.

    `tensorCol` is an ARRAY column of numbers, fed as float tensors of shape [batch, length]. Labels
    are numbers, strings or booleans, and are stored in the model.

    Example:
        train = KerasSequentialClassifierTrainBatchOp(
            tensorCol="x", labelCol="label", layers=["Dense(8, activation='relu')"]
        )
        model = data.link(train)

    Raises:
        ConfigurationError: A parameter, a layer or the type of a column is wrong.
        TaskError: The training failed; raised by the call that runs the job.
    """

    _label_kinds = frozenset({*_NUMBERS, Kind.BOOLEAN, Kind.STRING})
    _with_labels = True


class KerasSequentialRegressorTrainBatchOp(_KerasTrainBatchOp):
    """Trains a model of Keras layers that predicts a number, see
    `KerasSequentialClassifierTrainBatchOp`.
    """

    _label_kinds = frozenset(_NUMBERS)
    _with_labels = False


class KerasPrediction(Operator[Any]):
    """Mixin of predict operators that read parameters from the model."""

    _model_file: str | None = None

    def _predict_with(self, model: str, *ops: Any) -> Any:
        self._model_file = model
        return super()._predict_with(model, *ops)  # type: ignore[misc]

    def _values_of_all(self) -> dict[str, Any]:
        own: dict[str, Any] = super()._values_of_all()  # type: ignore[misc]
        if self._model_file is None:
            return own
        return prediction_values(self._name, own, self._model_file)


def prediction_values(name: str, own: dict[str, Any], model: str) -> dict[str, Any]:
    """Convert values of a KerasSequential predict operator to values of a general one, by the
    description in the model.
    """
    facts = None
    with refused_at(f"{name}: the model is damaged", OSError, ValueError, KeyError, TypeError):
        with damage_is_named(), zipfile.ZipFile(model) as file:
            # The model may stand in a folder of the archive, so only the end of the name is
            # compared.
            for entry in [entry for entry in file.namelist() if entry.endswith(FACTS)][:1]:
                with file.open(entry) as content:
                    facts = json.loads(TEXT.read(content))
        if facts is not None and [type(facts[key]) for key in ("prediction", "tensorCol")] != [
            str,
            str,
        ]:
            raise ValueError("its description has unexpected types")
    if facts is None:
        raise ConfigurationError(
            f"{name}: the model was not trained by a KerasSequential operator: use"
            " TFTableModelPredictBatchOp"
        )
    columns = [f"{quoted(own['predictionCol'])} {facts['prediction']}"]
    outputs = ["prediction"]
    if own["predictionDetailCol"] is not None:
        if not facts["labels"]:
            raise ConfigurationError(
                f"{name}: predictionDetailCol requires a classifier, but the model predicts a"
                " number"
            )
        columns.append(f"{quoted(own['predictionDetailCol'])} STRING")
        outputs.append("detail")
    return {
        **_defaults(catalog.PREDICT),
        **{key: value for key, value in own.items() if not key.startswith("prediction")},
        "selectedCols": [facts["tensorCol"]],
        "inputSignatureDefs": ["tensor"],
        "outputSchemaStr": ", ".join(columns),
        "outputSignatureDefs": outputs,
    }


def _defaults(params: tuple[Param, ...]) -> dict[str, Any]:
    """Defaults of parameters; the callers set the required ones."""
    return {param.name: param.default for param in params}


class KerasSequentialClassifierPredictBatchOp(
    KerasPrediction, KerasPredictParams, TableModelPredictBatchOp
):
    """Predicts labels with the model table of a classifier, from the `tensorCol` of the training.

    Example:
        predict = KerasSequentialClassifierPredictBatchOp(
            predictionCol="label", predictionDetailCol="probabilities"
        )
        predicted = predict.linkFrom(model, data)

    Raises:
        ConfigurationError: A parameter is wrong, or another kind of operator trained the model.
        RowError: A row cannot be predicted and `errorCol` is not set; raised by the call that runs
            the job.
    """


class KerasSequentialRegressorPredictBatchOp(
    KerasPrediction, KerasPredictParams, TableModelPredictBatchOp
):
    """Predicts numbers with the model table of a regressor, see
    `KerasSequentialClassifierPredictBatchOp`.
    """


class KerasSequentialClassifierPredictStreamOp(
    KerasPrediction, KerasPredictStreamParams, TableModelPredictStreamOp
):
    """Predicts labels of a stream with a model table, see `KerasSequentialClassifierPredictBatchOp`
    for errors.

    Example:
        predict = KerasSequentialClassifierPredictStreamOp(model, predictionCol="label")
        predicted = stream.link(predict)
    """


class KerasSequentialRegressorPredictStreamOp(
    KerasPrediction, KerasPredictStreamParams, TableModelPredictStreamOp
):
    """Predicts numbers for a stream with the model table of a regressor, see
    `KerasSequentialClassifierPredictStreamOp`.
    """


class _KerasModel(KerasPredictStreamParams, TableModelPredictor):
    def _values_of_all(self) -> dict[str, Any]:
        """Values of a general predictor, which a saved pipeline contains."""
        return prediction_values(self._name, super()._values_of_all(), self._model_file())


class KerasSequentialClassificationModel(_KerasModel):
    """Predicts labels; the result of `fit`, see `KerasSequentialClassifier`."""

    _batch = KerasSequentialClassifierPredictBatchOp
    _stream = KerasSequentialClassifierPredictStreamOp


class KerasSequentialRegressionModel(_KerasModel):
    """Predicts numbers; the result of `fit`, see `KerasSequentialRegressor`."""

    _batch = KerasSequentialRegressorPredictBatchOp
    _stream = KerasSequentialRegressorPredictStreamOp


class KerasSequentialClassifier(KerasTrainerParams, Trainer[KerasSequentialClassificationModel]):
    """Trains a classifier and predicts with the model. `fit` raises errors before anything is
    trained.

    Example:
        stage = KerasSequentialClassifier(
            tensorCol="x", labelCol="label", layers=["Dense(8)"], predictionCol="predicted"
        )
        predicted = stage.fit(data).transform(data)
    """

    _operator = KerasSequentialClassifierTrainBatchOp
    _predictor = KerasSequentialClassificationModel


class KerasSequentialRegressor(KerasTrainerParams, Trainer[KerasSequentialRegressionModel]):
    """Trains a model that predicts numbers and predicts with it, see
    `KerasSequentialClassifier`.
    """

    _operator = KerasSequentialRegressorTrainBatchOp
    _predictor = KerasSequentialRegressionModel
