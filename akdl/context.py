"""`task_config.tf_context`: this worker's rows as TensorFlow sees them."""

from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from akdl.features import batches, unsharded
from akdl.tf_version import tf_version
from akdl.wire import TableColumn

if TYPE_CHECKING:
    from akdl.dataset import Rows
    from akdl.stream_rows import StreamRows


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
    """

    def __init__(
        self,
        rows: "Union[Rows, StreamRows]",
        columns: Sequence[TableColumn],
        exact_doubles: bool = False,
        shares: Optional[Callable[[], List[Share]]] = None,
    ) -> None:
        self.rows = rows
        self.columns = list(columns)
        self.exact_doubles = exact_doubles
        self._shares = shares

    def shares(self) -> List[Share]:
        """Return the files of all workers that get rows, in the order of the workers; waits until all are complete.

        A process that is told nothing of the others gives its own file only. The paths are readable on this host.

        Raises:
            akdl.channel.ChannelError: The rows did not arrive completely.
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
        does not shard it, see `akdl.features.unsharded`.

        Raises:
            akdl.channel.ChannelError: While iterating, when the rows did not arrive completely.
        """
        import tensorflow as tf  # late: a script may do without TensorFlow, and must set it up before it is imported

        paths = _string_dataset(tf, self.rows.segments)
        # Not `paths.flat_map(tf.data.TFRecordDataset)`, where each record passes one more dataset: a sixth slower.
        return unsharded(tf.data.TFRecordDataset(paths))

    def batches(self, batch_size: int, defaults: Optional[Mapping[str, Any]] = None) -> Any:
        """Return a `tf.data.Dataset` of batches of rows, usable while rows still arrive.

        Args:
            batch_size: Rows in a batch; the last one may be smaller.
            defaults: Column name to the value of cells that are null.

        Returns:
            Each element maps column names to tensors of shape [batch], see `akdl.features.parse_examples`.
        """
        return batches(self.flink_stream_dataset(), batch_size, self.columns, self.exact_doubles, defaults)


def _string_dataset(tf: Any, generate: Callable[[], Iterator[str]]) -> Any:
    if tf_version() >= (2, 4):  # the older arguments are deprecated from there on
        return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.string))
    return tf.data.Dataset.from_generator(generate, tf.string, tf.TensorShape([]))
