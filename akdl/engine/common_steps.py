"""As many steps for each worker that trains an Estimator in step, however many rows each of them has.

An Estimator under MultiWorkerMirroredStrategy fails inside TensorFlow when one worker has no more rows and another one has.
So the workers agree on the largest number of steps before the first one, in TensorFlow itself, as only their scripts know which
rows they read.
"""

import logging
from typing import Any, Callable, Optional

import tensorflow as tf

logger = logging.getLogger(__name__)

_KEY = 0x616B646C  # of the collective: any number that TensorFlow does not count up to itself


class CommonSteps(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Ends the training of all workers after as many steps as the one with the most rows needs.

    Args:
        steps: That this worker's rows are good for. Its input has to have at least as many as that of any other one.
    """

    def __init__(self, steps: int, worker: int, num_workers: int) -> None:
        self._steps = steps
        self._worker = worker
        self._num_workers = num_workers
        self._left = steps

    def begin(self) -> None:
        """Add the exchange to the graph."""
        own = [self._steps if each == self._worker else 0 for each in range(self._num_workers)]
        with tf.device("/device:CPU:0"):
            self._of_all = tf.raw_ops.CollectiveReduce(
                input=tf.constant(own, tf.int64),
                group_size=self._num_workers,
                group_key=_KEY,
                instance_key=_KEY,
                merge_op="Add",  # TensorFlow 1.15 has no "Max"
                final_op="Id",
                subdiv_offsets=[0],
            )

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Agree with the other workers."""
        self._left = int(max(session.run(self._of_all)))
        logger.info("this worker has rows for %d steps, the largest share for %d: all make so many", self._steps, self._left)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Count a step."""
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def count_rows(raw_dataset_fn: Callable[[], Any]) -> Optional[int]:
    """Return the number of rows that a dataset gives, None where it has no end; in graph mode too."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = raw_dataset_fn()
        if session.run(tf.data.experimental.cardinality(dataset)) == tf.data.experimental.INFINITE_CARDINALITY:
            return None
        return int(session.run(dataset.reduce(tf.constant(0, tf.int64), lambda number, _: number + 1)))
