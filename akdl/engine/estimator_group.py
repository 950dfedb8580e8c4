"""Training of an Estimator by the group of TF_CONFIG.

Both ways to train an Estimator use this module: `akdl.engine.train` and the runner of four
functions in `akdl.estimator`. It has the checks after which a training counts as failed, because
TensorFlow ends many trainings without rows as if they had succeeded.

An Estimator under MultiWorkerMirroredStrategy fails inside TensorFlow when one worker runs out of
rows before another. So the workers agree on the largest number of steps, through TensorFlow, as
only their scripts have the number of rows that they read.
"""

from __future__ import annotations

import logging
import math
import os
import time
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from akdl.process.ranks import read_cluster, read_task
from akdl.tf_version import require_estimator
from akdl.user_code.module import TrainingFailed

v1 = tf.compat.v1


def is_group(config: Any) -> bool:
    """Test for a group; an evaluator belongs to one, although it is never in the cluster."""
    if config.task_type == "evaluator":
        return True
    # A chief alone has a cluster of one, which trains as without TF_CONFIG.
    return sum(len(addresses) for addresses in config.cluster_spec.as_dict().values()) > 1


def is_chief(config: Any) -> bool:
    """Test for the process that evaluates and exports in the end.

    A config's own `is_chief` does not help: it is true for all workers in step.
    """
    if not is_group(config):
        return True
    # Without a chief in the cluster, worker 0 is the chief.
    return read_task(os.environ) == (
        "chief" if "chief" in read_cluster(os.environ) else "worker",
        0,
    )


def train_in_group(estimator: Any, train_spec: Any, eval_spec: Any) -> None:
    """Run this process's role in the training of a group, and block until the role ends.

    A parameter server serves until its process is stopped, so there this call does not return. An
    evaluator evaluates new checkpoints until one has `max_steps`.

    Raises:
        ValueError: An evaluator without `max_steps` in the train spec, which would never end.
    """
    config = estimator.config
    if config.task_type == "evaluator" and train_spec.max_steps is None:
        raise ValueError(
            "the evaluator would never end: set max_steps, the last step of the training, got None"
        )
    # The chief initializes the variables itself, so only the workers wait for them.
    if config.num_ps_replicas and config.task_type == "worker":
        train_spec = train_spec._replace(hooks=(_WaitForChief(config), *train_spec.hooks))
    if config.task_type == "evaluator":
        # TensorFlow names the file for TensorBoard by host and second. A chief that evaluates in
        # the same second would write into the same file, so this one has a suffix.
        folder = estimator.eval_dir(eval_spec.name)
        # In eager mode TensorFlow refuses to make a writer of version 1.
        with tf.Graph().as_default():
            writer = v1.summary.FileWriter(folder, filename_suffix=".evaluator")
        # The Estimator takes its writer from this cache, and there is no public way to hand it one.
        v1.summary.FileWriterCache._cache[folder] = writer
    # Only this entry point starts the servers of a group; it requires an eval_spec even without an
    # evaluator.
    require_estimator("train_in_group").train_and_evaluate(estimator, train_spec, eval_spec)


def last_step(estimator: Any) -> int:
    """Read the global step of the newest checkpoint; 0 without a checkpoint."""
    checkpoint = estimator.latest_checkpoint()
    return (
        0
        if checkpoint is None
        else int(tf.train.load_variable(checkpoint, v1.GraphKeys.GLOBAL_STEP))
    )


def require_steps(estimator: Any, before: int, max_steps: int | None) -> None:
    """Refuse a training that made no step, unless step `before` was at its end already.

    TensorFlow ends without an error when the input gives no batch, and would then export the
    initial weights.
    """
    step = last_step(estimator)
    # A second run whose checkpoint is at `max_steps` already makes no step, and may still export.
    if step == before and (max_steps is None or step < max_steps):
        raise TrainingFailed(
            f"the training made no step, the global step is still {step}: the input function of"
            " training gives no batch, or the train_op of the model function does not increment"
            " the global step"
        )


class RequireBatches(v1.train.SessionRunHook):  # type: ignore[misc, name-defined]
    """Hook that fails an evaluation without a batch, for which TensorFlow returns a loss of 0."""

    def begin(self) -> None:
        # TensorFlow calls `begin` for each evaluation, so one hook counts each of them from 0.
        self._batches = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._batches += 1

    def end(self, session: Any) -> None:
        if not self._batches:
            raise TrainingFailed(
                "the input function of evaluation gives no batch, so nothing was exported"
            )


def require_number(metrics: Mapping[str, Any]) -> None:
    """Refuse an evaluation whose loss is NaN: TensorFlow checks the loss of training steps only."""
    if math.isnan(metrics["loss"]):
        raise TrainingFailed(
            f"the loss of the evaluation at step {metrics['global_step']} is NaN, so nothing was"
            " exported"
        )


def train_spec(
    input_fn: Any, max_steps: int | None, hooks: Sequence[object], listeners: Sequence[object]
) -> Any:
    """Return a `tf.estimator.TrainSpec`.

    TensorFlow 1 has no parameter for listeners, so they are left out there.
    """
    kind = require_estimator("train_spec").TrainSpec
    if "saving_listeners" not in kind._fields:
        return kind(input_fn, max_steps, hooks)
    return kind(input_fn, max_steps, hooks, saving_listeners=listeners)


def served_by_default(estimator: Any) -> Any:
    """Return the estimator with its "predict" signature as the default signature too.

    The default signature of TensorFlow's own estimators takes serialized Examples, and TensorFlow
    leaves it out of an export that takes tensors. A predictor that names no signature would then
    find nothing.
    """
    module = require_estimator()
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

    def model_fn(features: Any, labels: Any, mode: Any, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        outputs = dict(spec.export_outputs or {})
        if isinstance(outputs.get("predict"), module.export.PredictOutput):
            outputs[default] = outputs["predict"]
            return spec._replace(export_outputs=outputs)
        return spec

    # The weights are not copied: an export reads them from a checkpoint in the folder.
    return module.Estimator(model_fn, model_dir=estimator.model_dir, config=estimator.config)


class _WaitForChief(v1.train.SessionRunHook):  # type: ignore[misc, name-defined]
    """Hook of a worker that waits until the chief has initialized the variables.

    TensorFlow looks only once in 30 seconds, so without this hook each worker next to parameter
    servers begins up to half a minute late. The wait has no deadline of its own, because a chief
    may load data for hours before its first step: the bridge ends the workers of a chief that is
    lost, or whose script has failed.
    """

    def __init__(self, config: Any) -> None:
        self._config = config

    def begin(self) -> None:
        # A hook may add operations in `begin` only, because the graph is finalized after it.
        missing = v1.report_uninitialized_variables(v1.global_variables())
        while True:
            # The training's own session does not exist yet. This one has the same device filters,
            # without which it would wait for workers that have ended.
            with v1.Session(self._config.master, config=self._config.session_config) as session:
                if not len(session.run(missing)):
                    return
            time.sleep(0.2)


logger = logging.getLogger(__name__)

# TensorFlow counts the keys of its own collectives up from 1, so this one ("akdl" in ASCII) never
# meets them.
_KEY = 0x616B646C


class CommonSteps(v1.train.SessionRunHook):  # type: ignore[misc, name-defined]
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
        logger.info(
            "this worker has rows for %d steps, the largest share for %d: all make so many",
            self._steps,
            self._left,
        )

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def count_rows(raw_dataset_fn: Callable[[], Any]) -> int | None:
    """Count the rows of a dataset, in graph mode too; None for an infinite dataset.

    This reads the whole dataset once. It has a graph and a session of its own, because an
    Estimator's script may be in graph mode, where a dataset cannot be iterated.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = raw_dataset_fn()
        if (
            session.run(tf.data.experimental.cardinality(dataset))
            == tf.data.experimental.INFINITE_CARDINALITY
        ):
            return None
        return int(
            session.run(dataset.reduce(tf.constant(0, tf.int64), lambda number, _: number + 1))
        )
