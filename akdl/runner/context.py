"""`task_config.tf_context`: this worker's rows as TensorFlow datasets, or as numpy arrays.

`task_config.context` is the same object, for scripts that use another framework. A dataset may be
iterated while rows still arrive, so a training begins with the first chunk. All datasets leave here
unsharded, since Flink has distributed the rows already. The shapes of ARRAYs come from the first
rows.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Sequence

from akdl.features import Defaults, checked_defaults, unsharded
from akdl.near_names import listed
from akdl.process.ranks import share_of_cores
from akdl.rows.batches import RowBatches, dataset_of, following, with_length
from akdl.rows.stream_rows import StreamRows, second_pass
from akdl.wire import Rows, TableColumns
from akdl.wire.cells import Arrays, read_cells
from akdl.wire.column_type import Kind, type_of

if TYPE_CHECKING:
    from akdl.rows.file_rows import FileRows

# Files in the work folder that scripts written for Alink read.
SHAPES, TYPES = "tensor_shapes.txt", "tensor_types.txt"

_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "byte",
    Kind.SMALLINT: "int",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
}
"""Names of types that `akdl.engine.inputs.dtype_str_map` knows."""


class Share(NamedTuple):
    """Rows of one worker: a TFRecord file of tf.train.Example and its number of rows."""

    path: str
    rows: int


class TFContext:
    """The rows of this worker and their columns.

    Args:
        rows: Storage of the rows while they arrive.
        columns: Columns of the table that feeds the script, in order.
        exact_doubles: DOUBLE columns hold 8 bytes in a bytes feature instead of a float32.
        shares: Returns the result of `shares()` once it is complete; None where only this process's
            rows are known.
        is_alone: The process trains without a group. In a group, Keras would derive the number of
            steps from one share.
    """

    def __init__(
        self,
        rows: FileRows | StreamRows,
        columns: TableColumns,
        exact_doubles: bool = False,
        shares: Callable[[], list[Share]] | None = None,
        is_alone: bool = False,
    ) -> None:
        self.rows = rows
        self.columns = list(columns)
        self.exact_doubles = exact_doubles
        self._shares = shares
        self._is_alone = is_alone

    def shares(self) -> list[Share]:
        """Return the files of all workers that receive rows, in the order of the workers.

        Waits until all are complete.

        All paths can be read on this host. Outside a group, the only file is this process's own.
        With a coordinating chief, all workers write their files. In other groups, a worker writes
        its file when its script requests the shares or its own file.

        Raises:
            akdl.process.channel.ChannelError: The rows did not arrive completely.
        """
        if self._shares is None:
            return [Share(self.rows.file(), self.rows.length())]
        return self._shares()

    def flink_stream_dataset(
        self,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of serialized rows, usable while rows still arrive.

        Each row is a tf.train.Example.

        Each element is a scalar string. Iterating waits for rows and ends after the last one. The
        arguments exist for scripts written for Alink and have no effect: the data is not
        compressed. Distribution strategies do not shard the dataset, see `akdl.features.unsharded`.
        Its length is known under the same conditions as for `batches`.

        Raises:
            akdl.process.channel.ChannelError: While iterating, when the rows did not arrive
                completely.
        """
        # This import is late, because some scripts do not use TensorFlow, or configure it first.
        import tensorflow as tf

        paths = dataset_of(self.rows.segments, tf.string, tf.TensorShape([]))
        # `paths.flat_map(tf.data.TFRecordDataset)` would do the same, but is a sixth slower,
        # because each record passes one more dataset.
        return self._in_step(
            with_length(unsharded(tf.data.TFRecordDataset(paths)), self._length(1))
        )

    def batches(
        self,
        batch_size: int,
        defaults: Defaults = None,
        columns: Sequence[str] | None = None,
        shuffle_rows: int = 0,
        num_epochs: int | None = 1,
        seed: int | None = None,
        parallel: int | None = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of batches of rows, usable while rows still arrive.

        Batches are built from whole columns without parsing, in a third to a fifth of the time of
        `flink_stream_dataset()` with a parser.

        In a process without a group, the dataset has a length (`cardinality()`) if all rows have
        arrived, and `model.fit` then makes exactly as many steps. The method waits for up to 16 MB
        of rows; `dataset_length` waits for all rows.

        Args:
            batch_size: Rows in a batch; the last one may be smaller.
            defaults: Column name to the value that replaces null.
            columns: Names of the columns to read; None for all.
            shuffle_rows: Size of the shuffle buffer in rows; 0 keeps the order. Half of the buffer
                is emitted at once, so it should be several times `batch_size`.
            num_epochs: Passes over the rows, without a break between batches; None repeats
                indefinitely. Streams and operators with `readOnce` allow one pass.
            seed: Fixes the shuffled order; None uses the seed of `tf.random.set_seed`, or a new one
                each time.
            parallel: Threads that convert strings and arrays ahead of the script, in order, up to
                64 MB or a larger batch. By default the process's share of the host's cores, at most
                `intraOpParallelism`; 1 and streams do not read ahead.

        Returns:
            Each element maps column names to tensors of shape [batch], see
            `akdl.features.parse_examples`.

        Raises:
            ValueError: A column in `columns` does not exist, or see `akdl.features.feature_spec`;
                with `readOnce`, more than one pass, and while iterating, a second one.
        """
        batches_of = self._batches_of(columns, defaults, num_epochs)
        # Reading ahead would report rows as finished that the script has not received, and a commit
        # would then lose them after a failure.
        calls = (
            1
            if self.rows.is_stream
            else share_of_cores(os.environ)
            if parallel is None
            else parallel
        )
        dataset = batches_of.dataset(self.rows, batch_size, shuffle_rows, num_epochs, seed, calls)
        # Batches may reach from one pass into the next, so the last batch alone is shorter and the
        # rows of all passes are divided.
        rows = self._length(num_epochs)
        dataset = self._in_step(
            with_length(dataset, None if rows is None else -(-rows // batch_size))
        )
        return following(dataset, self.rows) if isinstance(self.rows, StreamRows) else dataset

    def arrays(
        self,
        batch_size: int,
        defaults: Defaults = None,
        columns: Sequence[str] | None = None,
        shuffle_rows: int = 0,
        num_epochs: int | None = 1,
        seed: int | None = None,
        masked: bool = False,
    ) -> Iterator[Arrays]:
        """Return an iterator over batches of rows as numpy arrays, for PyTorch, JAX or numpy alone.

        It needs no TensorFlow. It has the rows, the order and the guarantees of `batches` in a loop
        of the script itself, and reads in the thread that iterates.

        Args:
            batch_size: See `batches`, as for `defaults`, `columns`, `shuffle_rows` and
                `num_epochs`.
            seed: Fixes the shuffled order; None uses numpy's global random numbers.
            masked: Nulls without a default are masked in arrays of numbers, and None in columns of
                texts and bytes, instead of an error. Arrays of numbers are then
                `np.ma.MaskedArray`. A null ARRAY is empty in any case.

        Returns:
            Each element maps column names to arrays of shape [batch]: numbers as int64 and float32
            (`exact_doubles`: float64), texts and DECIMAL as str objects, BYTES as bytes objects,
            and an ARRAY as `akdl.rows.cell_rows.Ragged`. Numbers are views of the received bytes
            where their types allow it, and so cannot be written to: `torch.tensor` copies them.

        Raises:
            ValueError: See `batches`.
        """
        return self._batches_of(columns, defaults, num_epochs, masked).arrays(
            self.rows, batch_size, shuffle_rows, num_epochs, seed
        )

    def _batches_of(
        self,
        columns: Sequence[str] | None,
        defaults: Defaults,
        num_epochs: int | None,
        masked: bool = False,
    ) -> RowBatches:
        """Check the arguments of `batches` and `arrays`, before a row has to arrive."""
        if self.rows.is_once and num_epochs != 1:
            raise second_pass(num_epochs)
        known = [column.name for column in self.columns]
        names = known if columns is None else list(columns)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"unknown column {unknown[0]!r}; the columns are {listed(known)}")
        wanted = [column for column in self.columns if column.name in names]
        return RowBatches(wanted, self.exact_doubles, checked_defaults(wanted, defaults), masked)

    def _length(self, passes: int | None) -> int | None:
        """Number of rows in so many passes; None if it is unknown or must not be shown.

        In a group the length stays hidden: Keras would take the length of one share for the number
        of steps of all workers.
        """
        if passes is None or not self._is_alone:
            return None
        rows = self.rows.length_beforehand()
        return None if rows is None else rows * passes

    def _in_step(self, dataset: Any) -> Any:
        """Disable automatic read-ahead for a stream's dataset and for all datasets derived from it.

        Otherwise `commit` would include rows that the script has not received, and a script that
        leaves its loop would wait for rows.
        """
        import tensorflow as tf

        if not self.rows.is_stream:
            return dataset
        options = tf.data.Options()
        # The first option lets TensorFlow add a prefetch, and the second one lets it run maps in
        # parallel, so both read ahead.
        for what in ("inject_prefetch", "map_parallelization"):
            # Not all versions of TensorFlow have both options.
            if hasattr(options.experimental_optimization, what):
                setattr(options.experimental_optimization, what, False)
        return dataset.with_options(options)


def write_tensor_shapes(rows: Any, columns: TableColumns, work_dir: str) -> None:
    """Write `tensor_shapes.txt` and `tensor_types.txt` into the work folder.

    Scripts written for Alink read them.
    """
    # Alink's scripts read the shape of a tensor column from a file, before any row. A column has no
    # declared shape, so this waits for the first rows and takes the shape of the first valid cell.
    types = {
        column.name: _NAMES.get(type_of(column).kind)
        for column in columns
        if type_of(column).is_array
    }
    # Alink has no name for the other types, so their columns are left out of both files.
    types = {name: dtype for name, dtype in types.items() if dtype is not None}
    first = rows.first_columns() if types else None
    if first is None:
        return
    shapes = {name: shape for name, shape in _shapes(first).items() if name in types}
    for file_name, found in ((SHAPES, shapes), (TYPES, {name: types[name] for name in shapes})):
        with open(os.path.join(work_dir, file_name), "w", encoding="utf-8") as file:
            json.dump(found, file)


def first_shape(rows: Any, name: str) -> list[int] | None:
    """Wait for the first rows and return the shape of the first valid cell of an ARRAY column.

    The result is None without one.
    """
    first = rows.first_columns()
    return None if first is None else _shapes(first).get(name)


def _shapes(rows: Rows) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for column in rows.columns:
        cells = read_cells(column, rows.rows)
        # Only an ARRAY column has offsets of cells.
        if cells.cell_offsets is None:
            continue
        # `argmax` finds the first True; it is 0 as well if all cells are null, hence the second
        # test.
        first = 0 if cells.valid is None else int(cells.valid.argmax())
        if cells.valid is None or cells.valid[first]:
            shapes[column.name] = [int(cells.cell_offsets[first + 1] - cells.cell_offsets[first])]
    return shapes
