"""`train_and_evaluate` for an Estimator in one process or in a group that has no evaluator."""

import os
from typing import Any, Dict, Optional

from akdl.engine.estimator_group import is_chief, is_group, train_in_group
from akdl.tf_version import require_estimator


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any) -> Optional[Dict[str, Any]]:
    """Train and evaluate as `tf.estimator.train_and_evaluate` does; in a group of TF_CONFIG, evaluate and export on the chief.

    TensorFlow leaves evaluation in a group to a process of the role `evaluator`, and so do exporters. The groups of an operator
    have none, so here the chief evaluates the last checkpoint and calls the exporters, when it has trained.

    Args:
        estimator: Its config is from `akdl.engine.run_config.generate_run_config`.
        train_spec: A `tf.estimator.TrainSpec`.
        eval_spec: A `tf.estimator.EvalSpec`.

    Returns:
        The last evaluation; None on other roles than the chief, and where there was nothing left to train. A parameter server
        does not come back.
    """
    module = require_estimator("train_and_evaluate")
    if not is_group(estimator.config):
        metrics: Optional[Dict[str, Any]] = module.train_and_evaluate(estimator, train_spec, eval_spec)[0]
        return metrics
    train_in_group(estimator, train_spec, eval_spec)
    if not is_chief(estimator.config):
        return None
    checkpoint = estimator.latest_checkpoint()
    found: Dict[str, Any] = estimator.evaluate(
        eval_spec.input_fn, eval_spec.steps, eval_spec.hooks, checkpoint, name=eval_spec.name
    )
    for exporter in eval_spec.exporters:
        folder = os.path.join(estimator.model_dir, "export", exporter.name)
        exporter.export(estimator, folder, checkpoint, found, is_the_final_export=True)
    return found
