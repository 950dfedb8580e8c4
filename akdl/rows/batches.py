"""Batches of rows built from whole columns, without parsing and without Python code per cell.

`tf_context.batches` and `tf_context.arrays` come here, and share all but the last step: `arrays`
cuts the batches of a chunk as numpy arrays, in Python and without TensorFlow. For `batches`, Python
handles whole chunks: the batches of a chunk reach TensorFlow together, which cuts them without the
interpreter lock. Numbers are arrays. Strings and ARRAYs are serialized TensorProtos of the column's
bytes as received, with the lengths of strings in front: about 30 ns each, where a list of Python
bytes takes more than 100.

A row may have a hundred megabytes. So a function that passes a table on keeps no reference to it:
the table travels in a list from which the receiver takes it, and names of loops are deleted before
the next table is requested.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from akdl.features import FLOAT32, INT64, STRING, Defaults, unsharded
from akdl.rows.cell_rows import Ragged, Table, batched, chosen, concatenated, repeated, shuffled
from akdl.rows.stream_rows import StreamRows
from akdl.tf_version import tf_version
from akdl.wire import Rows, TableColumn, TableColumns
from akdl.wire.byte_arrays import padded, varint, width_of
from akdl.wire.cells import Array, Arrays, Cells, byte_strings, read_cells
from akdl.wire.column_type import MEANINGS, Kind, type_of
from akdl.wire.columns import is_utf8

if TYPE_CHECKING:
    from akdl.rows.file_rows import FileRows

FLOAT64 = "float64"

# Bytes that TensorFlow may read ahead with `parallel`, or a single larger batch.
READ_AHEAD_BYTES = 64 << 20
# Numbers of tensorflow.DataType. They are written here, because the tensors are serialized by us.
_DATA_TYPES = {FLOAT32: 1, FLOAT64: 2, STRING: 7, INT64: 9}


class RowBatches:
    """Conversion of the rows of a script to batches, one tensor or array for each column.

    With `exact_doubles`, DOUBLE columns are float64 instead of float32. `defaults` maps columns to
    the values that stand for their nulls; a null in another column is an error, since tensors have
    no null, unless it is `masked`, which only `arrays` can read.
    """

    def __init__(
        self,
        columns: TableColumns,
        exact_doubles: bool = False,
        defaults: Defaults = None,
        masked: bool = False,
    ) -> None:
        self._masked = masked
        self._columns = [_TensorColumn(column, exact_doubles, defaults or {}) for column in columns]
        self._serialized = [column for column in self._columns if column.tensors]

    def dataset(
        self,
        rows: FileRows | StreamRows,
        batch_size: int,
        shuffle_rows: int = 0,
        num_epochs: int | None = 1,
        seed: int | None = None,
        parallel: int = 1,
    ) -> Any:
        """Return a `tf.data.Dataset` of batches: a dict from column to tensor.

        Args:
            rows: The rows of this process. Rows of a stream are read once.
            batch_size: Rows of a batch; the last batch may have fewer.
            shuffle_rows: Rows of the buffer from which rows are drawn; 0 keeps the order.
            num_epochs: Number of passes over the rows, None for an endless dataset.
            seed: Seed of the order of rows; without it TensorFlow's global seed decides, as for
                datasets of TensorFlow.
            parallel: Threads that decode strings and ARRAYs. The order of the batches stays.
        """
        import tensorflow as tf

        # The order of rows has random numbers of its own, so that shuffling does not change the
        # numbers that Keras draws for layers.
        seeds = tf.compat.v1.get_seed(None) if seed is None else [seed, 0]
        random = np.random.RandomState(
            None if seeds[0] is None else [seed % 2**32 for seed in seeds]
        )
        groups = functools.partial(self._groups, rows, batch_size, shuffle_rows, num_epochs, random)
        width = sum(column.tensors for column in self._serialized)
        numbers = {
            column.name: tf.as_dtype(column.dtype) for column in self._columns if not column.tensors
        }
        # Numbers have the shape [batches, rows of a batch], which `unbatch` cuts into batches.
        shapes = dict.fromkeys(numbers, tf.TensorShape([None, None]))

        def generate() -> Iterator[object]:
            empty = self._content([Table(0, [column.nulls(0) for column in self._columns])], 1)
            for count, held in groups():
                # The size is read first, because `_content` takes the table out of the list.
                places = held[0].nbytes * parallel // READ_AHEAD_BYTES
                yield self._content(held, count)
                if width and parallel > 1:
                    # TensorFlow reads ahead a number of elements of any size: empty ones take up
                    # the places of a large one. Three times as many are more than all stages hold,
                    # and then the next one is not read ahead at all.
                    yield from itertools.repeat(empty, min(places, 3 * parallel))

        def parsed(batch: Mapping[str, object], serialized: object) -> Mapping[str, object]:
            tensors = iter(tf.unstack(serialized))
            made = {**batch, **{column.name: column.parsed(tensors) for column in self._serialized}}
            return {column.name: made[column.name] for column in self._columns}

        strings = (tf.string, tf.TensorShape([None, width]))
        dataset = unsharded(
            dataset_of(generate, *(zip((numbers, shapes), strings) if width else (numbers, shapes)))
        )
        dataset = (dataset.prefetch(1) if parallel > 1 else dataset).unbatch()
        if not width or parallel < 2:
            return dataset.map(parsed) if width else dataset
        # The filter removes the empty elements that `generate` yields to bound the bytes read
        # ahead.
        first = self._serialized[0].name
        return dataset.map(parsed, num_parallel_calls=parallel).filter(
            lambda batch: tf.shape(batch[first])[0] > 0
        )

    def arrays(
        self,
        rows: FileRows | StreamRows,
        batch_size: int,
        shuffle_rows: int = 0,
        num_epochs: int | None = 1,
        seed: int | None = None,
    ) -> Iterator[Arrays]:
        """Yield batches as dicts from column to numpy array, in the thread that asks for them; see
        `dataset`.

        The rows of a stream's batch count as finished when the next batch is requested, so no
        thread of ours reads ahead of the script. A seed gives the order of rows that it gives
        `dataset`; without it numpy's global generator decides.
        """
        random = np.random.RandomState(
            [np.random.randint(2**31 - 1) if seed is None else seed % 2**32, 0]
        )
        number = 0
        for count, held in self._groups(rows, batch_size, shuffle_rows, num_epochs, random):
            table = held.pop()
            size = table.rows // count
            for start in range(0, table.rows, size):
                number += 1
                if isinstance(rows, StreamRows):
                    # Set before the batch leaves, because the script may end without a request for
                    # another one.
                    rows.handed = number * batch_size
                cut = table.cut(start, start + size)
                yield {
                    column.name: column.array(cells, self._masked)
                    for column, cells in zip(self._columns, cut.columns)
                }
                if isinstance(rows, StreamRows):
                    # The script has come back for the next batch, so it has finished this one.
                    rows.reach(number)
            del table, cut

    def _groups(
        self,
        rows: FileRows | StreamRows,
        batch_size: int,
        shuffle_rows: int,
        num_epochs: int | None,
        random: np.random.RandomState,
    ) -> Iterator[tuple[int, list[Table]]]:
        """Yield some batches at a time: their number, and a list with one table, whose only
        reference is there.

        The rows of a stream's table count as finished when the next one is requested.
        """

        def one_pass() -> Iterator[Table]:
            # A chunk is not finished when the next one is requested: an incomplete batch still
            # holds its rows.
            tables = self.tables(
                rows.columns(finishes=False) if isinstance(rows, StreamRows) else rows.columns()
            )
            return shuffled(tables, shuffle_rows, random) if shuffle_rows > 1 else tables

        if isinstance(rows, StreamRows):
            # A later dataset has no rows, and its size says nothing about the batches of the first.
            rows.batch_size = rows.batch_size or batch_size
            if shuffle_rows > 1:  # the buffer holds rows of any chunk
                rows.loosen()
        for count, group in batched(repeated(one_pass, num_epochs), batch_size):
            found, held = group.rows, [group]
            del group
            if isinstance(rows, StreamRows):
                rows.given += found
            yield count, held
            # With a shuffle buffer, the rows of a batch are not the first ones of the stream, so
            # their number says nothing about the rows that are finished.
            if isinstance(rows, StreamRows) and not rows.is_loose:
                rows.finish(found)

    def tables(self, messages: Iterable[Rows]) -> Iterator[Table]:
        """Yield the columns of each message in the types of their tensors."""
        before = 0
        for message in messages:
            held = [self._table(message, before)]
            before += message.rows
            del message  # a row may have a hundred megabytes
            yield held.pop()

    def _table(self, message: Rows, before: int) -> Table:
        # Columns are found by name: the message has all columns of the table, and lacks a column
        # that is null in each of its rows.
        found = {column.name: column for column in message.columns}
        cells = [
            (
                read_cells(found[column.name], message.rows, column.sent)
                if column.name in found
                else column.nulls(message.rows)
            )
            for column in self._columns
        ]
        if not self._masked:
            self._refuse_nulls(cells, before)
        return Table(
            message.rows, [column.ready(each) for column, each in zip(self._columns, cells)]
        )

    def _content(self, held: list[Table], batches: int) -> object:
        """Tensors of so many batches of equal size, from a table whose only reference is in
        a list.
        """
        table = held.pop()
        size = table.rows // batches
        columns = list(zip(self._columns, table.columns))
        # TensorFlow crashes when it cuts empty numbers, so the empty element has one number.
        numbers = {
            column.name: (
                cells.values.reshape(batches, size) if size else np.zeros((1, 1), column.dtype)
            )
            for column, cells in columns
            if not column.tensors
        }
        each = [
            column.serialized(cells, size, batches) for column, cells in columns if column.tensors
        ]
        return (numbers, [sum(of_batch, []) for of_batch in zip(*each)]) if each else numbers

    def _refuse_nulls(self, columns: Sequence[Cells], before: int) -> None:
        nulls = []
        for column, cells in zip(self._columns, columns):
            if (
                column.default is None
                # A null ARRAY is read as an empty one, so it needs no default.
                and cells.cell_offsets is None
                and cells.valid is not None
                and not cells.valid.all()
            ):
                nulls.append((int(np.argmin(cells.valid)), column.name))
        if nulls:
            # The first bad row is named, whatever the order of the columns.
            row, name = min(nulls, key=lambda null: null[0])
            # TensorFlow passes on a ValueError; it converts other kinds to an unknown error.
            raise ValueError(
                f"row {before + row} of this process: column {name!r}: expected a value, got null."
                " Replace nulls with `defaults` of `batches` or with COALESCE in the query, or"
                " leave the column out with `columns` of `batches`; `arrays` shows them with"
                " `masked=True`"
            )


def dataset_of(generate: Callable[[], Iterator[object]], types: object, shapes: object) -> Any:
    """Return a dataset from a generator, by the arguments that this TensorFlow has."""
    import tensorflow as tf

    if tf_version() >= (2, 4):  # which deprecated the older arguments
        signature = tf.nest.map_structure(tf.TensorSpec, shapes, types)
        return tf.data.Dataset.from_generator(generate, output_signature=signature)
    return tf.data.Dataset.from_generator(generate, types, shapes)


def following(dataset: Any, rows: StreamRows) -> Any:
    """Return a dataset of batches that reports to `rows` what the script has finished, if
    the script iterates over the dataset itself.

    It reports in the script's thread, before each batch, and so more closely than the generator of
    the dataset, from which TensorFlow requests several batches at a time. A dataset that is made
    from it does not report.
    """
    import tensorflow as tf

    kind = type(dataset)

    def iterate(self: Any) -> Any:
        iterator = kind.__iter__(self)
        of_rows, batches = type(iterator), itertools.count()

        def following_batch(self: Any) -> Any:
            # In a traced function this is called once, and not with each batch.
            if not tf.executing_eagerly():
                return of_rows.__next__(self)
            number = next(batches)
            rows.reach(number)
            batch = of_rows.__next__(self)
            rows.handed = (number + 1) * rows.batch_size
            return batch

        # Only the class changes, because functions of TensorFlow accept no other iterators than
        # their own.
        iterator.__class__ = type(
            of_rows.__name__, (of_rows,), {"__next__": following_batch, "get_next": following_batch}
        )
        return iterator

    dataset.__class__ = type(kind.__name__, (kind,), {"__iter__": iterate})
    return dataset


def with_length(dataset: Any, length: int | None) -> Any:
    """Set the number of elements of a dataset, if it is known and this TensorFlow can store it.

    Keras otherwise meets the end inside a step that still counts for the optimizer, so Adam's
    corrections and dropout differ from there on.
    """
    import tensorflow as tf

    set_length = getattr(tf.data.experimental, "assert_cardinality", None)
    return dataset if length is None or set_length is None else dataset.apply(set_length(length))


class _TensorColumn:
    """Conversion of one column to tensors; `tensors` is the number of serialized ones in each
    batch.
    """

    def __init__(
        self, column: TableColumn, exact_doubles: bool, defaults: Mapping[str, object]
    ) -> None:
        column_type = type_of(column)
        self.name = column.name
        self.sent = MEANINGS[column_type.kind].sent
        self.is_array = column_type.is_array
        self._is_text = is_utf8(column)
        self.dtype = (
            FLOAT64 if exact_doubles and column_type.kind is Kind.DOUBLE else column_type.feature
        )
        # Serialized tensors of a batch: values and starts of rows for an ARRAY, values for strings,
        # and 0 for single numbers.
        self.tensors = 2 if self.is_array else int(self.dtype == STRING)
        self.default = self._cell(defaults[column.name]) if column.name in defaults else None

    def nulls(self, rows: int) -> Cells:
        none, offsets = np.zeros(rows, bool), np.zeros(rows + 1, np.int64)
        if self.is_array:
            return Cells(
                np.empty(0, np.uint8), none, offsets, offsets[:1] if self.dtype == STRING else None
            )
        if self.dtype == STRING:
            return Cells(np.empty(0, np.uint8), none, None, offsets)
        return Cells(np.zeros(rows, self.dtype), none)

    def ready(self, cells: Cells) -> Cells:
        """Convert cells to the tensor's type and replace nulls; a null ARRAY is empty."""
        values, valid, cell_offsets, value_offsets = cells
        if (value_offsets is None) is (self.dtype == STRING) or (
            cell_offsets is None
        ) is self.is_array:
            raise ValueError(f"the cells of the column {self.name!r} do not have its type")
        if value_offsets is None:
            # Values beyond float32 become infinity, as in any conversion; a signaling NaN raises
            # `invalid`.
            with np.errstate(over="ignore", invalid="ignore"):
                values = values.astype(self.dtype, copy=False)
        ready = Cells(values, None, cell_offsets, value_offsets)
        if cell_offsets is not None or valid is None or valid.all():
            return ready
        if self.default is None:  # masked, see `_refuse_nulls`
            return ready._replace(valid=valid)
        if value_offsets is None:
            return Cells(np.where(valid, values, self.default.values))
        if not len(self.default.values):
            return ready  # null strings have no bytes, like the default
        rows = len(valid)
        # Null rows choose one more row at the end, which holds the default.
        return chosen(concatenated([ready, self.default]), np.where(valid, np.arange(rows), rows))

    def serialized(self, cells: Cells, size: int, batches: int) -> list[list[bytes]]:
        """TensorProtos of each batch: the values and, for an ARRAY, the start of each row."""
        values = np.ascontiguousarray(cells.values)
        splits = cells.cell_offsets
        offsets = cells.value_offsets
        lengths = None if offsets is None else np.diff(offsets)
        heads = None if lengths is None else padded(lengths, width_of(lengths))
        made = []
        # A batch without rows is made for the empty element of `generate`, whose size of 0 cannot
        # be a step.
        for row in range(0, batches * size, size) if size else [0] * batches:
            first, last = (
                (row, row + size) if splits is None else (int(splits[row]), int(splits[row + size]))
            )
            content = [values[first:last]]
            if heads is not None and offsets is not None:
                content = [heads[first:last], values[int(offsets[first]) : int(offsets[last])]]
            tensors = [_tensor(self.dtype, last - first, *content)]
            if splits is not None:
                tensors.append(
                    # The starts count from the first value of the batch, of which each batch has
                    # its own tensor.
                    _tensor(INT64, size + 1, splits[row : row + size + 1].astype(np.int64) - first)
                )
            made.append(tensors)
        return made

    def array(self, cells: Cells, masked: bool) -> Array:
        """Return the cells as an array: a view that cannot be written to, or objects; see
        `TFContext.arrays`.
        """
        if cells.value_offsets is None:
            values = cells.values.view()
            # Some batches are views of what others may share, so all of them look alike to a
            # script.
            values.flags.writeable = False
        else:
            strings = byte_strings(cells)
            values = np.empty(len(strings), object)
            values[:] = (
                [each.decode("utf-8", "replace") for each in strings] if self._is_text else strings
            )
        if cells.cell_offsets is not None:
            return Ragged(values, cells.cell_offsets)
        nulls = np.zeros(len(values), bool) if cells.valid is None else ~cells.valid
        if cells.value_offsets is not None:
            values[nulls] = None
        elif masked and self.default is None:
            return np.ma.masked_array(values, nulls)  # type: ignore[no-untyped-call]
        return values

    def parsed(self, tensors: Iterator[object]) -> Any:
        import tensorflow as tf

        values = tf.io.parse_tensor(next(tensors), tf.as_dtype(self.dtype))
        values.set_shape([None])
        if not self.is_array:
            return values
        splits = tf.io.parse_tensor(next(tensors), tf.int64)
        splits.set_shape([None])
        # The splits were checked when the message was read, so TensorFlow need not check them for
        # each batch.
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()

    def _cell(self, value: Any) -> Cells:
        if self.dtype != STRING:
            number = int(value) if self.dtype == INT64 else float(value)
            return Cells(np.array([number], self.dtype))
        data = np.frombuffer(
            value if isinstance(value, bytes) else str(value).encode("utf-8"), np.uint8
        )
        return Cells(data, None, None, np.array([0, len(data)]))


def _tensor(dtype: str, size: int, *content: Array) -> bytes:
    """Serialize a TensorProto of shape [size]; strings are all lengths as varints, followed by all
    bytes.
    """
    # Tags of protobuf: in a TensorProto, 08 is dtype, 12 is tensor_shape and 22 is tensor_content.
    # In its shape, 12 is a dimension, and 08 in that its size.
    shape = b"\x08" + varint(size)
    shape = b"\x12" + varint(len(shape)) + shape
    head = b"\x08" + varint(_DATA_TYPES[dtype]) + b"\x12" + varint(len(shape)) + shape
    return b"".join(
        [
            head,
            b"\x22",
            varint(sum(part.nbytes for part in content)),
            *(part.data for part in content),
        ]
    )
