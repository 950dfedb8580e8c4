"""Hooks that end an Estimator's training early: the ones of TensorFlow, under the names that scripts import from here.

They look at evaluations on disk, so they need a validation input, such as the `valid_raw_dataset_fn` of
`akdl.engine.train.train_estimator_one_worker`. They work in one process, with parameter servers, and with
`MultiWorkerMirroredStrategy`; a hook for several workers has to be counted in steps, not seconds. In training over several
local GPUs, TensorFlow's hook is the one for several workers too.
"""

import collections
import glob
import os
from typing import Any, Callable, Dict, Optional

import tensorflow as tf

from akdl.tf_version import require_estimator


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], bool],
    run_every_secs: Optional[float] = 60,
    run_every_steps: Optional[int] = None,
) -> Any:
    """Return a hook that ends training when a function says so.

    Args:
        estimator: The `tf.estimator.Estimator` that trains.
        should_stop_fn: Called by the chief every `run_every_secs` seconds or `run_every_steps` steps.
        run_every_secs: Seconds between two calls; set it to None to count steps.
        run_every_steps: Steps between two calls.

    Raises:
        ValueError: Both or neither of `run_every_secs` and `run_every_steps` are set.
        RuntimeError: This TensorFlow has no Estimator.
    """
    return _hooks().make_early_stopping_hook(estimator, should_stop_fn, run_every_secs, run_every_steps)


def stop_if_higher_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: Optional[str] = None,
    min_steps: int = 0,
    run_every_secs: Optional[float] = 60,
    run_every_steps: Optional[int] = None,
) -> Any:
    """Return a hook that ends training when an evaluation has the metric at or above the threshold.

    Args:
        estimator: The `tf.estimator.Estimator` that trains.
        metric_name: A metric of its evaluations, such as "accuracy".
        threshold: See above.
        eval_dir: Where evaluations are; None for `estimator.eval_dir()`.
        min_steps: Never end before this step.
        run_every_secs: See `make_early_stopping_hook`.
        run_every_steps: See `make_early_stopping_hook`.
    """
    return _hooks().stop_if_higher_hook(estimator, metric_name, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: Optional[str] = None,
    min_steps: int = 0,
    run_every_secs: Optional[float] = 60,
    run_every_steps: Optional[int] = None,
) -> Any:
    """Return a hook that ends training when an evaluation has the metric at or below the threshold.

    Arguments as in `stop_if_higher_hook`.
    """
    return _hooks().stop_if_lower_hook(estimator, metric_name, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: Optional[str] = None,
    min_steps: int = 0,
    run_every_secs: Optional[float] = 60,
    run_every_steps: Optional[int] = None,
) -> Any:
    """Return a hook that ends training when the metric has not grown for `max_steps_without_increase` steps.

    Other arguments as in `stop_if_higher_hook`.
    """
    return _hooks().stop_if_no_increase_hook(
        estimator, metric_name, max_steps_without_increase, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def stop_if_no_decrease_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: Optional[str] = None,
    min_steps: int = 0,
    run_every_secs: Optional[float] = 60,
    run_every_steps: Optional[int] = None,
) -> Any:
    """Return a hook that ends training when the metric has not shrunk for `max_steps_without_decrease` steps.

    Other arguments as in `stop_if_higher_hook`.
    """
    return _hooks().stop_if_no_decrease_hook(
        estimator, metric_name, max_steps_without_decrease, eval_dir, min_steps, run_every_secs, run_every_steps
    )


def read_eval_metrics(eval_dir: str) -> Dict[int, Dict[str, float]]:
    """Return the evaluations in a folder of event files, such as `estimator.eval_dir()`.

    Returns:
        Step to metric name to value, steps ascending; empty when there are none.
    """
    metrics: Dict[int, Dict[str, float]] = collections.defaultdict(dict)
    for path in sorted(glob.glob(os.path.join(glob.escape(eval_dir), "*.tfevents.*"))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    metrics[event.step][value.tag] = value.simple_value
    return {step: metrics[step] for step in sorted(metrics)}


def _hooks() -> Any:
    return require_estimator("early stopping").experimental
