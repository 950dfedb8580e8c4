"""Prediction with a saved pipeline in a plain Python program, without Flink and Java."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from akdl.folders import owned_folder
from akdl.storage.archive import Counted, Counter, Limits, damage_is_named
from akdl.storage.files import FileError, fetch
from akdl.storage.limits import TEXT
from akdl.storage.model_archive import ModelError
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, schema_text
from operators.alink.ak_file import is_ak_file
from operators.alink.missing_names import WithHints
from operators.alink.saved_pipeline import SAVED_MODEL, AlinkStage, read_alink_pipeline
from operators.params.accessors import PredictStreamParams
from operators.params.saved import KNOWN, saved_params
from operators.prepare.model_file import packed_model, packed_rows

if TYPE_CHECKING:
    import numpy as np

    from akdl.serving.row_predictor import RowPredictor

DESCRIPTION = "pipeline.json"  # entry of a saved pipeline that lists its stages


class LocalPredictor(WithHints):
    """Predicts rows one by one or in batches, with a saved pipeline model. This program needs TensorFlow.

    The methods are thread-safe.

    Args:
        path: File written by `PipelineModel.save`, at any address: a path, http(s), or an address for fsspec.
        inputSchemaStr: Columns of the rows: "name type, name type".
        trusted: Accept parameters that name code, hosts, files or environments, see `PipelineModel.load`.

    Example:
        with LocalPredictor("pipeline.akdl", "x0 FLOAT, x1 FLOAT") as predictor:
            print(predictor.map((0.5, -0.25)))

    Raises:
        ConfigurationError: The file is not a pipeline, or its stages do not fit the columns.
    """

    def __init__(self, path: str, inputSchemaStr: str, trusted: bool = False) -> None:
        owned_folder.sweep()
        self._owned = owned_folder.OwnedFolder("akdl_local_")
        self._owned.remove_at_exit()
        self._folder = self._owned.path
        self._models: list[RowPredictor] = []
        try:
            columns: Sequence[Column] = Schema.parse(inputSchemaStr).columns
            for stage in read_pipeline(path, self._folder, trusted):
                model, columns = _load(stage, columns)
                self._models.append(model)
        except BaseException:
            self.close()
            raise
        self._columns = columns

    def getOutputColNames(self) -> list[str]:
        """Return the names of the output columns."""
        return [column.name for column in self._columns]

    def getOutputColTypes(self) -> list[str]:
        """Return the types of the output columns."""
        return [column.type.sql for column in self._columns]

    def getOutputSchemaStr(self) -> str:
        """Return names and types of the output columns, in the format of `getSchemaStr` of operators."""
        return schema_text(self.getOutputColNames(), self.getOutputColTypes())

    def map(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Predict one row, with values in the order of the input columns; RowsError if it cannot be predicted."""
        return self.map_batch([row])[0]

    def predict(self, values: Sequence[Any] | np.ndarray[Any, Any]) -> list[Any]:
        """Predict one row, a sequence or a one-dimensional array, and return a list."""
        return list(self.map(values.tolist() if hasattr(values, "tolist") else values))

    def map_batch(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Predict many rows, faster than one by one."""
        result: list[Any] = list(rows)
        for model in self._models:
            result = model.map_batch(result)
        return result

    def open(self) -> None:
        """Do nothing: a predictor is open from the start."""

    def close(self) -> None:
        """Release the models. Safe to call twice."""
        for model in self._models:
            model.close()
        self._owned.remove()

    def __enter__(self) -> LocalPredictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_pipeline(address: str, folder: str, trusted: bool) -> list[dict[str, Any]]:
    """Read the stages of a saved pipeline: type, params, and `model`, a file that is unpacked to `folder`."""
    fetched = os.path.join(folder, "fetched")
    os.makedirs(fetched, exist_ok=True)
    try:
        path = fetch(address, fetched)
    except FileError as error:
        raise ConfigurationError(f"the saved pipeline model cannot be read: {error}") from None
    if is_ak_file(path):
        return [_of_alink(path, stage, trusted) for stage in read_alink_pipeline(path, KNOWN)]
    try:
        with damage_is_named(), zipfile.ZipFile(path) as file:
            with file.open(DESCRIPTION) as described:
                description = json.loads(TEXT.read(described))
            counter = Counter(Limits.of(os.environ), os.path.getsize(path))
            if description["version"] != 1:
                raise ConfigurationError(f"{path}: expected a pipeline model of version 1, got {description['version']}")
            stages: list[dict[str, Any]] = description["stages"]
            for number, stage in enumerate(stages):
                stage["params"] = saved_params(f"{path}, stage {number}", stage["params"], trusted)
                # The name does not come from the file, which could otherwise choose where it is written.
                target = os.path.join(folder, f"akdl_model_{os.path.basename(folder)}_{number}.zip")
                with file.open(f"model_{number}.zip") as source, open(target, "wb") as copy:
                    shutil.copyfileobj(Counted(source, counter), copy)
                stage["model"] = target
        return stages
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} is not a saved pipeline model: {error}") from None


def _of_alink(path: str, stage: AlinkStage, trusted: bool) -> dict[str, Any]:
    params = saved_params(f"{path}, stage {stage.kind}", stage.params, trusted)
    model_path, model_file = params.pop("modelPath", None), params.pop("modelFilePath", None)
    try:
        if stage.kind == SAVED_MODEL:
            if model_path is None:
                raise ConfigurationError(f"{path}: the stage {stage.kind} has no modelPath")
            model, params["cellsHoldBatches"] = packed_model(model_path), True
        elif model_file is not None:
            raise ConfigurationError(
                f"{path}: the model of the stage {stage.kind} is in another file: create a {stage.kind} with its "
                "modelFilePath instead"
            )
        else:
            model = packed_rows(stage.model)
    except (FileError, ModelError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return {"type": stage.kind, "params": params, "model": model}


def _load(stage: dict[str, Any], columns: Sequence[Column]) -> tuple[RowPredictor, Sequence[Column]]:
    from akdl.serving.row_predictor import RowPredictor

    params, outputs = PredictStreamParams(**stage["params"])._values_of_all(), Schema.parse(stage["params"]["outputSchemaStr"])
    model = RowPredictor(
        stage["model"],
        [column.name for column in columns],
        [(column.name, column.type.sql) for column in outputs],
        selected_cols=params["selectedCols"],
        input_signature_defs=params["inputSignatureDefs"],
        output_signature_defs=params["outputSignatureDefs"],
        signature_def_key=params["signatureDefKey"],
        graph_def_tag=params["graphDefTag"],
        reserved_cols=params["reservedCols"],
        infer_batch_size=params["inferBatchSize"],
        infer_batch_bytes=params["inferBatchBytes"],
        intra_op_parallelism=params["intraOpParallelism"],
        cells_hold_batches=params["cellsHoldBatches"],
        defaults=json.loads(params["defaults"]),
    )
    by_name = {column.name: column for column in (*columns, *outputs)}
    return model, [by_name[name] for name in model.output_columns]
