"""Checks before hours of training with four functions.

Folders, the export's graph, the input and the graph of evaluation are tried by the chief, because
TensorFlow uses them only after the training. Each graph is dropped afterwards. A hook then checks
the graph of the training, before its first step.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

import tensorflow as tf

from akdl.estimator.four_functions import Functions
from akdl.tf_version import require_estimator
from akdl.training.checkpoints import try_folder
from akdl.user_code.config_file import ConfigError
from akdl.user_code.module import UserModuleError

v1 = tf.compat.v1

_DEFAULT, _PREDICT = "serving_default", "predict"

# Shape of each variable, None for an unknown one.
Shapes = Dict[str, Optional[List[int]]]


class Serving(NamedTuple):
    """Variables that the exported graph reads, and its default signature.

    The shape of a variable is None if it is unknown.

    `predict_is_default`: the head "predict" replaces a `serving_default` that cannot be exported.
    """

    variables: Shapes
    predict_is_default: bool


def try_folders(folders: Mapping[str, str]) -> None:
    """Refuse folders that cannot be written; keys are their purposes, for the message."""
    mistakes = [
        f"{purpose}: cannot write into {folder}: {reason}"
        for purpose, folder in folders.items()
        for reason in [try_folder(folder)]
        if reason
    ]
    if mistakes:
        raise ConfigError("Estimator", mistakes)


def try_export(functions: Functions, config: Any, report: Callable[[str], None]) -> Serving:
    """Build the graph of the export; `report` gets a line for each head that is left out."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        # An Estimator has a global step in each of its graphs, which `model_fn` may read.
        receiver = functions.receive()
        spec = functions.checked_model(
            receiver.features, None, tf.estimator.ModeKeys.PREDICT, config
        )
        heads = dict(spec.export_outputs)
        # TensorFlow takes a single head as the default.
        if _DEFAULT not in heads:
            heads[_DEFAULT] = next(iter(heads.values()))
        left_out = {
            key: reason
            for key, head in heads.items()
            for reason in [_unservable(head, receiver)]
            if reason
        }
        predict_is_default = _DEFAULT in left_out and _PREDICT in heads and _PREDICT not in left_out
        # A predictor that names no signature would find nothing in the export.
        if _DEFAULT in left_out and not predict_is_default:
            inputs = ", ".join(sorted(receiver.receiver_tensors))
            raise UserModuleError(
                f"model_fn in {functions.file} cannot be served: its head {_DEFAULT!r} is a"
                f" {type(heads[_DEFAULT]).__name__}, which takes serialized Examples, and"
                f" serving_input_receiver_fn takes {inputs} ({left_out[_DEFAULT]}). Make the head a"
                " PredictOutput, or return build_parsing_serving_input_receiver_fn(...)"
            )
        for key, reason in left_out.items():
            how = "has the head 'predict' as" if key == _DEFAULT else "leaves out the head"
            report(f"the export {how} {key!r}: {reason}")
        if spec.scaffold is not None and spec.scaffold.saver is not None:
            # A saver of the user's own may read variables under other names, so nothing can be
            # compared.
            return Serving({}, predict_is_default)
        return Serving(variables_in_checkpoint(), predict_is_default)


def try_evaluation(functions: Functions, input_fn: Callable[[], object], config: Any) -> None:
    """Build the graph of the evaluation, and read the first batch of its dataset.

    Raises:
        UserModuleError: `model_fn` fails in mode EVAL, or the dataset gives no batch.
    """
    with tf.Graph().as_default():
        v1.train.create_global_step()
        found = input_fn()
        iterator = None
        if isinstance(found, tf.compat.v2.data.Dataset):
            iterator = v1.data.make_initializable_iterator(found)
            found = iterator.get_next()
        features, labels = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        functions.checked_model(features, labels, tf.estimator.ModeKeys.EVAL, config)
        # Tensors of an input function may need queue runners, which do not run here.
        if iterator is None:
            return
        # The filters are removed below, and the Estimator needs its own config unchanged.
        session_config = v1.ConfigProto()
        session_config.CopyFrom(config.session_config)
        # This session has no other process, and a filter would name one.
        del session_config.device_filters[:]
        with v1.Session(config=session_config) as session:
            # A dataset may look up words in tables, which are initialized separately from
            # variables.
            session.run(v1.tables_initializer())
            session.run(iterator.initializer)
            try:
                session.run(tf.nest.flatten(found, expand_composites=True))
            except tf.errors.OutOfRangeError:
                raise UserModuleError(
                    f"eval_input_fn in {functions.file} gives no batch: check its path, and its"
                    " batch size if it drops the last"
                ) from None


def variables_in_checkpoint() -> Shapes:
    """Return the variables of the current graph that a checkpoint has.

    The value is the shape, and None for partitioned variables.
    """
    found: Shapes = {}
    for variable in v1.global_variables():
        # A part of a partitioned variable is saved under the name of the whole.
        part = getattr(variable, "_save_slice_info", None)
        name = variable.name.split(":")[0] if part is None else part.full_name
        found[name] = (
            None if part is not None or variable.shape.rank is None else variable.shape.as_list()
        )
    return found


def _unservable(head: Any, receiver: Any) -> str | None:
    """Return TensorFlow's reason to leave a head out of an export, or None.

    TensorFlow leaves such heads out with a line in the log. A predictor would then miss the
    signature, so the reason is reported before the training.
    """
    if isinstance(head, require_estimator().export.PredictOutput):
        return None
    tensors = list(receiver.receiver_tensors.values())
    if len(tensors) != 1:
        return f"{len(tensors)} inputs instead of one"
    return (
        None
        if tensors[0].dtype == tf.string
        else f"its type is {tensors[0].dtype.name} instead of string"
    )


# Operations that read the global step. A consumer of another type may change it.
_READS = (
    "ReadVariableOp",
    "Identity",
    "VarIsInitializedOp",
    "IsVariableInitialized",
    "Switch",
    "RefSwitch",
)


class GraphChecks(v1.train.SessionRunHook):  # type: ignore[misc, name-defined]
    """Refuses a graph that would train without end or lacks variables of the export.

    The check is made before the first step.
    """

    def __init__(self, file: str, exported: Shapes) -> None:
        self._file = file
        self._exported = exported

    def begin(self) -> None:
        step = v1.train.get_global_step()
        # `values` has the replicas' copies of the step under a strategy.
        if not any(_is_changed(one) for one in getattr(step, "values", None) or [step]):
            raise UserModuleError(
                f"the train_op of model_fn in {self._file} does not increment the global step, so"
                " training would not end: use optimizer.minimize(loss,"
                " global_step=tf.compat.v1.train.get_global_step())"
            )
        trained = variables_in_checkpoint()
        missing = [name for name in self._exported if name not in trained]
        if missing:
            raise UserModuleError(
                f"model_fn in {self._file} makes variables in mode PREDICT that it does not make in"
                f" mode TRAIN: {', '.join(missing)}. The export would have no values for them:"
                " create them in all modes"
            )
        for name, shape in self._exported.items():
            # A shape of None is unknown, as of a partitioned variable, so it cannot be compared.
            if shape is not None and trained[name] not in (None, shape):
                raise UserModuleError(
                    f"model_fn in {self._file} makes the variable {name} with shape {shape} in mode"
                    f" PREDICT and with {trained[name]} in mode TRAIN"
                )


def _is_changed(variable: Any) -> bool:
    """Test for an operation that may change a variable, apart from the variable's own ones."""
    own = variable.op.name + "/"
    return any(
        op.type not in _READS and not op.name.startswith(own)
        for op in variable.op.outputs[0].consumers()
    )
