"""Operators that predict the rows of a stream with a model, which newer models may replace while
the job runs.
"""

from __future__ import annotations

from typing import Any

from bridge.exceptions import ConfigurationError
from operators.batch_operator import BatchOperator
from operators.flink.env import prepare_for_stream
from operators.params.accessors import (
    AnyPredictStreamParams,
    PredictStreamParams,
    SavedModelPredictStreamParams,
)
from operators.predict_batch import PredictOp, pack_model_table
from operators.prepare.model_file import packed_model
from operators.stream_operator import StreamOperator


class _PredictStreamOp(PredictOp, StreamOperator):
    def _prepare(self, ops: tuple[Any, ...]) -> tuple[StreamOperator, StreamOperator | None]:
        """Check the inputs, adjust their environment to a stream, and return the data and the
        models.
        """
        ops = self._inputs(ops, "the stream to predict, and optionally a stream of models", 1, 2)
        data, models = (*ops, None)[:2]
        table_env = data._table_env
        if models is not None and models._table_env is not table_env:
            raise ConfigurationError(f"{self._name}: all inputs must belong to one environment")
        prepare_for_stream(table_env, self._values_of_all()["chunkWait"], ends_bundles=True)
        return data, models


class TableModelPredictStreamOp(_PredictStreamOp):
    """Base of the stream operators that predict with a model table, that of `model`."""

    def __init__(self, model: BatchOperator | None = None, **params: Any) -> None:
        super().__init__(**params)
        self._model = model

    def linkFrom(self, *ops: StreamOperator) -> StreamOperator:
        """Predict the rows of a stream.

        Args:
            ops: The stream, and optionally a stream of models: rows of model tables, `model_id
                BIGINT, model_info STRING`, one model after the other; or in any order with Alink's
                columns `alinkmodelstreamtimestamp` and `alinkmodelstreamcount`. Each model replaces
                the previous one when it is complete.
        """
        name = self._name
        path = self._values.get("modelFilePath")
        if self._model is None and path is not None:
            self._prepare(ops)
            return self._predict_with(packed_model(f"{name}: modelFilePath", path), *ops)
        if not isinstance(self._model, BatchOperator):
            got = "none" if self._model is None else f"a {type(self._model).__name__}"
            raise ConfigurationError(
                f"{name}: expected a BatchOperator with the first model, as in {name}(model), or"
                f" modelFilePath, got {got}"
            )
        self._check_model_table(self._model, "the model")
        # Errors in the inputs are raised here, before the model is trained.
        self._prepare(ops)
        return self._predict_with(pack_model_table(self._model), *ops)

    def _predict_with(self, model: str, *ops: StreamOperator) -> StreamOperator:
        data, models = self._prepare(ops)
        self._predict(data, model, models)
        return self


class TFTableModelPredictStreamOp(PredictStreamParams, TableModelPredictStreamOp):
    """Predicts a stream with a model table.

    The job that computes the model runs when this operator is linked, once for all operators that
    use the model. Rows, shapes, dtypes and errors are the same as in `TFTableModelPredictBatchOp`.
    A row waits at most `chunkWait` seconds for its batch.

    Args:
        model: The operator whose table holds the model.
        params: Values of parameters.

    Example:
        predict = TFTableModelPredictStreamOp(
            model, outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predictions = stream.link(predict)
    """


class PredictStreamOp(AnyPredictStreamParams, _PredictStreamOp):
    """Predicts a stream with a model of any kind or a function, the same as for `PredictBatchOp`.

    A row waits at most `chunkWait` seconds for its batch. With `modelStreamFilePath` or a second
    input, newer models replace the model while the job runs; a function needs a `modelPath` for
    that, and is called for each of them.

    Example:
        score = PredictStreamOp(
            predictFn="score.py:load", selectedCols=["x0"], outputSchemaStr="y FLOAT"
        )
        scored = stream.link(score)
    """

    def linkFrom(self, *ops: StreamOperator) -> StreamOperator:
        """Predict the rows of a stream; takes the inputs of
        `TFTableModelPredictStreamOp.linkFrom`.
        """
        self._predict_at_path(*self._prepare(ops))
        return self


class TFSavedModelPredictStreamOp(SavedModelPredictStreamParams, PredictStreamOp):
    """Predicts a stream with a SavedModel: a folder, or a zip or tar file, at any address.

    Rows, shapes, dtypes and errors are the same as in `TFTableModelPredictBatchOp`. With
    `modelStreamFilePath` or a second input, newer models replace the model while the job runs.

    Example:
        predict = TFSavedModelPredictStreamOp(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predictions = stream.link(predict)
    """
