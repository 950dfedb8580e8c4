"""Training of an Estimator by the group of TF_CONFIG."""

import math
import os
import time
from typing import Any, Mapping, Optional, Sequence

import tensorflow as tf

from akdl.engine.run_config import read_cluster, read_task
from akdl.tf_version import require_estimator


class TrainingFailed(RuntimeError):
    """A training has started and has no model that can be used; says what is left of it."""


def is_group(config: Any) -> bool:
    """Return whether an Estimator's config names other processes than this one."""
    if config.task_type == "evaluator":
        return True
    return sum(len(addresses) for addresses in config.cluster_spec.as_dict().values()) > 1


def is_chief(config: Any) -> bool:
    """Return whether this process evaluates and exports in the end, which one of a group does.

    It is worker 0 where TF_CONFIG names no chief. The config's own `is_chief` is true for all workers that train in step.
    """
    if not is_group(config):
        return True
    return read_task(os.environ) == ("chief" if "chief" in read_cluster(os.environ) else "worker", 0)


def train_in_group(estimator: Any, train_spec: Any, eval_spec: Any) -> None:
    """Play this process's part in the training of a group.

    The chief and the workers train. A parameter server does not come back from this call: it serves until its process is
    stopped. An evaluator, where TF_CONFIG names one, evaluates new checkpoints until one has `max_steps` of the train_spec.

    Args:
        estimator: Its config is from `akdl.engine.run_config.generate_run_config`.
        train_spec: What the chief and the workers do.
        eval_spec: What an evaluator does.

    Raises:
        ValueError: An evaluator would never end.
    """
    config = estimator.config
    if config.task_type == "evaluator" and train_spec.max_steps is None:
        raise ValueError("an evaluator ends at the last step of the training, so max_steps must not be None")
    if config.num_ps_replicas and config.task_type == "worker":
        train_spec = train_spec._replace(hooks=(_WaitForChief(config), *train_spec.hooks))
    if config.task_type == "evaluator":
        _write_events_apart(estimator.eval_dir(eval_spec.name))
    # Only this entry point starts the servers of a group; it wants an eval_spec also where nobody evaluates.
    require_estimator("train_in_group").train_and_evaluate(estimator, train_spec, eval_spec)


def _write_events_apart(folder: str) -> None:
    """Let what an evaluator writes for TensorBoard have a file of its own.

    TensorFlow names the file after the host and the second. A chief that evaluates in the same second would write into it.
    """
    with tf.Graph().as_default():  # else TensorFlow refuses
        writer = tf.compat.v1.summary.FileWriter(folder, filename_suffix=".evaluator")
    tf.compat.v1.summary.FileWriterCache._cache[folder] = writer  # there is no public way


def last_step(estimator: Any) -> int:
    """Return the global step of the newest checkpoint; 0 where there is none."""
    checkpoint = estimator.latest_checkpoint()
    return 0 if checkpoint is None else int(tf.train.load_variable(checkpoint, tf.compat.v1.GraphKeys.GLOBAL_STEP))


def require_steps(estimator: Any, before: int, max_steps: Optional[int]) -> None:
    """Raise a TrainingFailed where a training made no step and was not at its end before.

    Args:
        estimator: What was trained.
        before: Its `last_step` before the training.
        max_steps: The global step that ends the training.
    """
    step = last_step(estimator)
    if step == before and (max_steps is None or step < max_steps):
        raise TrainingFailed(
            f"no step was made, the global step is still {step}: the input function of training gives no batch, or the "
            "train_op of the model function does not count the global step"
        )


class RequireBatches(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Raises a TrainingFailed at the end of an evaluation without a batch, whose loss TensorFlow calls 0."""

    def begin(self) -> None:
        """Start counting."""
        self._batches = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Count a batch."""
        self._batches += 1

    def end(self, session: Any) -> None:
        """Raise where there was none."""
        if not self._batches:
            raise TrainingFailed("the input function of evaluation gives no batch, so nothing was exported")


def require_number(metrics: Mapping[str, Any]) -> None:
    """Raise a TrainingFailed where the loss of an evaluation is NaN."""
    if math.isnan(metrics["loss"]):
        raise TrainingFailed(f"the loss of the evaluation at step {metrics['global_step']} is NaN, so nothing was exported")


def train_spec(input_fn: Any, max_steps: Optional[int], hooks: Sequence[Any], listeners: Sequence[Any]) -> Any:
    """Return a `tf.estimator.TrainSpec`; that of TensorFlow 1 takes no listeners to checkpoints, and gets none."""
    kind = require_estimator("train_spec").TrainSpec
    if "saving_listeners" not in kind._fields:
        return kind(input_fn, max_steps, hooks)
    return kind(input_fn, max_steps, hooks, saving_listeners=listeners)


class _WaitForChief(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Waits until the chief has given the variables their first values.

    TensorFlow waits too, but looks only once in 30 seconds, and a worker mostly comes before the chief is done.
    """

    def __init__(self, config: Any) -> None:
        self._config = config

    def begin(self) -> None:
        missing = tf.compat.v1.report_uninitialized_variables(tf.compat.v1.global_variables())
        while True:
            with tf.compat.v1.Session(self._config.master, config=self._config.session_config) as session:
                if not len(session.run(missing)):
                    return
            time.sleep(0.2)
