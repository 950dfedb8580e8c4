"""Early stopping of Estimators, under the names that Alink's scripts import.

These are the hooks of `tf.estimator.experimental`:

- `make_early_stopping_hook(estimator, should_stop_fn, run_every_secs=60, run_every_steps=None)`
  ends the training when `should_stop_fn()` returns True. The chief calls it every `run_every_secs`
  seconds or `run_every_steps` steps; set the other one to None.
- `stop_if_higher_hook` and `stop_if_lower_hook(estimator, metric_name, threshold, eval_dir=None,
  min_steps=0, run_every_secs=60, run_every_steps=None)` end it when an evaluation has the metric at
  or beyond the threshold, but not before step `min_steps`. `eval_dir` is the folder of the
  evaluations, by default `estimator.eval_dir()`.
- `stop_if_no_increase_hook` and `stop_if_no_decrease_hook` take a number of steps instead of the
  threshold, and end the training when the metric has not improved for so many steps.
- `read_eval_metrics(eval_dir)` returns the evaluations of a folder: step to metric name to value.

The hooks read evaluations from disk, so they need a validation input, such as the
`valid_raw_dataset_fn` of `akdl.engine.train.train_estimator_one_worker`. They work in one process,
with parameter servers, and with `MultiWorkerMirroredStrategy`; a hook for several workers has to
count steps, not seconds. Importing this module raises a RuntimeError where TensorFlow has no
Estimator.
"""

from importlib import import_module

from akdl.tf_version import require_estimator

_hooks = require_estimator("akdl.engine.early_stopping").experimental

make_early_stopping_hook = _hooks.make_early_stopping_hook
stop_if_higher_hook = _hooks.stop_if_higher_hook
stop_if_lower_hook = _hooks.stop_if_lower_hook
stop_if_no_increase_hook = _hooks.stop_if_no_increase_hook
stop_if_no_decrease_hook = _hooks.stop_if_no_decrease_hook
read_eval_metrics = import_module(
    "tensorflow_estimator.python.estimator.early_stopping"
).read_eval_metrics
