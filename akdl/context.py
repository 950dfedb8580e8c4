"""`task_config.tf_context`: this worker's rows as TensorFlow sees them."""

from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence

from akdl.wire import TableColumn

if TYPE_CHECKING:
    from akdl.dataset import Rows


class TFContext:
    """The rows of this worker and the columns they have.

    Args:
        rows: Where the rows are kept while they arrive.
        columns: Columns of the table that feeds the script, in order.
        exact_doubles: DOUBLE columns hold 8 bytes in a bytes feature instead of a float32.
    """

    def __init__(self, rows: "Rows", columns: Sequence[TableColumn], exact_doubles: bool = False) -> None:
        self.rows = rows
        self.columns = list(columns)
        self.exact_doubles = exact_doubles

    def flink_stream_dataset(
        self,
        compression_type: Optional[str] = None,
        buffer_size: Optional[int] = None,
        num_parallel_reads: Optional[int] = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of serialized tf.train.Example, usable while rows still arrive.

        Each element is a scalar string. Iterating waits for rows as needed and ends after the last one. The arguments
        exist for scripts written for Alink and have no effect: nothing is compressed on the way.

        Raises:
            akdl.channel.ChannelError: While iterating, when the rows did not arrive completely.
        """
        import tensorflow as tf  # late: a script may do without TensorFlow, and must set it up before it is imported

        paths = _string_dataset(tf, self.rows.segments)
        return paths.flat_map(tf.data.TFRecordDataset)


def _string_dataset(tf: Any, generate: Callable[[], Iterator[str]]) -> Any:
    if hasattr(tf, "TensorSpec") and not tf.__version__.startswith("1."):
        return tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.string))
    return tf.data.Dataset.from_generator(generate, tf.string, tf.TensorShape([]))
