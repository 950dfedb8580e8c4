"""Prediction with a saved pipeline in a plain Python program, without Flink and Java."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from akdl.near_names import listed
from akdl.serving.loaded_model import BadRow, RowsError, ServingError
from akdl.serving.model_store import ModelStore
from akdl.storage.ak_records import is_ak_file
from akdl.storage.archive import Counted, Counter, Limits, damage_is_named, unpack_archive
from akdl.storage.files import FileError, fetch, sha256_of
from akdl.storage.limits import TEXT
from akdl.storage.locked_folder import OwnedFolder, sweep
from akdl.storage.model_forms import ModelError
from akdl.storage.model_place import files_of_model
from akdl.wire import Rows
from akdl.wire.cells import UNCUT, Array, are_cut
from akdl.wire.column_type import POINTS_IN_TIME, Kind
from akdl.wire.columns import Values, decode_columns, encode_columns
from bridge.exceptions import BridgeError, ConfigurationError, refused_at
from bridge.schema import Schema, schema_text, table_columns
from operators.alink.missing_names import WithHints
from operators.alink.saved_pipeline import SAVED_MODEL, AlinkStage, read_alink_pipeline
from operators.params.accessors import PredictStreamParams
from operators.params.prediction_settings import (
    columns_of_result,
    fed_columns,
    predicted_schema,
    serving_of,
)
from operators.params.saved import KNOWN, saved_params
from operators.prepare.model_file import packed_model, packed_rows

if TYPE_CHECKING:
    import pandas as pd

_CONVERTED = {Kind.DECIMAL, *POINTS_IN_TIME}
# This entry of a saved pipeline lists its stages.
DESCRIPTION = "pipeline.json"

# The columns of a result, and the bad rows, which have no cells there.
MappedRows = tuple[dict[str, Values], list[BadRow]]


class LocalPredictor(WithHints):
    """Predicts rows one by one or in batches, with a saved pipeline model. This program needs the
    frameworks of its models.

    The methods are thread-safe.

    Args:
        path: File written by `PipelineModel.save`, at any address: a path, http(s), or an address
            for fsspec.
        inputSchemaStr: Columns of the rows: "name type, name type".
        trusted: Accept parameters that name code, hosts, files or environments, see
            `PipelineModel.load`. A list has a value for each stage.
        newer: `modelStreamFilePath` and what belongs to it, for the last stage: newer models take
            over as in streams.

    Example:
        with LocalPredictor("pipeline.akdl", "x0 FLOAT, x1 FLOAT") as predictor:
            print(predictor.map((0.5, -0.25)))

    Raises:
        ConfigurationError: The file is not a pipeline, or its stages do not fit the columns.
    """

    def __init__(
        self,
        path: str,
        inputSchemaStr: str,
        trusted: bool | Sequence[bool] = False,
        **newer: object,
    ) -> None:
        # A predictor of a program that was killed has left its models behind, which the next
        # predictor removes.
        sweep(tempfile.gettempdir())
        self._owned = OwnedFolder("akdl_local_")
        self._folder = self._owned.path
        self._stages: list[_LoadedStage] = []
        try:
            self._inputs = Schema.parse(inputSchemaStr)
            columns = self._inputs
            stages = read_pipeline(path, self._folder, trusted)
            for stage in stages[-1:]:
                stage["params"].update(newer)
            for stage in stages:
                self._stages.append(_LoadedStage.of(stage, columns))
                columns = self._stages[-1].columns
        except BaseException:
            self.close()
            raise
        self._columns = columns

    def getOutputColNames(self) -> list[str]:
        """Return the names of the output columns."""
        return self._columns.names

    def getOutputColTypes(self) -> list[str]:
        """Return the types of the output columns."""
        return [column.type.sql for column in self._columns]

    def getOutputSchemaStr(self) -> str:
        """Return names and types of the output columns, in the format of `getSchemaStr` of
        operators.
        """
        return schema_text(self.getOutputColNames(), self.getOutputColTypes())

    def map(self, row: Sequence[object]) -> tuple[Any, ...]:
        """Predict one row, given in the order of the input columns. ARRAYs are returned as lists.

        Raises:
            RowsError: The row cannot be predicted.
        """
        return self.map_batch([row])[0]

    def predict(self, values: Sequence[object] | Array) -> list[Any]:
        """Predict one row, a sequence or an array of one dimension, and return a list.

        Raises:
            RowsError: The row cannot be predicted.
        """
        if isinstance(values, np.ndarray):
            if values.ndim != 1:
                raise ServingError(
                    "expected one row, an array of one dimension, got the shape"
                    f" {list(values.shape)}"
                )
            values = values.tolist()
        return list(self.map(list(values)))

    @overload
    def map_batch(self, rows: pd.DataFrame) -> pd.DataFrame: ...

    @overload
    def map_batch(self, rows: Mapping[str, Values]) -> dict[str, Values]: ...

    @overload
    def map_batch(self, rows: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]: ...

    def map_batch(self, rows: Array) -> Array:
        """Predict many rows, faster than one by one.

        Args:
            rows: A list of rows, a dict of arrays or lists by column, or a pandas DataFrame; the
                results have the same form. Columns of a dict or DataFrame that `inputSchemaStr`
                lacks are left out.

        Raises:
            RowsError: Some rows cannot be predicted.
        """
        import pandas as pd

        names = self._inputs.names
        is_frame = isinstance(rows, pd.DataFrame)
        is_dict = isinstance(rows, Mapping)
        if (is_frame or is_dict) and (missing := [name for name in names if name not in rows]):
            raise ServingError(
                f"expected the columns {listed(names)}; the data lacks {listed(missing)}"
            )
        given: dict[str, Values] = (
            {name: _with_nulls(rows[name]) if is_frame else rows[name] for name in names}
            if is_frame or is_dict
            else _columns_of(names, rows)
        )
        results, bad = self._map_columns(given, len(given[names[0]]))
        if bad:
            raise RowsError(bad)
        if is_dict:
            return {
                # Columns that no stage has replaced are returned unchanged.
                name: cells if cells is given.get(name) else _array(cells)
                for name, cells in results.items()
            }
        if is_frame:
            columns = {
                # A column of a DataFrame has one dimension, so an array of more becomes a list of
                # arrays.
                name: list(cells) if getattr(cells, "ndim", 1) > 1 else cells
                for name, cells in results.items()
            }
            kept = {name: rows[name] for name, cells in results.items() if cells is given.get(name)}
            return pd.DataFrame({**columns, **kept}, index=rows.index)
        return list(zip(*map(_cells_of, results.values())))

    def _map_columns(self, columns: Mapping[str, Values], rows: int) -> MappedRows:
        """Predict rows given by column; return the result columns, and the bad rows with their
        errors.
        """
        results: dict[str, Values] = dict(columns)
        errors: dict[int, str] = {}
        counts = {name: len(cells) for name, cells in columns.items()}
        if set(counts.values()) != {rows}:
            raise ServingError(f"expected columns with {rows} rows, got {counts}")
        for column in self._inputs:
            if column.type.kind is Kind.BYTES and are_cut(columns[column.name]):
                raise ServingError(f"column {column.name!r} ({column.type.sql}): expected {UNCUT}")
        # Columns that stay are returned unchanged, so the cells for models are apart.
        fed = {**columns, **self._as_in_jobs(columns)}
        for stage in self._stages:
            predicted, bad, _ = stage.store.predict({name: fed[name] for name in stage.fed}, rows)
            fed.update(predicted)
            results = {
                name: predicted[name] if is_output else results[name]
                for name, is_output in stage.result
            }
            for row, message in bad:
                # A row that an earlier stage could not predict has no inputs for the later ones, so
                # its first error counts.
                errors.setdefault(row, message)
        return results, sorted(errors.items())

    def _as_in_jobs(self, columns: Mapping[str, Values]) -> dict[str, Values]:
        """Convert decimals and points in time on the way that rows of a job take to a model.

        Models get texts and integers for them, whatever form their cells have here: objects of
        Python, texts or numbers.
        """
        schema = Schema(tuple(each for each in self._inputs if each.type.kind in _CONVERTED))
        if not schema.names:
            return {}
        from pyarrow import RecordBatch

        from bridge.codec.to_arrow import ColumnDecoder
        from bridge.codec.to_columns import to_columns

        sent = table_columns(schema)
        decoder = ColumnDecoder(schema, "the caller")
        try:
            message = encode_columns({name: columns[name] for name in schema.names}, sent)
            batch = RecordBatch.from_arrays(decoder.decode(message), schema=decoder.arrow_schema)
            return decode_columns(Rows.FromString(to_columns(batch, schema)), sent)
        except (BridgeError, TypeError, ValueError) as error:
            raise ServingError(str(error)) from None

    def open(self) -> None:
        """Do nothing: a predictor is open from the start."""

    def close(self) -> None:
        """Release the models. Safe to call twice."""
        for stage in self._stages:
            stage.store.close()
        self._owned.remove()

    def __enter__(self) -> LocalPredictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class LocalStage(PredictStreamParams):
    """Parameters of a stage of a saved pipeline; its name stands in error messages."""


class _LoadedStage(NamedTuple):
    store: ModelStore
    fed: list[str]
    result: list[tuple[str, bool]]
    # These are the columns of the result, which are the inputs of the next stage.
    columns: Schema

    @classmethod
    def of(cls, stage: dict[str, Any], columns: Schema) -> _LoadedStage:
        params = LocalStage(**stage["params"])
        names = columns.names
        model = stage["model"]
        fed = fed_columns(params, names)
        by_name = {column.name: column for column in columns}
        serving = serving_of(params, Schema(tuple(by_name[name] for name in fed)))
        if "function" in stage:
            serving.function = stage["function"]["name"]
            serving.user_params = stage["function"]["params"]
            serving.function_folder = stage["code"]
            model = model or stage["code"]
        # The cells of modelCol have the name of the file. In a job that is the name of the file
        # that travels, so it gets the same name here.
        if serving.model_col and stage["model"]:
            named = f"{os.path.dirname(model)}/akdl_model_{sha256_of(model)[:32]}"
            os.replace(model, named)
            model = named
        serving.model = model
        outputs = predicted_schema(serving)
        result = columns_of_result(params, names, outputs.names)
        by_name.update((column.name, column) for column in outputs)
        columns = Schema(tuple(by_name[name] for name, _ in result))
        return cls(ModelStore(serving), fed, result, columns)


def _columns_of(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, Values]:
    """Cells of each column; RowsError for a row of another length."""
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise RowsError(
                [(number, f"expected {len(names)} values ({', '.join(names)}), got {len(row)}")]
            )
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _cells_of(column: Values) -> list[object]:
    """Python's own objects for the values of a column."""
    if isinstance(column, np.ndarray):
        # `tolist` makes Python's numbers, while `list` would keep numpy's.
        return list(column.tolist())
    return [
        cell.tolist() if isinstance(cell, (np.ndarray, np.generic)) else cell for cell in column
    ]


def _with_nulls(column: pd.Series[Any]) -> Values:
    # pandas has NaN, NaT and NA for missing cells, and models take None for null.
    missing = column.isna()
    if missing.any():
        return [None if gone else cell for cell, gone in zip(column, missing)]
    return column.to_numpy()


def _array(column: Values) -> Array:
    # `np.array` of a list of lists would make an array of several dimensions.
    return column if isinstance(column, np.ndarray) else np.fromiter(column, object, len(column))


def read_pipeline(
    address: str, folder: str, trusted: bool | Sequence[bool]
) -> list[dict[str, Any]]:
    """Read the stages of a saved pipeline: type, params, and `model`, a file that is unpacked to
    `folder`.
    """
    fetched = f"{folder}/fetched"
    os.makedirs(fetched, exist_ok=True)
    with refused_at("the saved pipeline model cannot be read", FileError, ModelError):
        path = fetch(address, fetched)
        files = files_of_model(path) if os.path.isdir(path) else [path]
    if files and is_ak_file(files[0]):
        stages_of_alink = read_alink_pipeline(path, files, KNOWN)
        return [_of_alink(path, stage, trusted is True) for stage in stages_of_alink]
    with refused_at(
        f"{path} is not a saved pipeline model",
        OSError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ):
        with damage_is_named(), zipfile.ZipFile(path) as file:
            with file.open(DESCRIPTION) as described:
                description = json.loads(TEXT.read(described))
            # A small file may unpack to gigabytes, so all models in it share one limit.
            counter = Counter(Limits.of(os.environ), os.path.getsize(path))
            if description["version"] != 1:
                raise ConfigurationError(
                    f"{path}: expected a pipeline model of version 1, got {description['version']}"
                )
            stages: list[dict[str, Any]] = description["stages"]
            for number, stage in enumerate(stages):
                where = f"{path}, stage {number}"
                trusts = trusted if isinstance(trusted, bool) else trusted[number]
                stage["params"] = saved_params(where, stage["params"], trusts)
                if "function" in stage:
                    if not trusts:
                        raise ConfigurationError(
                            f"{where} has code of a function: if you trust its author, pass"
                            " trusted=True"
                        )
                    stage["code"] = f"{folder}/code_{number}"
                    with file.open(f"code_{number}.zip") as source:
                        unpack_archive(io.BytesIO(source.read()), stage["code"])
                # Whether code of a model is trusted is decided by the caller, and not by the file.
                stage["params"]["trusted"] = trusts
                stage["model"] = ""
                if f"model_{number}.zip" not in file.namelist():
                    continue
                # The name does not come from the file, which could otherwise choose where it is
                # written.
                target = f"{folder}/akdl_model_{os.path.basename(folder)}_{number}.zip"
                with file.open(f"model_{number}.zip") as source, open(target, "wb") as copy:
                    shutil.copyfileobj(Counted(source, counter), copy)
                stage["model"] = target
        return stages


def _of_alink(path: str, stage: AlinkStage, trusted: bool) -> dict[str, Any]:
    params = saved_params(f"{path}, stage {stage.kind}", stage.params, trusted)
    model_path = params.pop("modelPath", None)
    model_file = params.pop("modelFilePath", None)
    if stage.kind == SAVED_MODEL:
        if model_path is None:
            raise ConfigurationError(f"{path}: the stage {stage.kind} has no modelPath")
        model, params["cellsHoldBatches"] = packed_model(path, model_path), True
    elif model_file is not None:
        raise ConfigurationError(
            f"{path}: the model of the stage {stage.kind} is in another file: create a {stage.kind}"
            " with its modelFilePath instead"
        )
    else:
        with refused_at(path, FileError, ModelError):
            model = packed_rows(stage.model)
    return {"type": stage.kind, "params": params, "model": model}
