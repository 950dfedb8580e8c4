"""Hooks of a training with four functions.

They report progress, and check the graph.
"""

from typing import Any, List, Mapping, Optional

import tensorflow as tf

from akdl.estimator.dry_run import variables_in_checkpoint
from akdl.user_code.module import UserModuleError

# Operations that read the global step. A consumer of another type may change it.
_READS = ("ReadVariableOp", "Identity", "VarIsInitializedOp", "IsVariableInitialized", "Switch", "RefSwitch")


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
