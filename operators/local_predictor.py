"""Prediction with a saved pipeline in a plain Python program, without Flink and Java."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from akdl.folders import owned_folder
from akdl.near_names import listed
from akdl.serving.prediction_errors import BadRow, RowsError, ServingError
from akdl.serving.row_predictor import Predictor, RowPredictor, cells_of, columns_of_rows
from akdl.storage.ak_records import is_ak_file
from akdl.storage.archive import Counted, Counter, Limits, damage_is_named
from akdl.storage.files import FileError, fetch, sha256_of
from akdl.storage.limits import TEXT
from akdl.storage.model_archive import ModelError
from akdl.wire.cells import UNCUT, Array, are_cut
from akdl.wire.column_type import Kind, parse_type
from akdl.wire.columns import Values
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Column, Schema, schema_text
from operators.alink.missing_names import WithHints
from operators.alink.saved_pipeline import SAVED_MODEL, AlinkStage, read_alink_pipeline
from operators.params.accessors import PredictStreamParams
from operators.params.saved import KNOWN, saved_params
from operators.prepare.model_file import packed_model, packed_rows

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTION = "pipeline.json"  # entry of a saved pipeline that lists its stages


class LocalPredictor(WithHints, Predictor):
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
            self._inputs = Schema.parse(inputSchemaStr)
            columns: Sequence[Column] = self._inputs.columns
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

    @overload
    def map_batch(self, rows: pd.DataFrame) -> pd.DataFrame: ...

    @overload
    def map_batch(self, rows: Mapping[str, Values]) -> dict[str, Values]: ...

    @overload
    def map_batch(self, rows: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]: ...

    def map_batch(self, rows: Array) -> Array:
        """Predict many rows, faster than one by one.

        Args:
            rows: A list of rows, a dict of arrays or lists by column, or a pandas DataFrame; the results have the same form.
                Columns of a dict or DataFrame that `inputSchemaStr` lacks are left out.

        Raises:
            RowsError: Some rows cannot be predicted.
        """
        import pandas as pd

        names, is_frame, is_dict = self._inputs.names, isinstance(rows, pd.DataFrame), isinstance(rows, Mapping)
        if (is_frame or is_dict) and (missing := [name for name in names if name not in rows]):
            raise ServingError(f"expected the columns {listed(names)}; the data lacks {listed(missing)}")
        if is_frame:
            given: dict[str, Values] = {name: _with_nulls(rows[name]) for name in names}
        else:
            given = {name: rows[name] for name in names} if is_dict else columns_of_rows(names, rows)
        results, bad = self._map_columns(given, len(given[names[0]]))
        if bad:
            raise RowsError(bad)
        if is_dict:
            return {name: cells if cells is given.get(name) else _array(cells) for name, cells in results.items()}
        if is_frame:
            columns = {name: list(cells) if getattr(cells, "ndim", 1) > 1 else cells for name, cells in results.items()}
            kept = {name: rows[name] for name, cells in results.items() if cells is given.get(name)}
            return pd.DataFrame({**columns, **kept}, index=rows.index)
        return list(zip(*map(cells_of, results.values())))

    def _map_columns(self, columns: Mapping[str, Values], rows: int) -> tuple[dict[str, Values], list[BadRow]]:
        """Predict rows given by column; return the result columns, and the bad rows with their errors."""
        results: dict[str, Values] = dict(columns)
        errors: dict[int, str] = {}
        counts = {name: len(cells) for name, cells in columns.items()}
        if set(counts.values()) != {rows}:
            raise ServingError(f"expected columns with {rows} rows, got {counts}")
        for column in self._inputs:
            if column.type.kind is Kind.BYTES and are_cut(columns[column.name]):
                raise ServingError(f"column {column.name!r} ({column.type.sql}): expected {UNCUT}")
        for model in self._models:
            results, bad = model.map_columns_collecting(results, rows)
            for row, message in bad:
                errors.setdefault(row, message)
        return results, sorted(errors.items())

    def open(self) -> None:
        """Do nothing: a predictor is open from the start."""

    def close(self) -> None:
        """Release the models. Safe to call twice."""
        for model in self._models:
            model.close()
        self._owned.remove()


def _with_nulls(column: pd.Series[Any]) -> Values:
    missing = column.isna()
    return [None if gone else cell for cell, gone in zip(column, missing)] if missing.any() else column.to_numpy()


def _array(column: Values) -> Array:
    return column if isinstance(column, np.ndarray) else np.fromiter(column, object, len(column))


def read_pipeline(address: str, folder: str, trusted: bool) -> list[dict[str, Any]]:
    """Read the stages of a saved pipeline: type, params, and `model`, a file that is unpacked to `folder`."""
    fetched = os.path.join(folder, "fetched")
    os.makedirs(fetched, exist_ok=True)
    with refused_at("the saved pipeline model cannot be read", FileError):
        path = fetch(address, fetched)
    if is_ak_file(path):
        return [_of_alink(path, stage, trusted) for stage in read_alink_pipeline(path, KNOWN)]
    with refused_at(f"{path} is not a saved pipeline model", OSError, AttributeError, KeyError, TypeError, ValueError):
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


def _of_alink(path: str, stage: AlinkStage, trusted: bool) -> dict[str, Any]:
    params = saved_params(f"{path}, stage {stage.kind}", stage.params, trusted)
    model_path, model_file = params.pop("modelPath", None), params.pop("modelFilePath", None)
    with refused_at(path, FileError, ModelError):
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
    return {"type": stage.kind, "params": params, "model": model}


def _load(stage: dict[str, Any], columns: Sequence[Column]) -> tuple[RowPredictor, Sequence[Column]]:
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
        model_col=params["modelCol"],
        model_version=f"akdl_model_{sha256_of(stage['model'])[:32]}" if params["modelCol"] else "",
        model_key_col=params["modelKeyCol"],
        default_model=params["defaultModel"],
        model_cache_bytes=params["modelCacheBytes"],
    )
    texts = [] if params["modelCol"] is None else [Column(params["modelCol"], parse_type("STRING"))]
    by_name = {column.name: column for column in (*columns, *outputs, *texts)}
    return model, [by_name[name] for name in model.output_columns]
