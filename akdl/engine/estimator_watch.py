"""Checkpoints, evaluations, reports and requests to stop of an Estimator's training.

Workers in step have to end at the same step, and their Estimators have no channel to agree on one,
so they ignore requests.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from akdl.engine.estimator_group import is_chief, is_group, train_in_group, train_spec
from akdl.runner.config import TaskConfig
from akdl.storage.training_folders import CheckpointFolder, refuse_pattern
from akdl.tf_version import require_estimator
from akdl.training.checkpoints import best_checkpoints
from akdl.training.training_watch import Report, TrainingWatch
from akdl.user_code.config_file import Config

v1 = tf.compat.v1

logger = logging.getLogger(__name__)

InputFn = Callable[[], Any]
# A function of the path of a checkpoint and its metrics.
Evaluated = Callable[[str, Mapping[str, Any]], object]


class EstimatorWatch:
    """One training of an Estimator with its hooks and listeners, inside an operator or outside.

    Make it before the training: it fetches earlier checkpoints and sets the Estimator's
    `model_dir`. Call `end` on the chief after `train`.

    Args:
        estimator: The Estimator, whose RunConfig has the role of this process.
        task_config: The argument of the operator's `main`; None outside of an operator.
        train_config: The keys for the best checkpoints, and `max_steps`.
        eval_spec: The rows of evaluations, and how often there are any; None for no evaluation.
        receivers: Receive each evaluation. With them, even if there are none in the list, a process
            alone evaluates during the training. In a group the evaluator does, because all workers
            would wait for the chief.
        lines: Receives the lines of a `StepHook`, one every `every_steps` steps; None for no lines.
    """

    def __init__(
        self,
        estimator: Any,
        task_config: TaskConfig | None,
        train_config: Config,
        eval_spec: Any = None,
        receivers: Sequence[Evaluated] | None = None,
        lines: Report | None = None,
        every_steps: int | None = None,
    ) -> None:
        refuse_pattern(estimator.model_dir)
        self._folder: CheckpointFolder | None = None
        self._estimator, self._eval_spec = estimator, eval_spec
        config = estimator.config
        # Workers in step have to stop at the same step, and there is no channel to agree on one
        # here. An evaluation in the middle of their training, as for the best checkpoint, would
        # make all of them wait for the chief.
        in_step = is_group(config) and config.train_distribute is not None
        if task_config is not None and task_config.checkpoint_dir is not None:
            self._folder = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir)
            if self._folder.is_remote and config.num_ps_replicas:
                raise ValueError(
                    "checkpointDir: expected a folder that all hosts share, got a remote address:"
                    " parameter servers write their own parts of an Estimator's checkpoints"
                )
            self._folder.fetch()
            if is_chief(config):
                self._folder.begin(task_config.attempt)
            # Scripts make their Estimators with a folder that only this attempt has, and TensorFlow
            # has no public way to move an Estimator. A restart would begin at step 0 in an empty
            # folder.
            vars(estimator).update(
                _model_dir=self._folder.path, _config=config.replace(model_dir=self._folder.path)
            )
        best = best_checkpoints(train_config, estimator.model_dir, "loss")
        if best is not None and (eval_spec is None or in_step):
            raise ValueError(
                "train_config: keep_best_checkpoints needs "
                + (
                    "valid_raw_dataset_fn, to evaluate on"
                    if eval_spec is None
                    else "a group that does not train in step"
                )
            )
        watch = TrainingWatch(task_config, None if in_step else self._folder)
        watch.total_steps = train_config.get("max_steps")
        self._replicas = getattr(config.train_distribute, "num_replicas_in_sync", 1)
        self._hooks = [StepHook(watch, self._replicas, lines, every_steps)]
        is_evaluated = best is not None or (receivers is not None and not is_group(config))
        receive_all = [*([] if best is None else [best.offer]), *(receivers or [])]
        self._evaluations = (
            None if eval_spec is None else _Evaluations(estimator, eval_spec, receive_all)
        )
        self._listeners: list[Any] = []
        if is_chief(config):
            # The evaluation comes first, so that an address receives the best checkpoints as well.
            self._listeners += [self._evaluations] if is_evaluated and eval_spec is not None else []
            self._listeners += [] if self._folder is None else [_Publisher(self._folder)]

    def train(
        self, input_fn: InputFn, max_steps: int | None, hooks: Sequence[Any], skips: bool = False
    ) -> None:
        """Train in the role of this process, alone or in the group of TF_CONFIG.

        With `skips`, a process alone skips the batches that were read before the last checkpoint.
        Only there the order of the rows equals the order of the steps, so that the global step says
        how many batches were read.
        """
        estimator, hooks = self._estimator, [*hooks, *self._hooks]
        config = estimator.config
        if is_group(config):
            # TensorFlow requires a spec of evaluations, but it only evaluates in a process of the
            # role evaluator, which operators do not start.
            spec = self._eval_spec or require_estimator().EvalSpec(input_fn)
            train_in_group(estimator, train_spec(input_fn, max_steps, hooks, self._listeners), spec)
            return
        path = estimator.latest_checkpoint() if skips and self._folder is not None else None
        read = input_fn
        if path is not None:
            # A step takes one batch for each replica of the strategy.
            batches = int(tf.train.load_variable(path, "global_step")) * self._replicas
            logger.info("resuming from %s: the first %d batches are skipped", path, batches)

            def read() -> Any:
                return input_fn().skip(batches)

        estimator.train(read, hooks, max_steps=max_steps, saving_listeners=self._listeners)

    def end(self) -> dict[str, Any] | None:
        """Publish the last checkpoint, if `checkpointDir` is an address, and return its metrics."""
        if self._folder is not None:
            self._folder.publish()
        return None if self._evaluations is None else self._evaluations.of_last_checkpoint()


class StepHook(v1.train.SessionRunHook):  # type: ignore[misc, name-defined]
    """Passes the steps on to a watch, and writes a line with loss and speed every `every_steps`
    steps.

    The loss is read from the device, which takes time, so it is requested only for steps with a
    report or a line.
    """

    def __init__(
        self,
        watch: TrainingWatch,
        replicas: int = 1,
        lines: Report | None = None,
        every_steps: int | None = None,
    ) -> None:
        self._watch, self._replicas, self._lines, self._every = watch, replicas, lines, every_steps
        self._own_steps, self._last = 0, 0.0

    def begin(self) -> None:
        graph = v1.get_default_graph()
        # Estimators take the mean of the replicas' losses if an optimizer of TensorFlow 1 does so,
        # and otherwise their sum. The reported loss is the mean in both cases.
        replicas = 1 if getattr(graph, "_is_loss_scaled_by_optimizer", False) else self._replicas
        self._step, self._fetches = v1.train.get_global_step(), {}
        losses = v1.get_collection(v1.GraphKeys.LOSSES)
        # The Estimator adds the loss of the whole training to the collection last.
        if losses and isinstance(losses[-1], tf.Tensor):
            self._fetches["loss"] = losses[-1] / replicas

    def before_run(self, run_context: Any) -> Any:
        # `after_run` counts this step, so it is not in `_own_steps` yet.
        self._has_line = bool(
            self._every and (self._own_steps == 0 or (self._own_steps + 1) % self._every == 0)
        )
        is_due = self._has_line or self._watch.is_report_due()
        return v1.train.SessionRunArgs(self._fetches) if is_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._own_steps += 1
        found = run_values.results
        if found is not None:
            # The step is read by a call of its own, because a fetch of the training step may see
            # the number before or after it is raised.
            step, now = int(run_context.session.run(self._step)), time.monotonic()
            self._watch.report(step, found)
            if self._has_line and self._lines is not None and self._every:
                # The first line comes after a single step, so there is no interval whose speed it
                # could report.
                speed = (
                    ""
                    if self._own_steps == 1
                    else f"  {self._every / max(now - self._last, 1e-9):.1f} steps/s"
                )
                self._last = now
                self._lines(
                    f"step {step}"
                    + "".join(f"  loss {loss:.6g}" for loss in found.values())
                    + speed
                )
        self._watch.look()
        if self._watch.stop:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        self._watch.report(int(session.run(self._step)), {})
        if self._lines is not None and not self._own_steps:
            self._lines(
                "this process made no step: its train_input_fn gives no batch, or other workers"
                " made all steps"
            )


class _Evaluations(v1.train.CheckpointSaverListener):  # type: ignore[misc, name-defined]
    """Evaluates new checkpoints as often as the spec allows, and the last one.

    `tf.estimator.train_and_evaluate` ignores `start_delay_secs` in one process, and it neither
    evaluates nor exports if a second run has nothing left to train.
    """

    def __init__(self, estimator: Any, eval_spec: Any, receivers: list[Evaluated]) -> None:
        self._estimator, self._spec, self._receivers = estimator, eval_spec, receivers
        self._metrics: dict[str, Any] = {}
        self._evaluated: str | None = None

    def begin(self) -> None:
        self._next = time.monotonic() + self._spec.start_delay_secs
        self._trained = False

    def after_save(self, session: Any, global_step_value: int) -> None:
        # TensorFlow also saves before the first step, where nothing is worth an evaluation.
        if not self._trained:
            self._trained = True
        elif time.monotonic() >= self._next:
            # As in TensorFlow, the pause counts from the start of an evaluation and not from its
            # end.
            self._next = time.monotonic() + self._spec.throttle_secs
            self.of_last_checkpoint()

    def of_last_checkpoint(self) -> dict[str, Any]:
        """Evaluate the last checkpoint once; a second call returns the same metrics."""
        checkpoint = self._estimator.latest_checkpoint()
        # `after_save` may have evaluated the last checkpoint of the training already.
        if checkpoint != self._evaluated:
            spec = self._spec
            self._metrics = self._estimator.evaluate(
                spec.input_fn, spec.steps, spec.hooks, checkpoint
            )
            self._evaluated = checkpoint
            for receive in self._receivers:
                receive(checkpoint, self._metrics)
        return self._metrics


class _Publisher(v1.train.CheckpointSaverListener):  # type: ignore[misc, name-defined]
    """Publishes the folder after each new checkpoint; on the chief alone."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._folder.publish()
