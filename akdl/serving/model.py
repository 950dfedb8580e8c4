"""A loaded model that predicts rows, of any kind and in batches, under a watch over the time of
each batch.

Columns become arrays (`input_cells`), rows whose values have one shape are stacked to batches, the
model is called, and its outputs become columns (`output_cells`). A row that cannot be predicted is
left out of its batch; when the model rejects a batch, the batch is halved until the bad rows are
found. When the model runs out of memory, later batches are smaller too.

A batch that takes too long ends the process, because a thread inside TensorFlow cannot be stopped.
A file then names the rows of each such batch, for the client that sent it; it asks a fresh process,
with smaller batches, or without a row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from akdl.near_names import listed
from akdl.serving.input_cells import Converted, InputConverter, stacked
from akdl.serving.loaded_model import (
    BadRow,
    Errors,
    LoadedModel,
    Refused,
    RowNumbers,
    ServingError,
    SignatureError,
    TensorDescription,
    find_tensor,
    tensors_text,
)
from akdl.serving.number_cells import NUMBERS
from akdl.serving.output_cells import OutputConverter
from akdl.storage.local_files import WholeFile
from akdl.wire import Serving, TableColumn
from akdl.wire.cells import Array, Arrays
from akdl.wire.columns import Values
from akdl.wire.row_parts import gathered

logger = logging.getLogger(__name__)

Report = Callable[[int, str], None]
"""Takes a logging level and a message."""


class ServedBy(NamedTuple):
    """The version of a model that has predicted a batch, or the last of several versions.

    Args:
        number: 1 for the first version, and one more for each that has replaced it.
        kind: Its kind, as users call it.
        device: "CPU", "GPU", or "" where it is not known.
    """

    number: int = 1
    kind: str = ""
    device: str = ""


# Rows of a batch, and bytes of all its inputs together, where the settings do not bound them.
BATCH_ROWS = 256
BATCH_BYTES = 64 << 20

CALL = "akdl-call"  # key of a `WatchedCall` in a call's metadata
# Number of looks at the running batches within the limit, so that a batch is found at most a tenth
# too late.
_LOOKS = 10
# Exit status of a process that ends because of a stalled batch.
_STATUS = 74


class WatchedCall(NamedTuple):
    """A request whose batches are watched, as a task sends it in the metadata of its call.

    After a process has ended because of a batch, the task repeats its request with smaller batches,
    and at last without the row that remains.

    Args:
        name: Identifies the request in the file of stalled rows; "" for a request that is not
            watched.
        most_rows: Rows of a batch; 0 for the size of the settings.
        left_out: Rows that are not computed, and count as bad.
        is_retried: A batch of the request took too long, so no other request may share its calls:
            the row at fault is looked for among its rows alone.
        places: Numbers of the rows in the whole request, where this is a part of it for one key.
        requests: Names and numbers of rows of the requests that share this call, in order.
    """

    name: str = ""
    most_rows: int = 0
    left_out: RowNumbers = ()
    is_retried: bool = False
    places: Array | None = None
    requests: Sequence[tuple[str, int]] = ()

    def rows_of(self, rows: RowNumbers) -> dict[str, list[int]]:
        """Return rows of this call, or of its part for one key: by request, as it counts them."""
        own = [int(row if self.places is None else self.places[row]) for row in rows]
        found: dict[str, list[int]] = {}
        start = 0
        for name, count in self.requests or [(self.name, sys.maxsize)]:
            of_request = [row - start for row in own if start <= row < start + count]
            if of_request:
                found[name] = of_request
            start += count
        return found

    def within(self, places: Array) -> WatchedCall:
        """The part of this call with the rows at some places, which ascend."""
        left_out = np.flatnonzero(np.isin(places, self.left_out)).tolist() if self.left_out else ()
        return self._replace(left_out=left_out, places=places)


UNWATCHED = WatchedCall()


def stalled_file(folder: str, pid: int) -> str:
    """Path of the file in which a process names the rows of the batches for which it has ended.

    The process number is in the name, because a fresh process uses the same folder at once.
    """
    return os.path.join(folder, f"stalled-{pid}")


class BatchWatch:
    """Ends this process when a batch of a watched call is computed for more than `limit_s` seconds.

    With 0 no thread is started. Batches without a watched call have no client that would try again,
    so they are never ended.
    """

    def __init__(self, limit_s: float = 0.0, folder: str = ".") -> None:
        self.limit_s = limit_s
        self._folder = folder
        # Thread to the begin of its batch, the call, and the rows. A thread computes one batch at a
        # time.
        self._running: dict[int, tuple[float, WatchedCall, RowNumbers]] = {}
        if limit_s:
            threading.Thread(target=self._look, name="akdl-stalls", daemon=True).start()

    @contextlib.contextmanager
    def batch(self, call: WatchedCall, rows: RowNumbers) -> Iterator[None]:
        """Watch the batch of these rows while the block computes it in this thread."""
        if self.limit_s and (call.name or call.requests):
            self._running[threading.get_ident()] = (time.monotonic(), call, rows)
        try:
            yield
        finally:
            self._running.pop(threading.get_ident(), None)

    def _look(self) -> None:
        while True:
            # A long limit needs no rarer looks than one a second.
            time.sleep(min(self.limit_s / _LOOKS, 1.0))
            late = time.monotonic() - self.limit_s
            # A copy, because calls add and remove their batches meanwhile.
            running = list(self._running.values())
            stalled: dict[str, list[int]] = {}
            for begun, call, rows in running:
                if begun < late:
                    stalled.update(call.rows_of(rows))
            if stalled:
                # The file is complete before the process ends, since the clients read it as soon as
                # their connections break. Exit handlers would wait for the thread that hangs.
                with WholeFile(stalled_file(self._folder, os.getpid())) as file:
                    file.write(json.dumps(stalled).encode("ascii"))
                os._exit(_STATUS)


class ServedModel:
    """A model with the columns that it reads and writes. Thread-safe.

    Args:
        model: The model, which is loaded here, after its inputs and outputs have been compared with
            the columns.
        serving: Settings of the prediction. Its fields are called like the parameters of
            predictors. Without input columns, all inputs are columns; without output columns, all
            outputs are, as arrays.
        report: Takes a logging level and a message.
        watch: Looks after batches that take too long.
    """

    def __init__(
        self,
        model: LoadedModel,
        serving: Serving,
        report: Report = logger.log,
        watch: BatchWatch | None = None,
    ) -> None:
        self.signature = model.signature
        self.model, self._report, self._watch = model, report, watch or BatchWatch()
        self._cells_hold_batches = serving.cells_hold_batches
        self._inputs = self._input_converters(serving)
        by_column = {converter.column: converter for converter in self._inputs}
        for column, value in json.loads(serving.defaults or "{}").items():
            if column not in by_column:
                raise ServingError(
                    f"defaults names {column!r}; the columns that feed the model are"
                    f" {listed(by_column)}"
                )
            by_column[column].set_default(value)
        self._outputs = self._output_converters(serving)
        self._fixed_batch = self._one_fixed_batch()
        self._batch_size = self._fixed_batch or serving.infer_batch_size or BATCH_ROWS
        self._batch_bytes = serving.infer_batch_bytes or BATCH_BYTES
        # Loaded last, so that a wrong name or type is an error before gigabytes are read.
        model.load([converter.key for converter in self._outputs])

    def predict_collecting(
        self, columns: Mapping[str, object], rows: int | None = None, call: WatchedCall = UNWATCHED
    ) -> tuple[dict[str, Values], list[BadRow]]:
        """Predict rows; return the result columns, and the bad rows with their errors.

        A column is an array with rows on the first axis, or a sequence of cells. Cells of bad rows
        are None. A bad row never fails the others. An error of the model that no row causes is
        raised.

        Args:
            columns: Name to cells, one per row, at least of the columns that feed the model.
            rows: Their number, for a check.
            call: The request that the rows belong to.
        """
        count = self._count(columns, rows)
        stalls = (
            f"the model does not finish with it within {self._watch.limit_s:g} s (inferTimeout)"
        )
        # Rows that an earlier process could not finish with are bad from the start.
        errors = dict.fromkeys(call.left_out, stalls)
        parts_of: dict[str, list[Converted]] = {}
        for converter in self._inputs:
            converted = converter.convert(columns[converter.column])
            # Several columns of numbers may feed the only input of a model, each with one value of
            # a row.
            parts_of.setdefault(converter.key, []).append(converted)
            for row, message in converted.errors.items():
                errors.setdefault(row, message)
        values = {
            key: found[0] if len(found) == 1 else stacked(found, self.signature.inputs[0])
            for key, found in parts_of.items()
        }
        # A range stays a range where all rows are good, because its slices are cheap and its cells
        # are views.
        good = [row for row in range(count) if row not in errors] if errors else range(count)
        parts: list[_Predicted] = []
        for batch in self._batches(values, good, call.most_rows or self._batch_size):
            parts.extend(self._predict_batch(values, batch, errors, call))
        results = {
            converter.name: gathered([(part.rows, part.cells[index]) for part in parts], count)
            for index, converter in enumerate(self._outputs)
        }
        if errors:  # one output may have succeeded where another failed
            results = {
                name: [None if row in errors else cell for row, cell in enumerate(cells)]
                for name, cells in results.items()
            }
        return results, sorted(errors.items())

    def close(self) -> None:
        """Release the model's memory; it cannot predict afterwards."""
        self.model.close()

    def _input_converters(self, serving: Serving) -> list[InputConverter]:
        known, are_whole = self.signature.inputs, serving.cells_hold_batches
        columns = [
            column for column in serving.input_columns if column.name != serving.model_key_col
        ]
        columns = columns or [TableColumn(name=tensor.key) for tensor in known]
        keys = list(serving.input_signature_defs) or [column.name for column in columns]
        # The only input needs no name: Keras calls it keras_tensor, with a number that changes with
        # each export.
        if len(known) == 1 and not serving.input_signature_defs and known[0].key not in keys:
            tensor = known[0] if len(keys) == 1 else self._part_of_only_input(keys)
            return [InputConverter(tensor, column, are_whole) for column in columns]
        tensors = [find_tensor(known, key, "input", self.signature) for key in keys]
        if not known or sorted(keys) != sorted(tensor.key for tensor in known):
            raise SignatureError(
                "expected one column for each input of the model (selectedCols,"
                f" inputSignatureDefs), got columns for {listed(keys)}; the signature is"
                f" {self.signature}"
            )
        return [
            InputConverter(tensor, column, are_whole) for tensor, column in zip(tensors, columns)
        ]

    def _part_of_only_input(self, columns: Sequence[str]) -> TensorDescription:
        tensor = self.signature.inputs[0]
        sizes = tensor.shape or ()
        is_open = any(size < 0 for size in sizes[1:])
        if (
            self._cells_hold_batches
            or is_open
            or tensor.dtype not in NUMBERS
            or np.prod(sizes[1:]) != len(columns)
        ):
            raise SignatureError(
                f"the model's only input {tensor} takes one column, or a column of numbers for each"
                f" value of a row; selectedCols has {len(columns)} columns, and no column has the"
                f" name of the input: {listed(columns)}"
            )
        # To each of these columns, the input looks like one with a single number in each row.
        return dataclasses.replace(tensor, shape=sizes[:1])

    def _output_converters(self, serving: Serving) -> list[OutputConverter]:
        known = self.signature.outputs
        columns = list(serving.output_columns) or [TableColumn(name=tensor.key) for tensor in known]
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names):
            raise SignatureError(
                f"expected output columns with different names, got {listed(names)}"
            )
        keys = list(serving.output_signature_defs) or (
            [known[0].key] if len(known) == len(columns) == 1 else names
        )
        return [
            OutputConverter(
                column, find_tensor(known, key, "output", self.signature), self._cells_hold_batches
            )
            for column, key in zip(columns, keys)
        ]

    def _one_fixed_batch(self) -> int | None:
        sizes = {
            converter.fixed_batch for converter in self._inputs if converter.fixed_batch is not None
        }
        if len(sizes) > 1:
            raise SignatureError(
                "the inputs have different fixed batch dimensions:"
                f" {tensors_text(self.signature.inputs)}; a model that takes single tensors needs"
                " cellsHoldBatches"
            )
        return sizes.pop() if sizes else None

    def _count(self, columns: Mapping[str, Any], rows: int | None) -> int:
        counts = {}
        for converter in self._inputs:
            if converter.column not in columns:
                raise ServingError(
                    f"missing the column {converter.column!r} for the input {converter.key!r}; the"
                    " columns are " + listed(columns)
                )
            counts[converter.column] = len(columns[converter.column])
        if len(set(counts.values())) > 1 or (rows is not None and set(counts.values()) != {rows}):
            raise ServingError(
                f"the columns have different numbers of rows: {counts}, expected"
                f" {rows or 'equal ones'}"
            )
        return next(iter(counts.values()))

    def _batches(
        self, values: dict[str, Converted], good: RowNumbers, most: int
    ) -> Iterator[RowNumbers]:
        """Divide good rows into batches of equal shape, bounded in rows and bytes.

        The size is read again for each batch, because a batch that ran out of memory may have made
        it smaller meanwhile. A single row above the bound of bytes is a batch of its own.
        """
        groups: Iterable[RowNumbers] = [good]
        # Only a list can have values of different shapes. An array needs no grouping.
        if any(isinstance(converted.values, list) for converted in values.values()):
            by_shape: dict[Any, list[int]] = {}
            for row in good:
                by_shape.setdefault(
                    tuple(converted.shape(row) for converted in values.values()), []
                ).append(row)
            groups = by_shape.values()
        for group in groups:
            start = 0
            while start < len(group):
                batch = group[
                    start : start + (1 if self._cells_hold_batches else min(most, self._batch_size))
                ]
                # The size of strings depends on the rows, so it is computed again for each shorter
                # batch.
                while len(batch) > 1:
                    size = sum(converted.size(batch) for converted in values.values())
                    if size <= self._batch_bytes:
                        break
                    batch = batch[: max(1, len(batch) * self._batch_bytes // size)]
                yield batch
                start += len(batch)

    def _predict_batch(
        self, values: dict[str, Converted], rows: RowNumbers, errors: Errors, call: WatchedCall
    ) -> list[_Predicted]:
        """Predict a batch; if the model refuses it, predict its halves, down to the bad rows.

        A bad row among n costs about 2 log2(n) further calls, where single rows would cost n.
        """
        try:
            # The turn is taken first, so that waiting for another batch does not count as time of
            # this one.
            with self.model.turn, self._watch.batch(call, rows):
                fetched = self._call(
                    {key: converted.take(rows) for key, converted in values.items()}, len(rows)
                )
        except Refused as error:
            lacks_memory, message = error.lacks_memory, str(error)
        else:
            return [self._converted(fetched, rows, errors)]
        # With a fixed batch dimension a smaller batch would be padded to the same size again, so
        # halving it cannot save memory.
        if len(rows) == 1 or (lacks_memory and self._fixed_batch is not None):
            reason = "runs out of memory with it" if lacks_memory else "rejects it"
            errors.update(dict.fromkeys(rows, f"{self.model.name} {reason}: {message}"))
            return []
        middle = len(rows) // 2
        parts = [
            part
            for half in (rows[:middle], rows[middle:])
            for part in self._predict_batch(values, half, errors, call)
        ]
        # The smaller size is kept if all rows succeeded with it. Otherwise a row was too large and
        # not the batch, and later batches without such a row can have the old size.
        if lacks_memory and sum(len(part.rows) for part in parts) == len(rows):
            most = max(len(part.rows) for part in parts)
            if most < self._batch_size:
                self._report(
                    logging.WARNING,
                    f"{self.model.name} ran out of memory: from now on a batch has at most {most}"
                    " rows",
                )
                self._batch_size = most
        return parts

    def _converted(self, fetched: Arrays, rows: RowNumbers, errors: Errors) -> _Predicted:
        cells = []
        for converter in self._outputs:
            column, bad = converter.convert(fetched[converter.key])
            for place, message in bad.items():
                errors.setdefault(rows[place], message)
            cells.append(column)
        return _Predicted(rows, cells)

    def _call(self, feeds: Arrays, rows: int) -> Arrays:
        # A cell is the whole tensor with its batch dimension, so the axis of rows is removed, and
        # put in front of the outputs again.
        if self._cells_hold_batches:
            fetched = self.model.predict({key: array[0] for key, array in feeds.items()})
            return {key: array[np.newaxis] for key, array in fetched.items()}
        size = rows
        if self._fixed_batch is not None:
            size = self._fixed_batch
        # XLA compiles for seconds at each new size, so there are powers of two alone, and the size
        # of full batches.
        elif self.signature.is_compiled:
            size = max(rows, min(1 << (rows - 1).bit_length(), self._batch_size))
        # Copies of the last row fill the batch, because zeros may not be valid for the model.
        padding = size - rows
        if padding:
            feeds = {
                key: np.concatenate([array, np.repeat(array[-1:], padding, axis=0)])
                for key, array in feeds.items()
            }
        fetched = self.model.predict(feeds)
        for key, array in fetched.items():
            if array.ndim == 0 or len(array) != rows + padding:
                raise ServingError(
                    f"the output {key!r} has the shape {list(array.shape)} for a batch of"
                    f" {rows + padding} rows, so it holds no value per row; a model that takes"
                    " single tensors needs cellsHoldBatches"
                )
        return {key: array[:rows] for key, array in fetched.items()} if padding else fetched


class _Predicted(NamedTuple):
    rows: RowNumbers
    cells: list[Values]
