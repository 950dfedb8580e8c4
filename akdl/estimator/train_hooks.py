"""Hooks of a training with four functions.

They report progress, and check the graph.
"""

import time
from typing import Any, Callable, List, Mapping, Optional

import tensorflow as tf

from akdl.estimator.dry_run import variables_in_checkpoint
from akdl.user_code.module import UserModuleError

Report = Callable[[str], None]

# Operations that read the global step. A consumer of another type may change it.
_READS = ("ReadVariableOp", "Identity", "VarIsInitializedOp", "IsVariableInitialized", "Switch", "RefSwitch")


class ProgressLog(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Reports step, loss and speed; reads the loss only when a line is due, as that takes time."""

    def __init__(self, loss: Any, every_steps: int, report: Report) -> None:
        self._loss = loss
        self._every = every_steps
        self._report = report

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_global_step()
        self._own_steps = 0
        self._last = time.monotonic()

    def before_run(self, run_context: Any) -> Any:
        due = (self._own_steps + 1) % self._every == 0 or self._own_steps == 0
        # A loss is read from the device only for steps that have a line.
        return tf.compat.v1.train.SessionRunArgs(self._loss) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._own_steps += 1
        # No loss was requested for this step, so there is no line to report.
        if run_values.results is None:
            return
        step, now = run_context.session.run(self._global_step), time.monotonic()
        # The first line comes after a single step, so there is no interval whose speed it could
        # report.
        speed = "" if self._own_steps == 1 else f"  {self._every / max(now - self._last, 1e-9):.1f} steps/s"
        self._last = now
        self._report(f"step {step}  loss {run_values.results:.6g}{speed}")

    def end(self, session: Any) -> None:
        if not self._own_steps:
            self._report("this process made no step: its train_input_fn gives no batch, or other workers made all steps")


class GraphChecks(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Refuses a graph that would train without end or lacks variables of the export.

    The check is made before the first step.
    """

    def __init__(self, file: str, exported: Mapping[str, Optional[List[int]]]) -> None:
        self._file = file
        self._exported = exported

    def begin(self) -> None:
        step = tf.compat.v1.train.get_global_step()
        # `values` has the replicas' copies of the step under a strategy.
        if not any(_is_changed(one) for one in getattr(step, "values", None) or [step]):
            raise UserModuleError(
                f"the train_op of model_fn in {self._file} does not increment the global step, so training would not end: use "
                "optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())"
            )
        trained = variables_in_checkpoint()
        missing = [name for name in self._exported if name not in trained]
        if missing:
            raise UserModuleError(
                f"model_fn in {self._file} makes variables in mode PREDICT that it does not make in mode TRAIN: "
                f"{', '.join(missing)}. The export would have no values for them: create them in all modes"
            )
        for name, shape in self._exported.items():
            if shape is not None and trained[name] not in (None, shape):
                raise UserModuleError(
                    f"model_fn in {self._file} makes the variable {name} with shape {shape} in mode PREDICT and with "
                    f"{trained[name]} in mode TRAIN"
                )


def _is_changed(variable: Any) -> bool:
    """Test for an operation that may change a variable, apart from the variable's own ones."""
    own = variable.op.name + "/"
    return any(op.type not in _READS and not op.name.startswith(own) for op in variable.op.outputs[0].consumers())
