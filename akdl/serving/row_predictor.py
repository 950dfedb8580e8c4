"""Prediction in a plain Python process, without Flink or Java, with the parameters of the predict operators.

For example:

    with RowPredictor("exported/", ["id", "x"], [("y", "DOUBLE")], selected_cols=["x"]) as predictor:
        predictor.map((7, [1.0, 2.0]))  # (7, [1.0, 2.0], 0.25)
"""

import functools
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np

from akdl.near_names import listed
from akdl.serving.keyed_models import CACHE_BYTES, KeyedModels
from akdl.serving.live_model import LiveModel
from akdl.serving.model import BATCH_BYTES, ServedModel
from akdl.serving.model_folder import Model
from akdl.serving.output_cells import OutputColumn
from akdl.serving.prediction_errors import BadRow, RowsError, ServingError
from akdl.wire.columns import Values

Row = Tuple[Any, ...]
_Predictor = TypeVar("_Predictor", bound="Predictor")


class Predictor:
    """Methods of predictors for single rows, and the end of a `with` block."""

    map_batch: Callable[..., Any]
    close: Callable[[], None]

    def map(self, row: Sequence[object]) -> Row:
        """Predict one row, given in the order of the input columns. ARRAYs are returned as lists.

        Raises:
            RowsError: The row cannot be predicted.
        """
        return self.map_batch([row])[0]  # type: ignore[no-any-return]

    def predict(self, values: Union[Sequence[object], "np.ndarray[Any, Any]"]) -> List[Any]:
        """Predict one row, a sequence or an array of one dimension, and return a list.

        Raises:
            RowsError: The row cannot be predicted.
        """
        if isinstance(values, np.ndarray):
            if values.ndim != 1:
                raise ServingError(f"expected one row, an array of one dimension, got the shape {list(values.shape)}")
            values = values.tolist()
        return list(self.map(list(values)))

    def __enter__(self: _Predictor) -> _Predictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RowPredictor(Predictor):
    """Predicts rows with a SavedModel. Thread-safe.

    Args:
        model: Folder of a SavedModel, a zip or tar file of one, or the rows of a model table in any order:
            (model_id, model_info) each.
        input_columns: Names of the values of a row, in order.
        output_schema: Result columns, (name, SQL type) each, such as ("logits", "ARRAY<FLOAT>").
        selected_cols: Columns that feed the model; by default all.
        input_signature_defs: The signature's inputs that they feed, in the same order; by default inputs of the same names.
            A model's only input needs no name: it takes one column, or columns of numbers, stacked in the order of
            `selected_cols`.
        output_signature_defs: The signature's outputs for the result columns, in the same order; by default outputs of the
            same names, or the model's only output for the only column.
        signature_def_key: Name of the signature.
        graph_def_tag: Tag of the graph.
        reserved_cols: Input columns to keep; by default all, where an output of the same name replaces one.
        infer_batch_size: Largest number of rows in one call of the model. After the model has run out of memory, it is smaller.
        infer_batch_bytes: Most bytes of the values in one call of the model; a single row may have more.
        intra_op_parallelism: Threads inside one operation. TensorFlow has one such pool per process, set by its first use.
        cells_hold_batches: Cells are whole tensors with the batch dimension, and the model is called for each row alone.
        defaults: Column to the value that replaces null; without one, a null is an error of its row.
        model_col: Result column with the version of the model: `model_version`, by default the name of its file or folder.
        model_key_col: Input column that names the model of each row, in `model`, which is a folder, an archive or an address.
        default_model: Name of the model for rows whose own is missing.
        model_cache_bytes: Most bytes of memory for loaded models.

    Raises:
        ModelError: There is no usable model.
        SignatureError: The model lacks a name in the arguments; the message lists its names.
        ServingError: The arguments are inconsistent.
    """

    def __init__(
        self,
        model: Model,
        input_columns: Sequence[str],
        output_schema: Sequence[Tuple[str, str]],
        *,
        selected_cols: Optional[Sequence[str]] = None,
        input_signature_defs: Optional[Sequence[str]] = None,
        output_signature_defs: Optional[Sequence[str]] = None,
        signature_def_key: str = "serving_default",
        graph_def_tag: str = "serve",
        reserved_cols: Optional[Sequence[str]] = None,
        infer_batch_size: int = 256,
        infer_batch_bytes: int = BATCH_BYTES,
        intra_op_parallelism: Optional[int] = None,
        cells_hold_batches: bool = False,
        defaults: Optional[Mapping[str, object]] = None,
        model_col: Optional[str] = None,
        model_version: str = "",
        model_key_col: Optional[str] = None,
        default_model: Optional[str] = None,
        model_cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._input_columns = list(input_columns)
        keys = _known("modelKeyCol", [] if model_key_col is None else [model_key_col], self._input_columns)
        selected = [name for name in _known("selectedCols", selected_cols, self._input_columns) if name not in keys]
        reserved = _known("reservedCols", reserved_cols, self._input_columns)
        if len(set(selected)) != len(selected):
            raise ServingError(f"selectedCols names a column twice: {listed(selected)}")
        check_paired("inputSignatureDefs", input_signature_defs, selected, "selectedCols")
        names = [name for name, _ in output_schema]
        check_reserved(reserved_cols, names)
        check_paired("outputSignatureDefs", output_signature_defs, names, "outputSchemaStr")
        output_keys: Sequence[Optional[str]] = output_signature_defs or [None for _ in names]
        self._selected = [*selected, *keys]
        load = functools.partial(
            ServedModel,
            tag=graph_def_tag,
            signature=signature_def_key,
            inputs=selected if input_signature_defs is None else dict(zip(selected, input_signature_defs)),
            outputs=[OutputColumn(name, type_, key) for (name, type_), key in zip(output_schema, output_keys)],
            cells_hold_batches=cells_hold_batches,
            batch_size=infer_batch_size,
            batch_bytes=infer_batch_bytes,
            intra_op_parallelism=intra_op_parallelism,
            defaults=defaults,
        )
        results = names if model_col is None else [*names, model_col]
        self._result = result_columns(self._input_columns, reserved, results)
        self._model: Union[LiveModel, KeyedModels]
        if model_key_col is None:
            self._model = LiveModel(model, load, model_version, model_col or "")
        else:
            self._model = KeyedModels(
                str(model), model_key_col, load, results, model_cache_bytes, default_model or "", model_col or ""
            )

    @property
    def output_columns(self) -> List[str]:
        """Names of the result's values, in order."""
        return [name for name, _ in self._result]

    def map_batch(self, rows: Sequence[Sequence[object]]) -> List[Row]:
        """Predict many rows.

        Raises:
            RowsError: Some rows cannot be predicted.
        """
        results, bad = self.map_batch_collecting(rows)
        if bad:
            raise RowsError(bad)
        return results

    def map_batch_collecting(self, rows: Sequence[Sequence[object]]) -> Tuple[List[Row], List[BadRow]]:
        """Predict many rows; bad rows have None as their predictions, and are also returned with their errors."""
        results, bad = self.map_columns_collecting(columns_of_rows(self._input_columns, rows), len(rows))
        parts = [cells_of(results[name]) if place is None else results[name] for name, place in self._result]
        return list(zip(*parts)), bad

    def map_columns_collecting(self, columns: Mapping[str, Values], rows: int) -> Tuple[Dict[str, Values], List[BadRow]]:
        """Predict rows given by column, and return the result columns; a reserved column is the given object."""
        predicted, bad, _ = self._model.predict_collecting({name: columns[name] for name in self._selected}, rows)
        return {name: predicted[name] if place is None else columns[name] for name, place in self._result}, bad

    def close(self) -> None:
        """Release the model. Safe to call twice."""
        self._model.close()


def result_columns(inputs: Sequence[str], reserved: Sequence[str], outputs: Sequence[str]) -> List[Tuple[str, Optional[int]]]:
    """Result columns: name, and its place among the inputs, None for an output.

    Reserved columns come in the order of the input, then outputs; an output named like an input column takes its place.
    """
    front: List[Tuple[str, Optional[int]]] = []
    for place, name in enumerate(inputs):
        if name in outputs:
            front.append((name, None))
        elif name in reserved:
            front.append((name, place))
    return front + [(name, None) for name in outputs if name not in inputs]


def check_reserved(reserved: Optional[Sequence[str]], outputs: Sequence[str]) -> None:
    """ServingError for a reserved column that is also an output, and would be replaced."""
    names = [name for name in reserved or () if name in outputs]
    if names:
        raise ServingError(
            f"reservedCols and outputSchemaStr both name {listed(names)}: give the output another name in outputSchemaStr, "
            "or leave the column out of reservedCols, and the output replaces it"
        )


def check_paired(parameter: str, keys: Optional[Sequence[str]], names: Sequence[str], other: str) -> None:
    """ServingError unless there is one key of the signature for each column."""
    if keys is not None and len(keys) != len(names):
        columns = f"{len(names)} names for the columns of {other} ({', '.join(names)})"
        raise ServingError(f"{parameter}: expected {columns}, got {len(keys)}")


def _known(parameter: str, names: Optional[Sequence[str]], columns: Sequence[str]) -> List[str]:
    unknown = [name for name in names or () if name not in columns]
    if unknown:
        raise ServingError(f"{parameter} names {listed(unknown)}; the columns are {listed(columns)}")
    return list(columns if names is None else names)


def columns_of_rows(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Dict[str, List[object]]:
    """Cells of each column; RowsError for a row of another length."""
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise RowsError([(number, f"expected {len(names)} values ({', '.join(names)}), got {len(row)}")])
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def cells_of(column: Values) -> List[object]:
    """Python's own objects for the values of a column."""
    return column.tolist() if isinstance(column, np.ndarray) else list(map(_plain, column))


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
