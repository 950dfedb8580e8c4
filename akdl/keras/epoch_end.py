"""The end of an epoch, detected before Keras takes a step beyond it.

Keras meets the end of a dataset of unknown length inside a step. That step has no rows, but it
counts: the optimizer's iterations grow and layers draw random numbers, so all later weights differ
from the weights of a training on a dataset whose length is known.
"""

from __future__ import annotations

from typing import Any, Callable, List

import tensorflow as tf

from akdl.runner.config import TaskConfig

Total = Callable[[List[float]], List[float]]


class EpochEnd(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Callback that ends a call of `model.fit` at the last step of one pass over the data.

    Pass `data` of this object to `model.fit` in place of the dataset: it is read one batch ahead,
    since only the next batch shows whether a batch is the last one. `is_over` distinguishes the end
    of the pass from other reasons for `stop_training`, and `is_whole` is set after the last step.

    Args:
        data: One pass over the rows of this worker, as batches.
        task_config: The role of this process and the number of workers.
        total: Sums numbers over all workers that train in step, which all have to call it; None for
            a process alone.
        single: End the call after one epoch even if the length of the data is known.
    """

    def __init__(
        self, data: Any, task_config: TaskConfig, total: Total | None = None, single: bool = False
    ) -> None:
        super().__init__()
        # Otherwise Keras converts the logs for this callback, which reads all metrics from the
        # device after each step.
        self._supports_tf_logs = True
        self._total = total
        self._number = 0 if task_config.task_type == "chief" else task_config.task_index + 1
        self._workers = task_config.num_workers
        self._batches: int | None = None
        self.is_over = self.is_whole = False
        # Without eager execution the length is not needed, because there the optimizers of Keras
        # wait for the rows before they count.
        length = int(tf.data.experimental.cardinality(data)) if tf.executing_eagerly() else None
        # In a group a known length is of no use: Keras takes the length of this worker's own share
        # for the number of steps of the group.
        self._is_counted = total is None and length != tf.data.experimental.UNKNOWN_CARDINALITY
        self._steps = length if self._is_counted else None
        self._is_single = single or not self._is_counted
        self.data = data if self._is_counted else _one_ahead(data, self._note)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._steps is None and not self._is_counted:
            self._steps = self._batches if self._total is None else self._most_steps(self._total)
        # A call of several steps (`steps_per_execution`) may pass over the number. An infinite
        # dataset has a negative one.
        self.is_whole = self._steps is not None and batch + 1 >= self._steps > 0
        if self.is_whole and not self._is_counted:
            self.is_over = self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # Each pass is a call of `model.fit` of its own, but `epochs` stays the number of the whole
        # training, because Keras prints it ("Epoch 3/20"). So the call is ended here.
        if self._is_single and not self.model.stop_training:
            self.is_over = self.model.stop_training = True

    def _note(self, batches: Any) -> Any:
        # This runs while the last batch is read, so before the step that trains on it ends. The
        # report of 0 batches is the only one if there are none, and follows the other one if not.
        if self._batches is None:
            self._batches = int(batches)
        return batches

    def _most_steps(self, total: Total) -> int | None:
        """Agree on the steps of the worker with the most rows; None until all numbers are known.

        All workers call this after the same steps, because it waits for a sum over them. 0 stands
        for a worker that has not met the end of its rows yet, so each known number is raised by 1.
        """
        own = [0.0] * self._workers
        if self._batches is not None:
            # The strategy cuts each batch into a part per replica, and a step takes one part per
            # replica of this worker. So a worker's batch lasts for as many steps as there are
            # workers.
            own[self._number] = 1.0 + self._batches * self._workers
        of_all = total(own)
        return int(max(of_all)) - 1 if all(of_all) else None


def _one_ahead(data: Any, note: Callable[[object], object]) -> Any:
    """Return the dataset, which calls `note` with its number of elements before the last one, and
    with 0 at its end.

    The elements are numbered from 1 and pass through a sliding window of two. Only the window that
    begins at the last element has a single number, so it is recognized before the element is used.
    """

    def pair(numbers: Any, elements: Any) -> Any:
        """Zip a window's numbers, as one batch, with its elements; the first one is used."""
        element = (
            elements if isinstance(elements, tf.data.Dataset) else tf.data.Dataset.zip(elements)
        )
        return tf.data.Dataset.zip((numbers.batch(2), element))

    def first(numbers: Any, element: Any) -> Any:
        """Return a window's first element; report its number if there is no second one."""
        # A Python function in a dataset's graph runs for its effect, although its result is not
        # used.
        is_last = tf.equal(tf.size(numbers), 1)
        tf.cond(
            is_last,
            lambda: tf.numpy_function(note, [numbers[0]], tf.int64),
            lambda: tf.constant(0, tf.int64),
        )
        return element

    ahead = data.enumerate(1).window(2, shift=1).flat_map(pair).map(first)

    def end(number: object) -> object:
        """Return no elements; report 0 when these are asked for."""
        tf.numpy_function(note, [number], tf.int64)
        return ahead.take(0)

    return ahead.concatenate(tf.data.Dataset.range(1).flat_map(end))
