"""Batches of rows made of whole columns: where all cells are numbers, most rows have nothing that must be parsed.

Frames of one layout are a table of bytes, from which each column is cut at once. Parsing the same rows costs several times
as much as all else on their way into a training step. Rows with a null are parsed all the same.

Everything here runs in the thread of TensorFlow that asks for the next batch.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from akdl.features import FLOAT32, INT64, STRING, ColumnKind, parse_examples, unsharded
from akdl.packed import Layout
from akdl.tf_version import tf_version
from akdl.wire import Example, TableColumn

if TYPE_CHECKING:
    from akdl.dataset import Alike, Rows
    from akdl.stream_rows import StreamRows

PARSED_AT_ONCE = 4096

_NUMBERS = {INT64: "<i8", FLOAT32: "<f4"}


class RowBatches:
    """Makes batches of some columns.

    Args:
        columns: All columns of the table, in order.
        wanted: Names of those that batches have.
        exact_doubles: See `akdl.features.feature_spec`.
        defaults: See `akdl.features.feature_spec`.
    """

    def __init__(
        self, columns: Sequence[TableColumn], wanted: Sequence[str], exact_doubles: bool, defaults: Optional[Mapping[str, Any]]
    ) -> None:
        self._places = [number for number, column in enumerate(columns) if column.name in wanted]
        self._columns = [columns[number] for number in self._places]
        self._exact = exact_doubles
        self._defaults = defaults
        types = [_number_type(column, exact_doubles) for column in self._columns]
        self._type = np.dtype([(column.name, each) for column, each in zip(self._columns, types)])

    def dataset(
        self,
        rows: "Union[Rows, StreamRows]",
        batch_size: int,
        shuffle_rows: int = 0,
        num_epochs: Optional[int] = 1,
    ) -> Any:
        """Return a `tf.data.Dataset` of batches, see `akdl.context.TFContext.batches`."""
        import tensorflow as tf

        seeds = tf.compat.v1.get_seed(None)
        random = np.random.default_rng(None if seeds[0] is None else seeds)

        def one_pass() -> Iterator[Any]:
            tables = self._tables(rows.parts())
            return shuffled(tables, batch_size, shuffle_rows, random) if shuffle_rows > 1 else tables

        def generate() -> Iterator[Mapping[str, Any]]:
            for batch in batched(_repeated(one_pass, num_epochs), batch_size):
                yield {name: batch[name] for name in batch.dtype.names}

        signature = {name: tf.TensorSpec([None], tf.as_dtype(self._type[name])) for name in self._type.names or ()}
        return unsharded(tf.data.Dataset.from_generator(generate, output_signature=signature))

    def _tables(self, parts: "Iterable[Union[Alike, str]]") -> Iterator[Any]:
        rows = 0
        for part in parts:
            if isinstance(part, str):
                tables = self._parsed(part, rows)
            else:
                tables = iter([cut(part.frames, part.layout, self._places, self._type)])
            for table in tables:
                rows += len(table)
                yield table

    def _parsed(self, path: str, before: int) -> Iterator[Any]:
        """Parse the rows of a file, of which `before` others came first."""
        import tensorflow as tf

        for serialized in tf.data.TFRecordDataset(path).batch(PARSED_AT_ONCE):
            try:
                parsed = parse_examples(serialized, self._columns, self._exact, self._defaults)
            except tf.errors.InvalidArgumentError as error:
                # TensorFlow makes an error of its own of this one, and one of an unknown kind of others than ValueError.
                raise ValueError(self._null_in(serialized.numpy(), before) or error.message) from None
            table = np.empty(len(serialized), self._type)
            for name, cells in parsed.items():
                table[name] = cells.numpy()
            before += len(table)
            yield table

    def _null_in(self, serialized: Iterable[bytes], before: int) -> str:
        """Say where the first null is that no default replaces."""
        required = [column.name for column in self._columns if column.name not in (self._defaults or {})]
        for number, record in enumerate(serialized, before):
            cells = Example.FromString(record).features.feature
            for name in required:
                if name not in cells:
                    return (
                        f"row {number} of those that came to this process: column {name!r} is null; give nulls a value, with "
                        "`defaults` of `batches`, or in the query before"
                    )
        return ""


def are_possible(columns: Sequence[TableColumn], exact_doubles: bool) -> bool:
    """Whether rows of these columns can be batched here: all are plain numbers, and TensorFlow is able to."""
    if any(_number_type(column, exact_doubles) is None for column in columns) or tf_version() < (2, 4):
        return False
    import tensorflow as tf

    # Rows with a null are parsed in a thread of TensorFlow, where a script may have turned off eager execution.
    with ThreadPoolExecutor(1) as elsewhere:
        return bool(elsewhere.submit(tf.executing_eagerly).result())


def cut(frames: Any, layout: Layout, places: Sequence[int], dtype: Any) -> Any:
    """Return columns of frames of one layout.

    Args:
        frames: Back to back.
        layout: Theirs.
        places: Which columns of the table.
        dtype: A structured type with a field for each: int64, float32 or float64.

    Returns:
        An array of this type, shape [rows].
    """
    table_of_bytes = np.frombuffer(frames, np.uint8).reshape(-1, layout.length)
    table = np.empty(len(table_of_bytes), dtype)
    for name, number in zip(dtype.names, places):
        place, width = layout.cells[number]
        cells = table_of_bytes[:, place : place + width]
        if dtype[name].kind == "i":
            table[name] = _integers(cells)
        else:
            table[name] = np.ascontiguousarray(cells).view(dtype[name])[:, 0]
    return table


def shuffled(tables: Iterable[Any], size: int, buffer_rows: int, random: Any) -> Iterator[Any]:
    """Yield rows in random order, from a buffer: as `tf.data.Dataset.shuffle` does, but `size` rows at a time.

    Args:
        tables: Arrays of shape [any].
        size: How many rows leave the buffer at once.
        buffer_rows: How many it holds.
        random: A `numpy.random.Generator`.
    """
    buffer: Any = None
    filled = 0
    for table in tables:
        if buffer is None:
            buffer = np.empty(buffer_rows, table.dtype)
        while len(table):
            if filled < buffer_rows:
                new, table = np.split(table, [buffer_rows - filled])
                buffer[filled : filled + len(new)] = new
                filled += len(new)
                continue
            new, table = np.split(table, [min(size, buffer_rows)])
            chosen = random.choice(buffer_rows, len(new), replace=False)
            yield buffer[chosen]
            buffer[chosen] = new
    if filled:
        yield random.permutation(buffer[:filled])


def batched(tables: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield arrays of `size` rows, the last may be shorter, from arrays of any length."""
    held: List[Any] = []
    missing = size
    for table in tables:
        while len(table):
            piece, table = np.split(table, [missing])
            held.append(piece)
            missing -= len(piece)
            if not missing:
                yield np.concatenate(held) if len(held) > 1 else piece
                held, missing = [], size
    if held:
        yield np.concatenate(held)


def _repeated(one_pass: Any, times: Optional[int]) -> Iterator[Any]:
    """Yield all of several passes; of no end of them for None, unless there is nothing."""
    count = 0
    while times is None or count < times:
        count += 1
        empty = True
        for table in one_pass():
            empty = False
            yield table
        if empty:
            return


def _number_type(column: TableColumn, exact_doubles: bool) -> Optional[str]:
    """Return the type of the cells of a column of plain numbers; None for any other."""
    kind = ColumnKind(column)
    if kind.is_array or kind.feature == STRING:
        return None
    return "<f8" if exact_doubles and kind.name == "DOUBLE" else _NUMBERS[kind.feature]


def _integers(varints: Any) -> Any:
    """Return the int64s, shape [n], that varints of one width hold, shape [n, width]."""
    values = np.zeros(len(varints), np.uint64)
    for byte in range(varints.shape[1]):
        values |= (varints[:, byte] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * byte)
    return values.view(np.int64)
