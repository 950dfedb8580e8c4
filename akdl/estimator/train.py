"""Training with four functions: train, evaluate, export; alone, or in the group of TF_CONFIG.

In one process, the Estimator trains up to `train_max_steps` from the newest checkpoint in `model_dir`, if there is one, and
evaluates new checkpoints as `eval_start_delay_secs` and `eval_throttle_secs` say. When it has trained, the last checkpoint is
evaluated and exported. In a group the chief does these last two; before that, only a process with the role `evaluator`
evaluates, which needs the same `model_dir`.

`train_and_evaluate` of TensorFlow does not do for one process: there it leaves `eval_start_delay_secs` out, and it neither
evaluates nor exports where a second run finds nothing left to train.
"""

import logging
import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

import tensorflow as tf

from akdl.engine.estimator_group import is_chief, is_group, train_in_group, train_spec
from akdl.engine.estimator_watch import EstimatorWatch
from akdl.engine.run_config import generate_run_config
from akdl.estimator.four_functions import Functions
from akdl.estimator.parameters import with_defaults
from akdl.runner.config import TaskConfig
from akdl.tf_version import require_estimator

Report = Callable[[str], None]

logger = logging.getLogger(__name__)


class Result(NamedTuple):
    """What came of a training.

    Attributes:
        global_step: Steps in the last checkpoint, of all workers and all runs together.
        metrics: The last evaluation: `loss`, `global_step`, and what `model_fn` measures.
        exported: Folder of the SavedModel.
    """

    global_step: int
    metrics: Dict[str, Any]
    exported: str


def train(
    module: Any,
    path: str,
    params: Optional[Mapping[str, Any]] = None,
    model_dir: str = "model_dir",
    export_dir: Optional[str] = None,
    report: Optional[Report] = None,
    own_rows: bool = False,
    task_config: Optional[TaskConfig] = None,
) -> Optional[Result]:
    """Train and evaluate, and export the model with all its heads.

    Args:
        module: Holds the four functions, see `akdl.estimator.four_functions`.
        path: What `train_input_fn` and `eval_input_fn` are called with.
        params: See `akdl.estimator.parameters`; what is not here has its default.
        model_dir: Folder of the checkpoints. Training goes on from what is there.
        export_dir: The SavedModel goes into a folder named by the time, here; by default into `export` in `model_dir`.
        report: Takes lines that tell how far it is; they are logged where it is None.
        own_rows: Whether the data at `path` are rows of this worker alone.
        task_config: The operator's, for reports and its folder of checkpoints, which then takes the place of `model_dir`.

    Returns:
        None on other roles than the chief. A parameter server does not come back.

    Raises:
        akdl.user_code.config_file.ConfigError: Parameters are wrong.
        akdl.user_code.module.UserModuleError: A function is missing or has a wrong signature.
        RuntimeError: This TensorFlow has no Estimator.
    """
    module_of_estimators = require_estimator("akdl.estimator")
    report = report or logger.info
    settings = with_defaults(params)
    functions = Functions(module, path, settings)
    estimator = module_of_estimators.Estimator(
        _model_fn(functions, settings["log_step_count_steps"], report),
        config=generate_run_config(
            # All cores, unless the environment says how many.
            intra_op_parallelism_threads=0,
            inter_op_parallelism_threads=0,
            model_dir=model_dir,
            **{key: settings[key] for key in _RUN_CONFIG_KEYS},
        ),
    )
    watch = EstimatorWatch(estimator, task_config, {})
    config, model_dir = estimator.config, estimator.model_dir
    distributed = is_group(config)
    inputs = [functions.input_fn(name, distributed, own_rows) for name in ("train_input_fn", "eval_input_fn")]
    spec = train_spec(inputs[0], settings["train_max_steps"], [*_saving_hooks(config), *watch.hooks], watch.listeners)
    eval_spec = module_of_estimators.EvalSpec(
        inputs[1],
        settings["eval_steps"],
        start_delay_secs=settings["eval_start_delay_secs"],
        throttle_secs=settings["eval_throttle_secs"],
    )
    if is_chief(config):
        _try_export(functions, config)
    evaluations = _Evaluations(estimator, eval_spec, report)
    if distributed:
        train_in_group(estimator, spec, eval_spec)
        if not is_chief(config):
            return None
    else:
        listeners = [*watch.listeners, evaluations]
        estimator.train(spec.input_fn, spec.hooks, max_steps=spec.max_steps, saving_listeners=listeners)
    watch.end()
    metrics = evaluations.of_last_checkpoint()
    export_dir = export_dir or os.path.join(model_dir, "export")
    exported = os.fsdecode(estimator.export_saved_model(export_dir, functions.receive))
    report(f"exported to {exported}")
    return Result(int(metrics["global_step"]), metrics, exported)


_RUN_CONFIG_KEYS = ("save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max", "log_step_count_steps")


def _model_fn(functions: Functions, every_steps: Optional[int], report: Report) -> Callable[..., Any]:
    """Return the user's `model_fn` with a hook that tells step and loss."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = functions.model(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.TRAIN or every_steps is None or spec.loss is None:
            return spec
        return spec._replace(training_hooks=[*spec.training_hooks, _Progress(spec.loss, every_steps, report)])

    return model_fn


def _try_export(functions: Functions, config: Any) -> None:
    """Make the graph that is exported in the end, so that its mistakes are told before hours of training."""
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = functions.receive().features
        functions.model(features, None, tf.estimator.ModeKeys.PREDICT, config)


def _saving_hooks(config: Any) -> List[Any]:
    """Return the hook that writes the one checkpoint of a training without any: evaluation and export read it."""
    if config.save_checkpoints_steps is not None or config.save_checkpoints_secs is not None or not is_chief(config):
        return []
    return [_SaveAtEnd(config.model_dir, save_steps=1)]


class _SaveAtEnd(tf.compat.v1.train.CheckpointSaverHook):  # type: ignore[misc]
    def after_create_session(self, session: Any, coord: Any) -> None:
        pass

    def before_run(self, run_context: Any) -> None:
        pass

    def after_run(self, run_context: Any, run_values: Any) -> None:
        pass


class _Progress(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Tells step, loss and speed; what is slow to read is read only where a line is due."""

    def __init__(self, loss: Any, every_steps: int, report: Report) -> None:
        self._loss = loss
        self._every = every_steps
        self._report = report

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_global_step()
        self._own_steps = 0
        self._last = time.monotonic()

    def before_run(self, run_context: Any) -> Any:
        self._own_steps += 1
        due = self._own_steps % self._every == 0 or self._own_steps == 1
        return tf.compat.v1.train.SessionRunArgs(self._loss) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        step, now = run_context.session.run(self._global_step), time.monotonic()
        speed = "" if self._own_steps == 1 else f"  {self._every / max(now - self._last, 1e-9):.1f} steps/s"
        self._last = now
        self._report(f"step {step}  loss {run_values.results:.6g}{speed}")


class _Evaluations(tf.compat.v1.train.CheckpointSaverListener):  # type: ignore[misc]
    """Evaluates checkpoints: new ones while it trains, when it is time, and the last one."""

    def __init__(self, estimator: Any, eval_spec: Any, report: Report) -> None:
        self._estimator = estimator
        self._spec = eval_spec
        self._report = report
        self._metrics: Dict[str, Any] = {}
        self._evaluated: Optional[str] = None

    def begin(self) -> None:
        self._next = time.monotonic() + self._spec.start_delay_secs
        self._trained = False

    def after_save(self, session: Any, global_step_value: int) -> None:
        if not self._trained:  # saved before the first step
            self._trained = True
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + self._spec.throttle_secs
            self.of_last_checkpoint()

    def of_last_checkpoint(self) -> Dict[str, Any]:
        checkpoint = self._estimator.latest_checkpoint()
        if checkpoint != self._evaluated:
            self._metrics = self._estimator.evaluate(self._spec.input_fn, self._spec.steps)
            self._evaluated = checkpoint
            values = "  ".join(f"{name} {value:.6g}" for name, value in sorted(self._metrics.items()) if name != "global_step")
            self._report(f"evaluation at step {self._metrics['global_step']}  {values}")
        return self._metrics
