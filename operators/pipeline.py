"""Pipelines: stages that train on a table and then predict tables, as one thing that can be saved."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import replace
from typing import Any, Generic, TypeVar, Union, cast

from akdl.storage.files import FileError
from akdl.storage.model_archive import ModelError
from akdl.storage.whole_file import WholeFile
from bridge.exceptions import ConfigurationError
from bridge.folders.program_folder import named_by_content, program_folder
from operators.batch_operator import BatchOperator
from operators.local_predictor import DESCRIPTION, LocalPredictor, fetch_pipeline, read_pipeline
from operators.params.accessors import PredictStreamParams, SavedModelPredictStreamParams, TrainerParams
from operators.params.param import WithParams
from operators.params.rendering import Description, Rendered
from operators.params.saved import HARMLESS
from operators.predict_batch import (
    TableModelPredictBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictBatchOp,
    pack_model_table,
    packed_address,
)
from operators.predict_stream import TableModelPredictStreamOp, TFSavedModelPredictStreamOp, TFTableModelPredictStreamOp
from operators.prepare.model_file import packed_model
from operators.script import TF2TableModelTrainBatchOp, TFTableModelTrainBatchOp
from operators.sinks import AkSinkBatchOp
from operators.stream_operator import StreamOperator

_Op = TypeVar("_Op", bound=Union[BatchOperator, StreamOperator])
_Table = TypeVar("_Table", bound="TableModelPredictor")


class _Predictor(WithParams):
    """A stage that predicts."""

    def transform(self, data: _Op) -> _Op:
        """Return the table or stream with the model's outputs."""
        raise NotImplementedError

    def collectLocalPredictor(self, inputSchemaStr: str) -> LocalPredictor:
        """Return a predictor for this program. The job that trains the model runs now, if it has not run yet.

        Args:
            inputSchemaStr: Columns of the rows that it will get: "name type, name type".
        """
        return PipelineModel(self).collectLocalPredictor(inputSchemaStr)

    def _model_file(self) -> str:
        """Return the path of a file with the model."""
        raise NotImplementedError


class TableModelPredictor(_Predictor):
    """Predicts with a model table, or with a file, see `setModelFilePath`; the kinds differ in their parameters."""

    _batch: type[TableModelPredictBatchOp]
    _stream: type[TableModelPredictStreamOp]

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._model: BatchOperator | None = None
        self._file: str | None = None

    def setModelData(self: _Table, model: BatchOperator) -> _Table:
        """Set the operator whose table holds the model."""
        self._model = model
        return self

    def getModelData(self) -> BatchOperator:
        """Return the operator whose table holds the model.

        Raises:
            ConfigurationError: The model came from a file.
        """
        if self._model is None:
            raise ConfigurationError(
                f"{type(self).__name__}.getModelData: this model came from a file and not from a table: save() writes it"
            )
        return self._model

    def transform(self, data: _Op) -> _Op:
        """Return the table or stream with the model's outputs."""
        if isinstance(data, StreamOperator):
            return cast("_Op", _operator_of(self._stream, self)._predict_with(self._model_file(), data))
        return cast("_Op", _operator_of(self._batch, self)._predict_with(self._model_file(), data))

    def _model_file(self) -> str:
        if self._file is None:
            self._file = self._packed_model()
        return self._file

    def _packed_model(self) -> str:
        name, path = type(self).__name__, self._given().get("modelFilePath")
        if self._model is not None:
            return pack_model_table(self._model)
        if path is None:
            raise ConfigurationError(f"{name} has no model: call setModelData or setModelFilePath, or fit a trainer")
        return packed_address(name, path)


class TFTableModelPredictor(PredictStreamParams, TableModelPredictor):
    """Predicts with a model table, see `setModelData`, or with a file, see `setModelFilePath`.

    Example:
        predictor = TFTableModelPredictor(modelFilePath="model.ak", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"])
        predicted = predictor.transform(data)
    """

    _batch = TFTableModelPredictBatchOp
    _stream = TFTableModelPredictStreamOp


class TFSavedModelPredictor(SavedModelPredictStreamParams, _Predictor):
    """Predicts with a SavedModel: a folder, or a zip or tar file, at any address.

    Example:
        predictor = TFSavedModelPredictor(modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"])
        predicted = predictor.transform(data)
    """

    def transform(self, data: _Op) -> _Op:
        """Return the table or stream with the model's outputs."""
        kind: Any = TFSavedModelPredictStreamOp if isinstance(data, StreamOperator) else TFSavedModelPredictBatchOp
        return cast("_Op", data.link(_operator_of(kind, self)))

    def _model_file(self) -> str:
        try:
            return packed_model(self._values_of_all()["modelPath"])
        except (FileError, ModelError) as error:
            raise ConfigurationError(f"TFSavedModelPredictor: modelPath: {error}") from None


def _operator_of(kind: Any, stage: WithParams) -> Any:
    """Return an operator with the parameters of a stage that it has."""
    known = _names(kind, "modelFilePath")
    return kind(**{name: value for name, value in stage._given().items() if name in known})


class Trainer(WithParams, Generic[_Table]):
    """A stage that trains."""

    _operator: type[Any]  # that trains
    _predictor: type[_Table]  # what `fit` returns

    def fit(self, data: BatchOperator) -> _Table:
        """Return a predictor with the model that is trained on a table, when it is first needed."""
        self._values_of_all()  # mistakes come to light before anything is trained
        given = self._given()
        model = data.link(self._operator(**{name: given[name] for name in _names(self._operator) if name in given}))
        if "modelFilePath" in given:
            model.link(AkSinkBatchOp(filePath=given["modelFilePath"], overwriteSink=given.get("overwriteSink", False)))
        # selectedCols are those of the training: the predictor's have a name of their own.
        predict = {name: given[name] for name in _names(self._predictor, "selectedCols", "modelFilePath") if name in given}
        if "inferSelectedCols" in given:
            predict["selectedCols"] = given["inferSelectedCols"]
        return self._predictor(**predict).setModelData(model)

    def fitAndTransform(self, data: BatchOperator) -> BatchOperator:
        """Train on a table and predict it."""
        return self.fit(data).transform(data)


def _names(kind: type[WithParams], *without: str) -> list[str]:
    return [param.name for param in kind.params if param.name not in without]


class TFTableModelTrainer(TrainerParams, Trainer[TFTableModelPredictor]):
    """Trains with a TensorFlow 1 style script, and predicts with the model, see `TF2TableModelTrainer`."""

    _operator = TFTableModelTrainBatchOp
    _predictor = TFTableModelPredictor


class TF2TableModelTrainer(TrainerParams, Trainer[TFTableModelPredictor]):
    """Trains with a TensorFlow 2 script, as `TF2TableModelTrainBatchOp` does, and predicts with the model.

    Example:
        trainer = TF2TableModelTrainer(mainScriptFile="train.py", outputSchemaStr="logits DOUBLE", inferSelectedCols=["x0"])
        predicted = trainer.fit(data).transform(data)

    Raises:
        ConfigurationError: A parameter is wrong; raised by `fit`, before anything is trained.
    """

    _operator = TF2TableModelTrainBatchOp
    _predictor = TFTableModelPredictor


class Pipeline(Rendered):
    """Stages that run one after the other; trainers among them have to be trained first.

    Example:
        model = Pipeline(trainer).fit(data)
        model.save("pipeline.akdl")
    """

    def __init__(self, *stages: Trainer[Any] | _Predictor) -> None:
        self._stages = list(stages)

    def _description(self) -> Description:
        return replace(super()._description(), settings={str(i): repr(stage) for i, stage in enumerate(self._stages)})

    def add(self, *stage: Any) -> Pipeline:
        """Add a stage at the end; or, with a number in front of it, at that place."""
        place, added = stage if len(stage) == 2 else (self.size(), *stage)
        self._stages.insert(place, added)
        return self

    def get(self, index: int) -> Trainer[Any] | _Predictor:
        """Return a stage, counted from 0."""
        return self._stages[index]

    def remove(self, index: int) -> Trainer[Any] | _Predictor:
        """Take out a stage, counted from 0, and return it."""
        return self._stages.pop(index)

    def size(self) -> int:
        """Return the number of stages."""
        return len(self._stages)

    def save(self, path: str | None = None, overwrite: bool = False, numFiles: int = 1) -> None:
        """Refuse: only what is trained can be saved."""
        raise ConfigurationError("Pipeline.save: only trained stages can be saved: fit(data).save(path)")

    @staticmethod
    def load(path: str) -> None:
        """Refuse: only what is trained is saved."""
        raise ConfigurationError("Pipeline.load: only trained stages are saved: PipelineModel.load(path) reads them")

    @staticmethod
    def collectLoad(operator: BatchOperator) -> None:
        """Refuse: pipelines are files and no tables."""
        raise _no_table()

    def fitAndTransform(self, data: BatchOperator) -> BatchOperator:
        """Train on a table and predict it."""
        return self.fit(data).transform(data)

    def fit(self, data: BatchOperator) -> PipelineModel:
        """Train what has to be trained, each stage on what those before it make of the table."""
        fitted: list[_Predictor] = []
        for stage in self._stages:
            if fitted:
                data = fitted[-1].transform(data)
            fitted.append(stage.fit(data) if isinstance(stage, Trainer) else stage)
        return PipelineModel(*fitted)


class PipelineModel(Rendered):
    """Stages that predict, one after the other: what `fit` of a `Pipeline` returns.

    Example:
        predicted = PipelineModel.load("pipeline.akdl").transform(data)
    """

    def __init__(self, *stages: _Predictor) -> None:
        self._stages = list(stages)

    def _description(self) -> Description:
        return replace(super()._description(), settings={str(i): repr(stage) for i, stage in enumerate(self._stages)})

    def transform(self, data: _Op) -> _Op:
        """Return the table or stream with the outputs of all stages."""
        for stage in self._stages:
            data = stage.transform(data)
        return data

    def getTransformers(self) -> list[_Predictor]:
        """Return the stages."""
        return list(self._stages)

    def save(self, path: str, overwrite: bool = True, numFiles: int = 1) -> PipelineModel:
        """Write the stages with their models to a file; jobs that train the models run now, if they have not run yet.

        Args:
            path: Of the file.
            overwrite: Whether a file that exists is replaced; otherwise it is an error.
            numFiles: Always 1.

        Raises:
            ConfigurationError: The file exists and is not to be replaced.
        """
        if not isinstance(path, str) or numFiles != 1:
            raise ConfigurationError(
                "PipelineModel.save: expected the path of one file: models of pipelines do not become tables; the model table "
                "of one stage is getTransformers()[0].getModelData()"
            )
        if not overwrite and os.path.exists(path):
            raise ConfigurationError(f"PipelineModel.save: {path} exists already, and overwrite is False")
        stages = [{"type": type(stage).__name__, "params": _portable(stage)} for stage in self._stages]
        with WholeFile(path) as whole, zipfile.ZipFile(whole, "w") as file:
            for number, stage in enumerate(self._stages):
                file.write(stage._model_file(), f"model_{number}.zip")
            file.writestr(DESCRIPTION, json.dumps({"version": 1, "stages": stages}, indent=1))
        BatchOperator._has_run = True
        return self

    @staticmethod
    def load(path: str, trusted: bool = False) -> PipelineModel:
        """Read what `save` has written, at any address: a path, http(s), or what fsspec reaches.

        Args:
            path: Of the file.
            trusted: Whether the file may name code, hosts, files or environments, such as `pythonEnv` and `envVars`, or
                `modelPath` in a pipeline of Alink. Only for files whose maker you trust.

        Raises:
            ConfigurationError: The file is no pipeline model, or names something of the kind and is not trusted.
        """
        model = PipelineModel()
        folder = tempfile.mkdtemp(dir=program_folder())
        for stage in read_pipeline(fetch_pipeline(path, folder), folder, trusted):
            predictor = TFTableModelPredictor(**stage["params"])
            predictor._file = named_by_content(stage["model"], "model")[0]
            model._stages.append(predictor)
        return model

    @staticmethod
    def collectLoad(operator: BatchOperator) -> None:
        """Refuse: pipelines are files and no tables."""
        raise _no_table()

    def collectLocalPredictor(self, inputSchemaStr: str) -> LocalPredictor:
        """Return a predictor for this program, see `LocalPredictor`.

        Args:
            inputSchemaStr: Columns of the rows that it will get: "name type, name type".
        """
        with tempfile.TemporaryDirectory(dir=program_folder()) as folder:
            path = os.path.join(folder, "pipeline")
            self.save(path)
            return LocalPredictor(path, inputSchemaStr)


def _no_table() -> ConfigurationError:
    return ConfigurationError("collectLoad: PipelineModel.load(path) reads pipelines from files, those of Alink too")


def _portable(stage: _Predictor) -> dict[str, Any]:
    """Return the parameters of a predictor that have a meaning elsewhere: not where its model or its Python is here."""
    values = stage._values_of_all()
    return {name: value for name, value in values.items() if name in HARMLESS}
