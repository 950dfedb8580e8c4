"""Synchronous training of an Estimator with parameter servers.

By default each worker applies its gradients when it has them, to variables that other workers have
changed meanwhile. With `sync_optimizer` a step waits for the gradients of all workers.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import tensorflow as tf

from akdl.runner.config import TaskConfig


def sync_optimizer(optimizer: Any, task_config: TaskConfig) -> tuple[Any, Any]:
    """Return an optimizer that makes one step from the gradients of all workers, and its hook.

    Give the optimizer to the Estimator and the hook to `akdl.engine.train.train_estimator`, in
    `hooks` of train_config:

        optimizer, hook = sync_optimizer(tf.compat.v1.train.AdagradOptimizer(0.05), task_config)
        estimator = tf.compat.v1.estimator.DNNClassifier(..., optimizer=optimizer)
        train_estimator(estimator, inputs, {"num_epochs": None, "max_steps": 500, "hooks": [hook],
        ...}, ...)

    Every step takes one batch of each worker, and training ends for all workers when one has no
    more rows. If their shares differ in size, repeat the rows (`num_epochs` None) and set
    `max_steps`.

    Args:
        optimizer: An optimizer of `tf.compat.v1.train`, for an Estimator of
            `tf.compat.v1.estimator` or a model function.
        task_config: The argument of `main`: the number of workers, and the role of this process.
    """
    replicas = task_config.num_workers
    wrapped = tf.compat.v1.train.SyncReplicasOptimizer(
        optimizer, replicas_to_aggregate=replicas, total_num_replicas=replicas
    )
    return wrapped, _SyncHook(wrapped, task_config.task_type == "chief")


class _SyncHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Replaces the hook of `SyncReplicasOptimizer.make_session_run_hook`, with two differences.

    It hands out no tokens before the first step: with them, a fast worker takes the place of a late
    one. And it does not join the thread that makes the steps, which still waits for gradients at
    the end: TensorFlow's join takes two minutes.
    """

    def __init__(self, optimizer: Any, is_chief: bool) -> None:
        self._optimizer = optimizer
        self._is_chief = is_chief

    def begin(self) -> None:
        # Only the operations of the queue runner are used. `_make_steps` takes the place of its
        # threads.
        runner = self._optimizer.get_chief_queue_runner()
        self._steps, self._close_tokens = runner.enqueue_ops, runner.close_op
        self._missing = self._optimizer.ready_for_local_init_op
        self._init = (
            self._optimizer.chief_init_op if self._is_chief else self._optimizer.local_step_init_op
        )

    def after_create_session(self, session: Any, coord: Any) -> None:
        missing = session.run(self._missing)
        if len(missing):
            raise RuntimeError(
                "expected all variables to be initialized, these are not:"
                f" {b', '.join(missing).decode()}"
            )
        session.run(self._init)
        if self._is_chief:
            threading.Thread(
                target=self._make_steps, args=(session, coord), name="akdl-sync", daemon=True
            ).start()

    def end(self, session: Any) -> None:
        self._release(session)

    def _make_steps(self, session: Any, coord: Any) -> None:
        """Make steps until the training ends; runs in a daemon thread of the chief."""
        try:
            while not coord.should_stop():
                session.run(self._steps)
        # This thread must end for any error, otherwise the other workers wait for its steps
        # indefinitely.
        except Exception as error:
            if not coord.should_stop():
                coord.request_stop(error)
                self._release(session)

    def _release(self, session: Any) -> None:
        """End workers that wait for the next step; a step that is ready is made first."""
        # Both ends of the training come here, and the queue may be closed already.
        with contextlib.suppress(tf.errors.CancelledError):
            session.run(self._close_tokens)
