"""Checkpoints, reports and requests to stop of an Estimator's training in an operator.

Workers in step have to end at the same step, and their Estimators have no channel to agree on one,
so they ignore requests.
"""

import logging
import os
from typing import Any, Callable, List, Mapping, Optional

import tensorflow as tf

from akdl.engine.best_checkpoints import BestCheckpoints, best_checkpoints
from akdl.engine.estimator_group import is_chief, is_group
from akdl.engine.training_watch import TrainingWatch
from akdl.runner.config import TaskConfig
from akdl.storage.checkpoint_folder import CheckpointFolder, refuse_pattern

logger = logging.getLogger(__name__)


class EstimatorWatch:
    """The hooks and listeners of one training of an Estimator inside an operator.

    Make it before the training: it fetches earlier checkpoints and sets the Estimator's
    `model_dir`. Pass `hooks` and `listeners` to the training, and call `end` on the chief
    afterwards.
    """

    def __init__(
        self,
        estimator: Any,
        task_config: Optional[TaskConfig],
        train_config: Mapping[str, Any],
        valid_fn: Optional[Callable[[], object]] = None,
    ) -> None:
        refuse_pattern(estimator.model_dir)
        self._folder: Optional[CheckpointFolder] = None
        self._estimator = estimator
        config = estimator.config
        # Workers in step have to stop at the same step, and there is no channel to agree on one
        # here.
        in_step = is_group(config) and config.train_distribute is not None
        if task_config is not None and task_config.checkpoint_dir is not None:
            self._folder = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir)
            if self._folder.is_remote and config.num_ps_replicas:
                raise ValueError(
                    "checkpointDir: expected a folder that all hosts share, got a remote address: parameter servers write "
                    "their own parts of an Estimator's checkpoints"
                )
            self._folder.fetch()
            if is_chief(config):
                self._folder.begin(task_config.attempt)
            # Scripts make their Estimators with a folder that only this attempt has, and TensorFlow
            # has no public way to move an Estimator. A restart would begin at step 0 in an empty
            # folder.
            vars(estimator).update(_model_dir=self._folder.path, _config=config.replace(model_dir=self._folder.path))
        best = best_checkpoints(train_config, estimator.model_dir, "loss")
        if best is not None and (valid_fn is None or in_step):
            raise ValueError(
                "train_config: keep_best_checkpoints needs "
                + ("valid_raw_dataset_fn, to evaluate on" if valid_fn is None else "a group that does not train in step")
            )
        watch = TrainingWatch(task_config, None if in_step else self._folder)
        watch.total_steps = train_config.get("max_steps")
        self.hooks: List[_WatchHook] = [_WatchHook(watch, getattr(config.train_distribute, "num_replicas_in_sync", 1))]
        self.listeners: List[Any] = []
        if is_chief(config) and (best is not None or self._folder is not None):
            self.listeners = [_CheckpointListener(estimator, self._folder, best, valid_fn)]

    def rest_of(self, input_fn: Callable[[], Any]) -> Callable[[], Any]:
        """Skip the batches that were read before the last checkpoint; for a process alone.

        Only there the order of the rows equals the order of the steps, so that the global step says
        how many batches were read.
        """
        path = self._estimator.latest_checkpoint() if self._folder is not None else None
        if path is None:
            return input_fn
        strategy = self._estimator.config.train_distribute
        batches = int(tf.train.load_variable(path, "global_step")) * (strategy.num_replicas_in_sync if strategy else 1)
        logger.info("resuming from %s: the first %d batches are skipped", path, batches)
        return lambda: input_fn().skip(batches)

    def end(self) -> None:
        """Publish the last checkpoint: to the address, if `checkpointDir` is one."""
        if self._folder is not None:
            self._folder.publish()


class _WatchHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    def __init__(self, watch: TrainingWatch, replicas: int) -> None:
        self._watch, self._replicas = watch, replicas

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        # Estimators take the mean of the replicas' losses if an optimizer of TensorFlow 1 does so,
        # and otherwise their sum. The reported loss is the mean in both cases.
        replicas = 1 if getattr(graph, "_is_loss_scaled_by_optimizer", False) else self._replicas
        self._fetches = {"step": tf.compat.v1.train.get_global_step()}
        losses = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)
        # The Estimator adds the loss of the whole training to the collection last.
        if losses and isinstance(losses[-1], tf.Tensor):
            self._fetches["loss"] = losses[-1] / replicas

    def before_run(self, run_context: Any) -> Any:
        # A fetched loss is read from the device, so it is requested only for steps with a report.
        return tf.compat.v1.train.SessionRunArgs(self._fetches) if self._watch.is_report_due() else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is not None:
            found = dict(run_values.results)
            self._watch.report(int(found.pop("step")), found)
        self._watch.look()
        if self._watch.stop:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        self._watch.report(int(session.run(self._fetches["step"])), {})


class _CheckpointListener(tf.compat.v1.train.CheckpointSaverListener):  # type: ignore[misc]
    """Offers each new checkpoint to the best ones, and publishes the folder; on the chief alone."""

    def __init__(
        self,
        estimator: Any,
        folder: Optional[CheckpointFolder],
        best: Optional[BestCheckpoints],
        valid_fn: Optional[Callable[[], object]],
    ) -> None:
        self._estimator, self._folder, self._best, self._valid_fn = estimator, folder, best, valid_fn

    def begin(self) -> None:
        self._evaluated: Optional[str] = self._estimator.latest_checkpoint()

    def after_save(self, session: Any, global_step_value: int) -> None:
        path = os.fspath(self._estimator.latest_checkpoint())
        # TensorFlow also saves before the first step and again at the end, where nothing is new to
        # evaluate.
        if self._best is not None and global_step_value and path != self._evaluated:
            self._evaluated = path
            self._best.offer(path, self._estimator.evaluate(self._valid_fn, checkpoint_path=path))
        if self._folder is not None:
            self._folder.publish()
