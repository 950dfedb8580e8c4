"""Pipelines: a sequence of stages that train and predict, and that can be saved as one file."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
import zipfile
from typing import Any, Generic, TypeVar, Union, cast

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, local_path
from akdl.storage.local_files import WholeFile
from akdl.wire import Serving
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.program_folder import named_by_content, program_folder
from operators.batch_operator import BatchOperator
from operators.data.sinks import AkSinkBatchOp
from operators.local_predictor import DESCRIPTION, LocalPredictor, read_pipeline
from operators.params.accessors import (
    AnyPredictStreamParams,
    PredictStreamParams,
    SavedModelPredictStreamParams,
    TrainerParams,
)
from operators.params.param import Param, WithParams
from operators.params.rendering import Description, Rendered
from operators.params.saved import HARMLESS
from operators.predict_batch import (
    PredictBatchOp,
    PredictOp,
    TFTableModelPredictBatchOp,
    pack_model_table,
)
from operators.predict_stream import PredictStreamOp, TFTableModelPredictStreamOp
from operators.prepare.model_file import packed_model
from operators.script import TF2TableModelTrainBatchOp, TFTableModelTrainBatchOp
from operators.stream_operator import StreamOperator

_Op = TypeVar("_Op", bound=Union[BatchOperator, StreamOperator])
_Stage = TypeVar("_Stage")
_Table = TypeVar("_Table", bound="TableModelPredictor")


class _Predictor(WithParams):
    """A stage that predicts, with an operator for tables and one for streams."""

    _batch: type[PredictOp]
    _stream: type[PredictOp]

    def transform(self, data: _Op) -> _Op:
        """Add the model's outputs to a table or stream."""
        kind = self._stream if isinstance(data, StreamOperator) else self._batch
        return cast("_Op", self._linked(_operator_of(kind, self), data))

    def _linked(self, operator: PredictOp, data: object) -> object:
        return operator.linkFrom(data)

    def collectLocalPredictor(self, inputSchemaStr: str) -> LocalPredictor:
        """Return a predictor for this program, see `PipelineModel.collectLocalPredictor`."""
        return PipelineModel(self).collectLocalPredictor(inputSchemaStr)

    def _model_file(self) -> str:
        raise NotImplementedError


class TableModelPredictor(_Predictor):
    """Base of stages that predict with a model table, or with a file, see `setModelFilePath`."""

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._model: BatchOperator | None = None
        self._file: str | None = None

    def setModelData(self: _Table, model: BatchOperator) -> _Table:
        """Set the operator whose table contains the model."""
        self._model = model
        self._file = None
        return self

    def getModelData(self) -> BatchOperator:
        """Return the operator whose table contains the model; ConfigurationError if it is from a
        file.
        """
        if self._model is None:
            raise ConfigurationError(
                f"{type(self).__name__}.getModelData: the model is from a file, not from a table:"
                " use save() to write it"
            )
        return self._model

    def _set(self, param: Param, name: str, value: object) -> None:
        super()._set(param, name, value)
        # The source of the model that was set last counts.
        if param.name == "modelFilePath" and value is not None:
            self._model = self._file = None

    def _linked(self, operator: Any, data: object) -> object:
        return operator._predict_with(self._model_file(), data)

    def _model_file(self) -> str:
        path = self._values.get("modelFilePath")
        # The file is stored, so the model is trained or fetched once for all uses of this stage.
        if self._file is None and self._model is not None:
            self._file = pack_model_table(self._model)
        elif self._file is None:
            if path is None:
                raise ConfigurationError(
                    f"{self._name} has no model: call setModelData or setModelFilePath, or fit a"
                    " trainer"
                )
            self._file = packed_model(f"{self._name}: modelFilePath", path)
        return self._file


class TFTableModelPredictor(PredictStreamParams, TableModelPredictor):
    """Predicts with a model table, see `setModelData`, or with a file, see `setModelFilePath`.

    Example:
        predictor = TFTableModelPredictor(
            modelFilePath="model.ak", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predicted = predictor.transform(data)
    """

    _batch = TFTableModelPredictBatchOp
    _stream = TFTableModelPredictStreamOp


class Predictor(AnyPredictStreamParams, _Predictor):
    """Predicts with a model of any kind or a function, see `PredictBatchOp`. A saved pipeline holds
    the files of a function.

    Example:
        predictor = Predictor(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predicted = predictor.transform(data)
    """

    _batch = PredictBatchOp
    _stream = PredictStreamOp

    def _model_file(self) -> str:
        path = self._values_of_all()["modelPath"]
        is_any = bool(self._values.keys() & {"modelKeyCol", "predictFn"})
        return packed_model(f"{self._name}: modelPath", path, is_any) if path else ""


class TFSavedModelPredictor(SavedModelPredictStreamParams, Predictor):
    """Predicts with a SavedModel: a folder, or a zip or tar file, at any address.

    Example:
        predictor = TFSavedModelPredictor(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predicted = predictor.transform(data)
    """


def _operator_of(kind: Any, stage: WithParams) -> Any:
    """Operator with the parameters that it shares with a stage."""
    # The stage has the model already, so the operator does not read it again.
    return kind(**_shared(stage, kind, "modelFilePath"))


class Trainer(WithParams, Generic[_Table]):
    """A stage that trains."""

    _operator: type[Any]
    _predictor: type[_Table]

    def fit(self, data: BatchOperator) -> _Table:
        """Return a predictor; its model is trained on the table when it is first needed."""
        # Errors in parameters are raised here, before anything is trained.
        self._values_of_all()
        given = self._values
        model = data.link(self._operator(**_shared(self, self._operator)))
        if "modelFilePath" in given:
            model.link(
                AkSinkBatchOp(
                    filePath=given["modelFilePath"], overwriteSink=given.get("overwriteSink", False)
                )
            )
        # Both stages have a parameter selectedCols. The trainer's own belongs to the training, and
        # its inferSelectedCols becomes the predictor's selectedCols.
        predict = _shared(self, self._predictor, "selectedCols", "modelFilePath")
        if "inferSelectedCols" in given:
            predict["selectedCols"] = given["inferSelectedCols"]
        return self._predictor(**predict).setModelData(model)

    def fitAndTransform(self, data: BatchOperator) -> BatchOperator:
        """Train on a table and predict its rows."""
        return self.fit(data).transform(data)


def _shared(stage: WithParams, kind: type[WithParams], *without: str) -> dict[str, object]:
    """Values of a stage that its operator has as parameters too."""
    known = {param.name for param in kind.params}.difference(without)
    return {name: value for name, value in stage._values.items() if name in known}


class TFTableModelTrainer(TrainerParams, Trainer[TFTableModelPredictor]):
    """Trains with a TensorFlow 1 style script and predicts with the model, see
    `TF2TableModelTrainer`.
    """

    _operator = TFTableModelTrainBatchOp
    _predictor = TFTableModelPredictor


class TF2TableModelTrainer(TrainerParams, Trainer[TFTableModelPredictor]):
    """Trains with a TensorFlow 2 script, like `TF2TableModelTrainBatchOp`, and predicts with the
    model.

    `fit` raises errors about parameters, before anything is trained.

    Example:
        trainer = TF2TableModelTrainer(
            mainScriptFile="train.py",
            numWorkers=1,
            numPSs=0,
            outputSchemaStr="logits DOUBLE",
            inferSelectedCols=["x0"],
        )
        predicted = trainer.fit(data).transform(data)
    """

    _operator = TF2TableModelTrainBatchOp
    _predictor = TFTableModelPredictor


class _Stages(Rendered, Generic[_Stage]):
    def __init__(self, *stages: _Stage) -> None:
        self._stages = list(stages)

    def _description(self) -> Description:
        return (
            super()
            ._description()
            ._replace(settings={str(i): repr(stage) for i, stage in enumerate(self._stages)})
        )

    @staticmethod
    def collectLoad(operator: BatchOperator) -> None:
        """Raise an error: pipelines are saved in files, not in tables."""
        raise ConfigurationError(
            "collectLoad: pipelines are saved in files: load them with PipelineModel.load(path)"
        )


class Pipeline(_Stages[Union[Trainer[Any], _Predictor]]):
    """Sequence of stages, of which trainers have to be trained first.

    Example:
        model = Pipeline(trainer).fit(data)
        model.save("pipeline.akdl")
    """

    def add(self, *stage: Any) -> Pipeline:
        """Append a stage, or insert it at an index given as the first argument."""
        # Alink's `add` takes a stage, or an index and a stage.
        place, added = stage if len(stage) == 2 else (self.size(), *stage)
        self._stages.insert(place, added)
        return self

    def get(self, index: int) -> Trainer[Any] | _Predictor:
        """Return the stage at an index from 0."""
        return self._stages[index]

    def remove(self, index: int) -> Trainer[Any] | _Predictor:
        """Remove and return the stage at an index from 0."""
        return self._stages.pop(index)

    def size(self) -> int:
        """Return the number of stages."""
        return len(self._stages)

    def save(self, path: str | None = None, overwrite: bool = False, numFiles: int = 1) -> None:
        """Raise an error: only trained stages can be saved."""
        raise ConfigurationError(
            "Pipeline.save: only trained stages can be saved: call fit(data).save(path)"
        )

    @staticmethod
    def load(path: str) -> None:
        """Raise an error: only trained stages can be saved."""
        raise ConfigurationError(
            "Pipeline.load: only trained stages can be saved: load them with"
            " PipelineModel.load(path)"
        )

    def fitAndTransform(self, data: BatchOperator) -> BatchOperator:
        """Train on a table and predict its rows."""
        return self.fit(data).transform(data)

    def fit(self, data: BatchOperator) -> PipelineModel:
        """Train the trainers in order, each on the output of the stages before it."""
        fitted: list[_Predictor] = []
        for stage in self._stages:
            if fitted:
                data = fitted[-1].transform(data)
            fitted.append(stage.fit(data) if isinstance(stage, Trainer) else stage)
        return PipelineModel(*fitted)


class PipelineModel(_Stages[_Predictor]):
    """Sequence of stages that predict, the result of `Pipeline.fit`.

    Example:
        predicted = PipelineModel.load("pipeline.akdl").transform(data)
    """

    def transform(self, data: _Op) -> _Op:
        """Add the outputs of all stages to a table or stream."""
        for stage in self._stages:
            data = stage.transform(data)
        return data

    def getTransformers(self) -> list[_Predictor]:
        """Return the stages."""
        return list(self._stages)

    def save(self, path: str, overwrite: bool = True, numFiles: int = 1) -> PipelineModel:
        """Write the stages and their models to a file. Jobs that train the models run now, unless
        they have run already.

        Args:
            path: Path of the file, in an existing folder of this host.
            overwrite: If False, an existing file is an error.
            numFiles: Must be 1.

        Raises:
            ConfigurationError: The file exists and `overwrite` is False, or cannot be written.
        """
        if not isinstance(path, str) or numFiles != 1:
            raise ConfigurationError(
                "PipelineModel.save: expected the path of one file: a pipeline cannot be saved in a"
                " table; the model table of a stage is getTransformers()[0].getModelData()"
            )
        if is_remote(path):
            raise ConfigurationError(
                f"PipelineModel.save: {shown(path)}: only files on this host can be written: save"
                " the pipeline here, and copy the file"
            )
        with refused_at("PipelineModel.save", FileError):
            target = local_path(path)
        if os.path.isdir(target) or (not overwrite and os.path.exists(target)):
            raise ConfigurationError(
                f"PipelineModel.save: {path} exists already; overwrite=True replaces a file"
            )
        stages = [
            {
                "type": stage._name,
                # Parameters that are valid on other machines: no paths of models or environments.
                "params": {
                    name: value
                    for name, value in stage._values_of_all().items()
                    if name in HARMLESS
                },
            }
            for stage in self._stages
        ]
        with refused_at(f"PipelineModel.save: {path} cannot be written", OSError):
            incomplete = WholeFile(target)
        with incomplete as whole, zipfile.ZipFile(whole, "w") as file:
            for number, stage in enumerate(self._stages):
                # A function may need no model.
                if model := stage._model_file():
                    file.write(model, f"model_{number}.zip")
                if "predictFn" in stage._values:
                    serving = Serving(user_params=stage._values_of_all()["userParams"])
                    files, _ = _operator_of(PredictBatchOp, stage)._complete(serving)
                    stages[number]["function"] = {
                        "name": serving.function,
                        "params": serving.user_params,
                    }
                    with (
                        file.open(f"code_{number}.zip", "w") as inner,
                        zipfile.ZipFile(inner, "w") as code,
                    ):
                        for each in files:
                            code.writestr(
                                each.path,
                                (
                                    pathlib.Path(each.shipped).read_bytes()
                                    if each.shipped
                                    else each.content
                                ),
                            )
            file.writestr(DESCRIPTION, json.dumps({"version": 1, "stages": stages}, indent=1))
        # Jobs of the trainings may have run now, so a following `execute` has no reason to
        # complain.
        BatchOperator._has_run = True
        return self

    @staticmethod
    def load(path: str, trusted: bool = False) -> PipelineModel:
        """Load a file written by `save` or by Alink, at any address: a path, http(s), or an address
        for fsspec.

        Args:
            path: Path or address of the file, or of a folder that Alink has written.
            trusted: Accept parameters that name code, hosts, files or environments, such as
                `pythonEnv`, `envVars`, or `modelPath` in a pipeline of Alink. Set it only for files
                whose author you trust.

        Raises:
            ConfigurationError: The file is not a pipeline model, or sets such parameters without
                `trusted`.
        """
        model = PipelineModel()
        # The files are needed as long as the stages predict, so they stay until the program ends.
        folder = tempfile.mkdtemp(dir=program_folder())
        for stage in read_pipeline(path, folder, trusted):
            model_file = named_by_content(stage["model"], "model")[0] if stage["model"] else None
            if "function" in stage:
                function = stage["function"]
                own = {
                    "userFiles": [stage["code"]],
                    "userParams": function["params"],
                    "modelPath": model_file,
                }
                code = os.path.join(stage["code"], function["name"])
                model._stages.append(Predictor(**stage["params"], **own, predictFn=code))
                continue
            predictor = TFTableModelPredictor(**stage["params"])
            predictor._file = model_file
            model._stages.append(predictor)
        return model

    def collectLocalPredictor(self, inputSchemaStr: str) -> LocalPredictor:
        """Return a predictor for rows in this program, see `LocalPredictor`. Jobs that train the
        models run now, once.

        Args:
            inputSchemaStr: Columns of the rows to predict: "name type, name type".
        """
        with tempfile.TemporaryDirectory(dir=program_folder()) as folder:
            path = f"{folder}/pipeline"
            self.save(path)
            # The file is for any host, so it does not name the folder of newer models.
            newer = {
                name: value
                for each in self._stages[-1:]
                for name, value in each._values.items()
                if name.startswith("modelStream")
            }
            # The program itself has named the functions of its stages.
            trusted = [
                "predictFn" in each._values or bool(each._values.get("trusted"))
                for each in self._stages
            ]
            return LocalPredictor(path, inputSchemaStr, trusted, **newer)
