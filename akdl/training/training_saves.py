"""Checkpoints of a Keras training: its variables, and the values that continue it.

The runner of `awf_*` callbacks and `train_keras_model` write the same form, the one of TensorFlow,
so that `BestCheckpoints`, `CheckpointFolder` and TensorFlow's own tools read both. The history, the
place in the data and the states of callbacks are JSON in the same files, because values and
variables of different steps must never meet. Nothing is unpickled: the folder may be
shared with other users.
"""

import base64
import glob
import json
import os
import tempfile
import uuid
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

_NAME = "checkpoint"


class CheckpointError(ValueError):
    """A checkpoint does not fit the training that resumes from it."""


def save(
    folder: str, keep: Optional[int], is_chief: bool, values: Dict[str, Any], options: Any = None, **objects: Any
) -> Optional[str]:
    """Write a checkpoint of `values` and trackable `objects`, and return its path, on the chief.

    All workers in step have to call this, because some variables are sums over workers. Only the
    chief's files are used, so the others write theirs into a folder of their own and drop it. `keep`
    is the number of checkpoints to keep; None or 0 for all.
    """
    checkpoint = tf.train.Checkpoint(values=_Values(values), **objects)
    if not is_chief:
        with tempfile.TemporaryDirectory(prefix="akdl-") as own:
            checkpoint.write(os.path.join(own, _NAME), options)
        return None
    name = f"{_NAME}-{_number(latest(folder)) + 1}"
    path: str = checkpoint.write(os.path.join(folder, name), options)
    # The files are on the disk before older ones are removed. Otherwise a crash of the host could
    # leave empty files under the final names, and no other checkpoint.
    for file in files_of(path):
        with open(file, "rb") as content:
            os.fsync(content.fileno())
    state = tf.train.get_checkpoint_state(folder)
    older = [] if state is None else map(os.path.basename, state.all_model_checkpoint_paths)
    names = [*older, name]
    record(folder, name, names[-(keep or 0) :], names[: -(keep or len(names))])
    return path


def restore(
    folder: str,
    total: Optional[Callable[[List[float]], Sequence[float]]],
    is_whole: bool = False,
    options: Any = None,
    **objects: Any,
) -> Optional[Tuple[str, Dict[str, Any]]]:
    """Restore `objects` from the latest checkpoint, and return its path and its values.

    All workers in step have to call this with the sum over them as `total`. Hosts with folders of
    their own would otherwise continue from different steps, and no error would show it: the sums of
    gradients fit whatever the weights are. With `is_whole` the checkpoint must not hold more than
    `objects`, which have all their variables then.

    Raises:
        CheckpointError: The workers see different checkpoints, or it is one of another model.
    """
    path = latest(folder)
    if total is not None:
        number = _number(path)
        workers, numbers = total([1.0, float(number)])
        # If all numbers are equal, their sum is a multiple of each of them.
        if numbers != workers * number:
            raise CheckpointError(
                f"the workers see different checkpoints in {folder}: choose a folder that all hosts share, or set "
                "checkpointDir to an address of a storage"
            )
    if path is None:
        return None
    values = _Values({})
    try:
        status = tf.train.Checkpoint(values=values, **objects).read(path, options)
        (status.assert_consumed if is_whole else status.assert_existing_objects_matched)()
    except (AssertionError, ValueError) as error:
        raise CheckpointError(
            f"{path} belongs to another model or another optimizer: {str(error).splitlines()[0]}; to train from the start, "
            "choose another checkpointDir, or another path of the callback checkpoint"
        ) from error
    return path, values.found


def latest(folder: str) -> Optional[str]:
    """Return the path of the latest checkpoint, without an extension; None without one."""
    found: Optional[str] = tf.train.latest_checkpoint(folder)
    return found


def files_of(checkpoint: str) -> List[str]:
    """List the files of a checkpoint: TensorFlow names it by their common beginning."""
    return glob.glob(glob.escape(checkpoint) + ".*")


def record(folder: str, newest: str, names: Sequence[str], dropped: Iterable[str]) -> None:
    """Write which checkpoints a folder has, and remove the files of the dropped ones afterwards.

    A process that is killed in between leaves files too many, never a name without its files. The
    names are without folders, so that the folder can be moved.
    """
    tf.compat.v1.train.update_checkpoint_state(folder, newest, list(names))
    for name in dropped:
        for path in files_of(os.path.join(folder, name)):
            os.remove(path)


def try_folder(path: str) -> Optional[str]:
    """Make a folder and write a file there; return the reason of a failure, or None.

    Args:
        path: A local folder or any address that TensorFlow reaches, such as s3:// or hdfs://. It
            stays.
    """
    # Workers may try the same folder at the same moment, so the name of the file is random.
    tried = os.path.join(path, f".akdl-{uuid.uuid4().hex}")
    try:
        tf.io.gfile.makedirs(path)
        with tf.io.gfile.GFile(tried, "w") as file:
            file.write("tried")
        tf.io.gfile.remove(tried)
    except (OSError, tf.errors.OpError) as error:
        return str(getattr(error, "message", error))
    return None


class _Values(tf.train.experimental.PythonState):  # type: ignore[misc]
    """JSON values in a checkpoint; arrays keep their bits."""

    def __init__(self, found: Dict[str, Any]) -> None:
        super().__init__()
        self.found = found

    def serialize(self) -> str:
        return json.dumps(self.found, default=_encoded)

    def deserialize(self, string_value: Any) -> None:
        self.found = json.loads(string_value, object_hook=_decoded)


def _encoded(array: Any) -> Dict[str, Any]:
    array = np.asarray(array)
    return {"dtype": array.dtype.name, "shape": array.shape, "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def _decoded(value: Dict[str, Any]) -> Any:
    if "base64" not in value:
        return value
    # TensorFlow adds dtypes to numpy's own, such as bfloat16.
    dtype = tf.as_dtype(value["dtype"]).as_numpy_dtype
    return np.frombuffer(base64.b64decode(value["base64"]), dtype).reshape(value["shape"])


def _number(path: Optional[str]) -> int:
    return 0 if path is None else int(path.rpartition("-")[2])
