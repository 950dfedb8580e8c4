"""A SavedModel that is loaded once and predicts batches of rows.

Columns become arrays (`input_cells`), rows whose values have one shape are stacked to batches, the model is called, and its
outputs become columns (`output_cells`). A row that cannot be predicted is left out of its batch; when the model rejects a
batch, the batch is halved until the bad rows are found. When the model runs out of memory, later batches are smaller too.
"""

import dataclasses
import itertools
import logging
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from akdl.near_names import listed
from akdl.serving.functions import FunctionRunner
from akdl.serving.input_cells import Converted, InputConverter, stacked
from akdl.serving.number_cells import NUMBERS
from akdl.serving.output_cells import OutputColumn, OutputConverter
from akdl.serving.prediction_errors import BadRow, Refused, RowsError, ServingError, SignatureError
from akdl.serving.runners import Runner
from akdl.serving.signature import TensorDescription, find_tensor, resolve, tensors_text
from akdl.serving.stalled_batches import UNWATCHED, BatchWatch, WatchedCall
from akdl.storage.model_archive import find_saved_model
from akdl.wire.cells import Array
from akdl.wire.columns import Values

logger = logging.getLogger(__name__)

BATCH_BYTES = 64 << 20


class ServedModel:
    """A loaded model. Thread-safe. Other arguments are as in `akdl.serving.row_predictor.RowPredictor`.

    Args:
        model: Folder of a SavedModel, or one that is loaded already, or a function in its place.
        inputs: Column to the signature's input that it feeds, or columns named like the inputs; by default all inputs. The only
            input of a model needs no name: it takes the only column, or several columns of numbers, stacked in their order.
        outputs: The result columns; a plain name is an output returned as an array. By default all outputs. A column without a
            `key` shows the output of its name, or the only output of the model.
        utf8_columns: Columns of strings whose cells are bytes in UTF-8, which TensorFlow takes directly.
        report: Takes a logging level and a message.
        watch: Looks after batches that take too long.
    """

    def __init__(
        self,
        model: Union[str, Runner, FunctionRunner],
        tag: str = "serve",
        signature: str = "serving_default",
        inputs: Union[Mapping[str, str], Sequence[str], None] = None,
        outputs: Optional[Iterable[Union[str, OutputColumn]]] = None,
        *,
        cells_hold_batches: bool = False,
        batch_size: int = 256,
        batch_bytes: int = BATCH_BYTES,
        intra_op_parallelism: Optional[int] = None,
        utf8_columns: Collection[str] = (),
        defaults: Optional[Mapping[str, object]] = None,
        report: Callable[[int, str], None] = logger.log,
        watch: Optional[BatchWatch] = None,
    ) -> None:
        if batch_size < 1:
            raise ServingError(f"inferBatchSize: expected at least 1, got {batch_size}")
        if isinstance(model, str):
            model = find_saved_model(model)
            tags, self.signature = resolve(model, tag, signature)
        else:
            self.signature = model.signature
        self._cells_hold_batches = cells_hold_batches
        self._inputs = self._input_converters(inputs, utf8_columns)
        self._defaults = self._checked(defaults or {})
        self._outputs = self._output_converters(outputs)
        self._fixed_batch = self._one_fixed_batch()
        self._batch_size = self._fixed_batch or batch_size
        self._batch_bytes = batch_bytes
        self._report = report
        self._watch = watch or BatchWatch()
        self._runner: Union[Runner, FunctionRunner]
        if not isinstance(model, str):
            self._runner = model
            return
        keys = {converter.key for converter in self._outputs}
        used = [tensor for tensor in self.signature.outputs if tensor.key in keys]
        self._runner = Runner(model, tags, self.signature, used, intra_op_parallelism)

    @property
    def inputs(self) -> Dict[str, TensorDescription]:
        by_key = {tensor.key: tensor for tensor in self.signature.inputs}
        return {converter.column: by_key[converter.key] for converter in self._inputs}

    @property
    def outputs(self) -> Dict[str, TensorDescription]:
        by_key = {tensor.key: tensor for tensor in self.signature.outputs}
        return {converter.name: by_key[converter.key] for converter in self._outputs}

    def predict(self, columns: Mapping[str, object], rows: Optional[int] = None) -> Dict[str, Values]:
        """Predict rows; a column is an array with rows on the first axis, or a sequence of cells. Bad rows raise RowsError."""
        results, bad = self.predict_collecting(columns, rows)
        if bad:
            raise RowsError(bad)
        return results

    def predict_collecting(
        self, columns: Mapping[str, object], rows: Optional[int] = None, call: WatchedCall = UNWATCHED
    ) -> Tuple[Dict[str, Values], List[BadRow]]:
        """Predict rows; return the result columns, with None in the cells of bad rows, and the bad rows' errors."""
        count = self._count(columns, rows)
        stalls = f"the model does not finish with it within {self._watch.limit_s:g} s (inferTimeout)"
        errors: Dict[int, str] = dict.fromkeys(call.left_out, stalls)
        parts_of: Dict[str, List[Converted]] = {}
        for converter in self._inputs:
            converted = converter.convert(self._filled(converter.column, columns))
            parts_of.setdefault(converter.key, []).append(converted)
            for row, message in converted.errors.items():
                errors.setdefault(row, message)
        values = {
            key: found[0] if len(found) == 1 else stacked(found, self.signature.inputs[0]) for key, found in parts_of.items()
        }
        good = [row for row in range(count) if row not in errors] if errors else range(count)
        parts: List[_Predicted] = []
        for batch in self._batches(values, good, call.most_rows or self._batch_size):
            parts.extend(self._predict_batch(values, batch, errors, call))
        results = {
            converter.name: gathered([(part.rows, part.cells[index]) for part in parts], count)
            for index, converter in enumerate(self._outputs)
        }
        if errors:  # one output may have succeeded where another failed
            results = {
                name: [None if row in errors else cell for row, cell in enumerate(cells)] for name, cells in results.items()
            }
        return results, sorted(errors.items())

    def close(self) -> None:
        """Release the model's memory; it cannot predict afterwards."""
        self._runner.close()

    def __enter__(self) -> "ServedModel":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _checked(self, defaults: Mapping[str, object]) -> Mapping[str, Any]:
        by_column = {converter.column: converter for converter in self._inputs}
        unknown = [column for column in defaults if column not in by_column]
        if unknown:
            raise ServingError(f"defaults names {listed(unknown)}; the columns that feed the model are {listed(by_column)}")
        for column, value in defaults.items():
            for message in by_column[column].convert([value]).errors.values():
                raise ServingError(f"defaults: {message}")
        return defaults

    def _filled(self, column: str, columns: Mapping[str, Any]) -> Any:
        cells = columns[column]
        if column not in self._defaults:
            return cells
        if isinstance(cells, np.ndarray) and cells.dtype != object and not isinstance(cells, np.ma.MaskedArray):
            return cells  # numbers, without nulls
        default = self._defaults[column]
        return [default if cell is None or cell is np.ma.masked else cell for cell in cells]

    def _input_converters(
        self, inputs: Union[Mapping[str, str], Sequence[str], None], utf8_columns: Collection[str]
    ) -> List[InputConverter]:
        known = self.signature.inputs
        if inputs is None:
            inputs = [tensor.key for tensor in known]
        if not isinstance(inputs, Mapping) and len(known) == 1 and inputs and known[0].key not in inputs:
            tensor = known[0] if len(inputs) == 1 else self._part_of_only_input(inputs)
            return [InputConverter(tensor, column, self._cells_hold_batches, column in utf8_columns) for column in inputs]
        pairs = list(inputs.items()) if isinstance(inputs, Mapping) else [(name, name) for name in inputs]
        keys = [key for _, key in pairs]
        tensors = [find_tensor(known, key, "input", self.signature) for key in keys]
        missing = [tensor for tensor in known if tensor.key not in keys]
        if missing or len(set(keys)) != len(keys) or not known:
            raise SignatureError(
                "expected one column for each input of the model (selectedCols, inputSignatureDefs), got columns for "
                f"{listed(keys)}; the signature is {self.signature}"
            )
        return [
            InputConverter(tensor, column, self._cells_hold_batches, column in utf8_columns)
            for (column, _), tensor in zip(pairs, tensors)
        ]

    def _part_of_only_input(self, columns: Sequence[str]) -> TensorDescription:
        tensor = self.signature.inputs[0]
        sizes = tensor.shape or ()
        is_open = any(size < 0 for size in sizes[1:])
        if self._cells_hold_batches or is_open or tensor.dtype not in NUMBERS or np.prod(sizes[1:]) != len(columns):
            raise SignatureError(
                f"the model's only input {tensor} takes one column, or a column of numbers for each value of a row; "
                f"selectedCols has {len(columns)} columns, and no column has the name of the input: {listed(columns)}"
            )
        return dataclasses.replace(tensor, shape=sizes[:1])

    def _output_converters(self, outputs: Optional[Iterable[Union[str, OutputColumn]]]) -> List[OutputConverter]:
        known = self.signature.outputs
        chosen = [tensor.key for tensor in known] if outputs is None else list(outputs)
        columns = [OutputColumn(column, None, column) if isinstance(column, str) else column for column in chosen]
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names):
            raise SignatureError(f"expected output columns with different names, got {listed(names)}")
        only = known[0].key if len(known) == len(columns) == 1 else None
        keys = [column.key or only or column.name for column in columns]
        return [
            OutputConverter(column, find_tensor(known, key, "output", self.signature), self._cells_hold_batches)
            for column, key in zip(columns, keys)
        ]

    def _one_fixed_batch(self) -> Optional[int]:
        sizes = {converter.fixed_batch for converter in self._inputs if converter.fixed_batch is not None}
        if len(sizes) > 1:
            raise SignatureError(
                f"the inputs have different fixed batch dimensions: {tensors_text(self.signature.inputs)}; a model that takes "
                "single tensors needs cellsHoldBatches"
            )
        return sizes.pop() if sizes else None

    def _count(self, columns: Mapping[str, Any], rows: Optional[int]) -> int:
        counts = {}
        for converter in self._inputs:
            if converter.column not in columns:
                raise ServingError(
                    f"missing the column {converter.column!r} for the input {converter.key!r}; the columns are "
                    + listed(columns)
                )
            counts[converter.column] = len(columns[converter.column])
        if len(set(counts.values())) > 1 or (rows is not None and set(counts.values()) != {rows}):
            raise ServingError(f"the columns have different numbers of rows: {counts}, expected {rows or 'equal ones'}")
        return next(iter(counts.values()))

    def _batches(self, values: Dict[str, Converted], good: Sequence[int], most: int) -> Iterator[Sequence[int]]:
        groups: Iterable[Sequence[int]] = [good]
        if any(isinstance(converted.values, list) for converted in values.values()):
            by_shape: Dict[Any, List[int]] = {}
            for row in good:
                by_shape.setdefault(tuple(converted.shape(row) for converted in values.values()), []).append(row)
            groups = by_shape.values()
        for group in groups:
            start = 0
            while start < len(group):
                batch = group[start : start + (1 if self._cells_hold_batches else min(most, self._batch_size))]
                while len(batch) > 1:
                    size = sum(converted.size(batch) for converted in values.values())
                    if size <= self._batch_bytes:
                        break
                    batch = batch[: max(1, len(batch) * self._batch_bytes // size)]
                yield batch
                start += len(batch)

    def _predict_batch(
        self, values: Dict[str, Converted], rows: Sequence[int], errors: Dict[int, str], call: WatchedCall
    ) -> "List[_Predicted]":
        try:
            with self._runner.turn, self._watch.batch(call, rows):
                fetched = self._call({key: converted.take(rows) for key, converted in values.items()}, len(rows))
        except Refused as error:
            lacks_memory, message = error.lacks_memory, str(error)
        else:
            return [self._converted(fetched, rows, errors)]
        if len(rows) == 1 or (lacks_memory and self._fixed_batch is not None):  # a smaller batch would be padded again
            reason = "runs out of memory with it" if lacks_memory else "rejects it"
            errors.update(dict.fromkeys(rows, f"{self._runner.name} {reason}: {message}"))
            return []
        middle = len(rows) // 2
        parts = [part for half in (rows[:middle], rows[middle:]) for part in self._predict_batch(values, half, errors, call)]
        if lacks_memory and sum(len(part.rows) for part in parts) == len(rows):  # else a row was too large, not the batch
            self._keep_size(max(len(part.rows) for part in parts))
        return parts

    def _keep_size(self, rows: int) -> None:
        if rows < self._batch_size:
            self._report(logging.WARNING, f"{self._runner.name} ran out of memory: from now on a batch has at most {rows} rows")
            self._batch_size = rows

    def _converted(self, fetched: Dict[str, Array], rows: Sequence[int], errors: Dict[int, str]) -> "_Predicted":
        cells = []
        for converter in self._outputs:
            column, bad = converter.convert(fetched[converter.key])
            for place, message in bad.items():
                errors.setdefault(rows[place], message)
            cells.append(column)
        return _Predicted(rows, cells)

    def _call(self, feeds: Dict[str, Array], rows: int) -> Dict[str, Array]:
        if self._cells_hold_batches:
            fetched = self._runner.run({key: array[0] for key, array in feeds.items()})
            return {key: array[np.newaxis] for key, array in fetched.items()}
        size = rows
        if self._fixed_batch is not None:
            size = self._fixed_batch
        elif self.signature.is_compiled:  # XLA compiles for seconds at each new size
            size = max(rows, min(1 << (rows - 1).bit_length(), self._batch_size))
        padding = size - rows
        if padding:
            feeds = {key: np.concatenate([array, np.repeat(array[-1:], padding, axis=0)]) for key, array in feeds.items()}
        fetched = self._runner.run(feeds)
        for key, array in fetched.items():
            if array.ndim == 0 or len(array) != rows + padding:
                raise ServingError(
                    f"the output {key!r} has the shape {list(array.shape)} for a batch of {rows + padding} rows, so it holds "
                    "no value per row; a model that takes single tensors needs cellsHoldBatches"
                )
        return {key: array[:rows] for key, array in fetched.items()} if padding else fetched


class _Predicted(NamedTuple):
    rows: Sequence[int]
    cells: List[Values]


def gathered(parts: Sequence[Tuple[Sequence[int], Values]], count: int) -> Values:
    """Cells of a column from parts of its rows; None in the rows of no part."""
    is_whole = sum(len(rows) for rows, _ in parts) == count
    in_order = is_whole and all(isinstance(rows, range) for rows, _ in parts)
    arrays = [cells for _, cells in parts if not isinstance(cells, list)]
    if is_whole and len(arrays) == len(parts) and len({array.shape[1:] for array in arrays}) == 1:
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        if not in_order:
            whole = whole[np.argsort(np.concatenate([rows for rows, _ in parts]))]
        return whole
    if in_order:
        return list(itertools.chain.from_iterable(part for _, part in parts))
    cells: List[Any] = [None] * count
    for rows, part in parts:
        for row, cell in zip(rows, part):
            cells[row] = cell
    return cells
