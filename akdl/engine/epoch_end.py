"""The end of an epoch, detected before Keras takes a step beyond it.

Such a step has no rows, but it counts: the optimizer's iterations grow and layers draw random numbers, so all later weights
differ.
"""

from typing import Any, Callable, List, Optional

import tensorflow as tf

from akdl.runner.config import TaskConfig

Total = Callable[[List[float]], List[float]]


class EpochEnd(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Callback that ends a call of `model.fit` at the last step of one pass over the data, which is read one batch ahead.

    `total` sums numbers over all workers that train in step. `single` ends the call even if the length of the data is known.
    """

    def __init__(self, data: Any, task_config: TaskConfig, total: Optional[Total] = None, single: bool = False) -> None:
        super().__init__()
        self._supports_tf_logs = True  # else Keras reads all metrics from the device after each step
        self._total = total
        self._number = 0 if task_config.task_type == "chief" else task_config.task_index + 1
        self._workers = task_config.num_workers
        self._batches: Optional[int] = None
        self._steps: Optional[int] = None
        self.is_over = False
        # In a graph, the optimizers of Keras wait for the rows before they count.
        length = int(tf.data.experimental.cardinality(data)) if tf.executing_eagerly() else None
        # Keras takes the length of a worker's own share for the number of steps of the group.
        self._is_counted = total is None and length != tf.data.experimental.UNKNOWN_CARDINALITY
        self._is_single = single or not self._is_counted
        self.data = data if self._is_counted else _one_ahead(data, self._note)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._is_counted:
            return
        if self._steps is None:
            self._steps = self._batches if self._total is None else self._most_steps(self._total)
        if self._steps is not None and batch + 1 >= self._steps:
            self.is_over = self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # `epochs` stays the number of the whole training, which Keras prints, so the call is ended here.
        if self._is_single and not self.model.stop_training:
            self.is_over = self.model.stop_training = True

    def _note(self, batches: Any) -> Any:
        self._batches = int(batches)
        return batches

    def _most_steps(self, total: Total) -> Optional[int]:
        """Agree on the steps of the worker with the most rows; None until every worker has found its own. All call it."""
        own = [0.0] * self._workers
        if self._batches is not None:
            # The strategy cuts each batch into a part per replica, and a step takes one part per replica of this worker.
            own[self._number] = 1.0 + self._batches * self._workers
        of_all = total(own)
        return int(max(of_all)) - 1 if all(of_all) else None


def _one_ahead(data: Any, note: Callable[[object], object]) -> Any:
    """Return the dataset, which calls `note` with the number of its elements just before the last one."""

    def pair(numbers: Any, elements: Any) -> Any:
        element = elements if isinstance(elements, tf.data.Dataset) else tf.data.Dataset.zip(elements)
        return tf.data.Dataset.zip((numbers.batch(2), element))

    def first(numbers: Any, element: Any) -> Any:
        is_last = tf.equal(tf.size(numbers), 1)
        tf.cond(is_last, lambda: tf.numpy_function(note, [numbers[0]], tf.int64), lambda: tf.constant(0, tf.int64))
        return element

    return data.enumerate(1).window(2, shift=1).flat_map(pair).map(first)
