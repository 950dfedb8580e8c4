"""`task_config.tf_context`: this worker's rows as TensorFlow sees them."""

from typing import TYPE_CHECKING, Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Union

from akdl.features import feature_spec, unsharded
from akdl.rows.batches import RowBatches, dataset_of_strings, with_length
from akdl.rows.once_rows import second_pass
from akdl.wire import TableColumn

if TYPE_CHECKING:
    from akdl.rows.file_rows import FileRows
    from akdl.rows.stream_rows import StreamRows


class Share(NamedTuple):
    """The rows of one worker: a TFRecord file of tf.train.Example and how many are in it."""

    path: str
    rows: int


class TFContext:
    """The rows of this worker and the columns they have.

    Args:
        rows: Where the rows are kept while they arrive.
        columns: Columns of the table that feeds the script, in order.
        exact_doubles: DOUBLE columns hold 8 bytes in a bytes feature instead of a float32.
        shares: Returns what `shares()` gives, once it is complete; None where this process knows only its own rows.
        is_alone: This process trains alone. In a group, Keras would take the length of a share for the number of steps.
    """

    def __init__(
        self,
        rows: "Union[FileRows, StreamRows]",
        columns: Sequence[TableColumn],
        exact_doubles: bool = False,
        shares: Optional[Callable[[], List[Share]]] = None,
        is_alone: bool = False,
    ) -> None:
        self.rows = rows
        self.columns = list(columns)
        self.exact_doubles = exact_doubles
        self._shares = shares
        self._is_alone = is_alone

    def shares(self) -> List[Share]:
        """Return the files of all workers that get rows, in the order of the workers; waits until all are complete.

        A process that does not know the others returns its own file only. All paths can be read on this host. With a
        chief that coordinates, all workers make their files. In other groups, a worker makes its file when its script asks
        for the shares or for its own file.

        Raises:
            akdl.process.channel.ChannelError: The rows did not arrive completely.
        """
        if self._shares is None:
            return [Share(self.rows.file(), self.rows.length())]
        return self._shares()

    def flink_stream_dataset(
        self,
        compression_type: Optional[str] = None,
        buffer_size: Optional[int] = None,
        num_parallel_reads: Optional[int] = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of serialized tf.train.Example, usable while rows still arrive.

        Each element is a scalar string. Iterating waits for rows as needed and ends after the last one. The arguments
        exist for scripts written for Alink and have no effect: nothing is compressed on the way. A distribution strategy
        does not shard it, see `akdl.features.unsharded`. Its length is known where that of `batches` is.

        Raises:
            akdl.process.channel.ChannelError: While iterating, when the rows did not arrive completely.
        """
        import tensorflow as tf  # late: a script may do without TensorFlow, and must set it up before it is imported

        paths = dataset_of_strings(self.rows.segments, [])
        # Not `paths.flat_map(tf.data.TFRecordDataset)`, where each record passes one more dataset: a sixth slower.
        return self._in_step(with_length(unsharded(tf.data.TFRecordDataset(paths)), self._length(1)))

    def batches(
        self,
        batch_size: int,
        defaults: Optional[Mapping[str, Any]] = None,
        columns: Optional[Sequence[str]] = None,
        shuffle_rows: int = 0,
        num_epochs: Optional[int] = 1,
        seed: Optional[int] = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of batches of rows, usable while rows still arrive.

        They are made of whole columns, and nothing is parsed: it takes a third to a fifth of the time of
        `flink_stream_dataset()` and a parser.

        In a process alone, the dataset knows its length (`cardinality()`) where all rows are there, and `model.fit` then makes
        exactly as many steps. Up to 16 MB of rows are waited for; `dataset_length` waits for all.

        Args:
            batch_size: Rows in a batch; the last one may be smaller.
            defaults: Column name to the value of cells that are null.
            columns: Names of the columns to read; None for all.
            shuffle_rows: Rows are shuffled within a buffer of this many; 0 keeps their order. Half of them leave the buffer
                at once, so this should be some times `batch_size`.
            num_epochs: Passes over the rows, without a break between batches; None for no end. A stream has one, and so has an
                operator with `readOnce`.
            seed: Fixes the order of shuffled rows; None for the one that `tf.random.set_seed` fixes, or another each time.

        Returns:
            Each element maps column names to tensors of shape [batch], see `akdl.features.parse_examples`.

        Raises:
            ValueError: A column in `columns` does not exist, or see `akdl.features.feature_spec`; with `readOnce`, more than
                one pass, and while iterating, a second one.
        """
        if self.rows.is_once and num_epochs != 1:
            raise second_pass(num_epochs)
        known = [column.name for column in self.columns]
        names = known if columns is None else list(columns)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; the columns are {', '.join(map(repr, known))}")
        wanted = [column for column in self.columns if column.name in names]
        feature_spec(wanted, self.exact_doubles, defaults)  # refuses defaults that cannot be
        batches_of = RowBatches(wanted, self.exact_doubles, defaults)
        dataset = batches_of.dataset(self.rows, batch_size, shuffle_rows, num_epochs, seed)
        rows = self._length(num_epochs)
        return self._in_step(with_length(dataset, None if rows is None else -(-rows // batch_size)))

    def _length(self, passes: Optional[int]) -> Optional[int]:
        """Return the number of rows of so many passes; None where it is not known, or not to be told."""
        rows = self.rows.length_beforehand() if self._is_alone and passes is not None else None
        return None if rows is None or passes is None else rows * passes

    def _in_step(self, dataset: Any) -> Any:
        """Return the dataset; of a stream, one that TensorFlow does not read ahead by itself, nor what is made from it.

        `commit` would speak of rows that the script has not got yet, and a script that leaves its loop would wait for rows.
        """
        import tensorflow as tf

        if not self.rows.is_stream:
            return dataset
        options = tf.data.Options()
        for what in ("inject_prefetch", "map_parallelization"):
            if hasattr(options.experimental_optimization, what):  # not in all versions
                setattr(options.experimental_optimization, what, False)
        return dataset.with_options(options)
