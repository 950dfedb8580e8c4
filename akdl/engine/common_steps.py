"""The same number of steps for each worker that trains an Estimator in step.

The workers may have different numbers of rows.

An Estimator under MultiWorkerMirroredStrategy fails inside TensorFlow when one worker runs out of
rows before another. The workers agree on the largest number of steps through TensorFlow, as only
their scripts have the number of rows that they read.
"""

import logging
from typing import Any, Callable, Optional

import tensorflow as tf

logger = logging.getLogger(__name__)

# TensorFlow counts the keys of its own collectives up from 1, so this one ("akdl" in ASCII) never
# meets them.
_KEY = 0x616B646C


class CommonSteps(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Hook that ends the training of all workers after the steps of the largest share.

    The input has to last for them, so the caller repeats the rows of smaller shares without end.
    The agreement is a collective operation in front of the first step: it blocks until every worker
    has made its session.
    """

    def __init__(self, steps: int, worker: int, num_workers: int) -> None:
        self._steps = steps
        self._worker = worker
        self._num_workers = num_workers
        self._left = steps

    def begin(self) -> None:
        own = [self._steps if each == self._worker else 0 for each in range(self._num_workers)]
        with tf.device("/device:CPU:0"):
            self._of_all = tf.raw_ops.CollectiveReduce(
                input=tf.constant(own, tf.int64),
                group_size=self._num_workers,
                group_key=_KEY,
                instance_key=_KEY,
                # TensorFlow 1.15 has no "Max". So each worker fills its own place of a vector of
                # zeros, the sum has the numbers of all, and the maximum is taken afterwards.
                merge_op="Add",
                final_op="Id",
                subdiv_offsets=[0],
            )

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._left = int(max(session.run(self._of_all)))
        logger.info("this worker has rows for %d steps, the largest share for %d: all make so many", self._steps, self._left)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def count_rows(raw_dataset_fn: Callable[[], Any]) -> Optional[int]:
    """Count the rows of a dataset, in graph mode too; None for an infinite dataset.

    This reads the whole dataset once. It has a graph and a session of its own, because an
    Estimator's script may be in graph mode, where a dataset cannot be iterated.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = raw_dataset_fn()
        if session.run(tf.data.experimental.cardinality(dataset)) == tf.data.experimental.INFINITE_CARDINALITY:
            return None
        return int(session.run(dataset.reduce(tf.constant(0, tf.int64), lambda number, _: number + 1)))
