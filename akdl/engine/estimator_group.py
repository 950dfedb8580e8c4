"""Training of an Estimator by the group of TF_CONFIG."""

import os
import time
from typing import Any, Optional, Sequence

import tensorflow as tf

from akdl.engine.run_config import read_role
from akdl.tf_version import require_estimator


def is_group(config: Any) -> bool:
    """Return whether an Estimator's config names other processes than this one."""
    if config.task_type == "evaluator":
        return True
    return sum(len(addresses) for addresses in config.cluster_spec.as_dict().values()) > 1


def is_chief(config: Any) -> bool:
    """Return whether this process evaluates and exports in the end, which one of a group does.

    The config's own `is_chief` is true for all workers that train in step.
    """
    return not is_group(config) or read_role(os.environ) == "chief"


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
    # Only this entry point starts the servers of a group; it wants an eval_spec also where nobody evaluates.
    require_estimator("train_in_group").train_and_evaluate(estimator, train_spec, eval_spec)


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
