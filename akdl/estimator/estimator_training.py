"""Training with four functions: train, evaluate, export; alone, or in the group of TF_CONFIG.

In one process, the Estimator trains up to `train_max_steps`, from the newest checkpoint in
`model_dir`, and evaluates new checkpoints at the times of `eval_start_delay_secs` and
`eval_throttle_secs`. After the training, the last checkpoint is evaluated and exported. In a group,
the chief evaluates and exports at the end (worker 0 if TF_CONFIG has no chief); during the
training, only a process with the role `evaluator` evaluates, which needs the same `model_dir`.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import sys
from typing import Any, Mapping, NamedTuple

import tensorflow as tf

from akdl.engine import estimator_group
from akdl.engine.estimator_watch import EstimatorWatch
from akdl.engine.run_config import generate_run_config
from akdl.estimator.dry_run import GraphChecks, Serving, try_evaluation, try_export, try_folders
from akdl.estimator.four_functions import Functions
from akdl.estimator.parameters import with_defaults
from akdl.runner.config import TaskConfig
from akdl.tf_version import require_estimator
from akdl.training.training_watch import Report
from akdl.training.workers import in_step_workers
from akdl.user_code.config_file import Config
from akdl.user_code.module import TrainingFailed

logger = logging.getLogger(__name__)


_RUN_CONFIG_KEYS = (
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "keep_checkpoint_max",
    "log_step_count_steps",
)


class Result(NamedTuple):
    """Result of a training.

    Attributes:
        global_step: The global step of the last checkpoint; for workers in step, the steps of each
            of them.
        metrics: The last evaluation: `loss`, `global_step`, and the metrics of `model_fn`.
        exported: Folder of the SavedModel.
    """

    global_step: int
    metrics: dict[str, Any]
    exported: str


def train(
    module: object,
    path: str,
    params: Config | None = None,
    model_dir: str = "model_dir",
    export_dir: str | None = None,
    report: Report | None = None,
    own_rows: bool = False,
    task_config: TaskConfig | None = None,
) -> Result | None:
    """Train and evaluate, and export the model with all its heads.

    Args:
        module: The module with the four functions, see `akdl.estimator.four_functions`.
        path: Argument of `train_input_fn` and `eval_input_fn`.
        params: See `akdl.estimator.parameters`; other parameters have their defaults.
        model_dir: Folder of the checkpoints. Training resumes from the newest one.
        export_dir: Folder of the exports, each in a folder named by the time; by default `export`
            in `model_dir`.
        report: Receives lines about the progress; None logs them.
        own_rows: The data at `path` are rows of this worker alone.
        task_config: The argument of the operator's `main`, for reports and its folder of
            checkpoints, which replaces `model_dir`.

    Returns:
        The result; None in other roles than the chief. In a parameter server, this call does not
        return.

    Raises:
        akdl.user_code.config_file.ConfigError: Parameters are wrong or a folder cannot be written;
            nothing was started.
        akdl.user_code.module.UserModuleError: A function is missing, has a wrong signature or
            returns a wrong value; nothing was trained.
        akdl.user_code.module.TrainingFailed: There are no rows to train on, the loss became
            NaN, or the model cannot be evaluated or exported.
        RuntimeError: This TensorFlow has no Estimator.
    """
    module_of_estimators = require_estimator("akdl.estimator")
    report = report or logger.info
    workers = in_step_workers(os.environ)
    settings = with_defaults(params, in_step=workers > 0)
    functions = Functions(module, path, settings)
    saving = {key: settings[key] for key in _RUN_CONFIG_KEYS}
    if saving["save_checkpoints_steps"] is None and saving["save_checkpoints_secs"] is None:
        # Evaluation and export read the weights from a checkpoint, so there has to be one, and only
        # the last one is of use. TensorFlow saves before the first step and after the last, and
        # between them never for so many steps.
        saving.update(save_checkpoints_steps=sys.maxsize, keep_checkpoint_max=1)
    estimator = module_of_estimators.Estimator(
        functions.model,
        config=generate_run_config(
            # 0 stands for all cores, unless the environment sets a number.
            intra_op_parallelism_threads=0,
            inter_op_parallelism_threads=0,
            model_dir=model_dir,
            **saving,
        ),
    )
    distributed = estimator_group.is_group(estimator.config)
    chief = estimator_group.is_chief(estimator.config)
    inputs = [
        functions.input_fn(name, distributed, own_rows)
        for name in ("train_input_fn", "eval_input_fn")
    ]
    eval_spec = module_of_estimators.EvalSpec(
        inputs[1],
        settings["eval_steps"],
        hooks=[estimator_group.RequireBatches()],
        start_delay_secs=settings["eval_start_delay_secs"],
        throttle_secs=settings["eval_throttle_secs"],
    )

    # The watch may move the Estimator to the operator's folder, so its folder is read afterwards.
    receivers = [functools.partial(_report_evaluation, report)]
    watch = EstimatorWatch(
        estimator, task_config, {}, eval_spec, receivers, report, settings["log_step_count_steps"]
    )
    config, model_dir = estimator.config, estimator.model_dir
    export_dir = export_dir or os.path.join(model_dir, "export")
    serving = Serving({}, False)
    if chief:
        try_folders({"the model dir": model_dir, "the export dir": export_dir})
        serving = try_export(functions, config, report)
        # The first batch is read here, so that an evaluation input without rows does not fail after
        # the training.
        try_evaluation(functions, inputs[1], config)
    max_steps = _max_steps(settings["train_max_steps"], config, workers, report)
    # A training without rows ends without an error, so the steps before and after it are compared.
    before = estimator_group.last_step(estimator) if chief else 0
    try:
        watch.train(inputs[0], max_steps, [GraphChecks(functions.file, serving.variables)])
    except tf.compat.v1.train.NanLossDuringTrainingError as error:
        kept = estimator.latest_checkpoint()
        raise TrainingFailed(
            f"the loss became NaN, so nothing was exported. The last checkpoint is {kept}; it may"
            " contain NaN too. Train from an earlier checkpoint or from the start, for example"
            " with a smaller learning rate"
        ) from error
    # Only the chief evaluates and exports. The others end here, and their processes with them.
    if not chief:
        return None
    estimator_group.require_steps(estimator, before, max_steps)
    # TensorFlow would leave out the default signature here, since it takes serialized Examples.
    served = (
        estimator_group.served_by_default(estimator) if serving.predict_is_default else estimator
    )
    return _finish(served, functions, watch, export_dir, report)


def _max_steps(
    train_max_steps: int | None, config: Any, workers: int, report: Report
) -> int | None:
    """Return the global step that ends the training.

    A step of all workers in step together counts as one.
    """
    # An evaluator has no strategy, so it assumes one device per worker: it must stop at the same
    # step.
    replicas = getattr(config.train_distribute, "num_replicas_in_sync", workers) or 1
    if train_max_steps is None or replicas == 1:
        return train_max_steps
    steps = math.ceil(train_max_steps / replicas)
    report(
        f"{replicas} devices train in step: train_max_steps {train_max_steps} is {steps} steps of"
        " each"
    )
    return steps


def _report_evaluation(report: Report, checkpoint: str, metrics: Mapping[str, Any]) -> None:
    values = "  ".join(
        f"{name} {value:.6g}" for name, value in sorted(metrics.items()) if name != "global_step"
    )
    report(f"evaluation at step {metrics['global_step']}  {values}")
    # TensorFlow checks the loss of training steps only.
    estimator_group.require_number(metrics)


def _finish(
    estimator: Any, functions: Functions, watch: EstimatorWatch, export_dir: str, report: Report
) -> Result:
    """Evaluate the last checkpoint, export it, and return the result.

    Errors name the checkpoint: the training is not lost, since a second run exports without a step.
    """
    checkpoint = estimator.latest_checkpoint()
    try:
        metrics = watch.end() or {}
        exported = os.fsdecode(estimator.export_saved_model(export_dir, functions.receive))
    # These errors say what is wrong and what to do already, for example that the evaluation has no
    # rows.
    except TrainingFailed:
        raise
    except Exception as error:
        raise TrainingFailed(
            f"the model is trained, but it cannot be evaluated or exported: {type(error).__name__}:"
            f" {error}. Its checkpoint is {checkpoint}: fix the cause and run again with this model"
            " dir, which exports without further steps"
        ) from error
    report(f"exported to {exported}")
    return Result(int(metrics["global_step"]), metrics, exported)
