"""Checkpoints of a Keras training: its variables, and the values that continue it.

The runner of `awf_*` callbacks and `train_keras_model` write the same form, the one of TensorFlow,
so that `BestCheckpoints`, `CheckpointFolder` and TensorFlow's own tools read both. The history, the
place in the data and the states of callbacks are JSON in the same files, because values and
variables of different steps must never meet. Nothing is unpickled: the folder may be
shared with other users.

TensorFlow keeps the newest checkpoints and removes older ones in turn, so the best one by a metric
would be lost a few epochs later. A copy in a subfolder is out of its reach.
"""

from __future__ import annotations

import base64
import glob
import json
import math
import os
import shutil
import tempfile
import uuid
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from akdl.storage.local_files import WholeFile
from akdl.user_code.config_file import Config

_NAME = "checkpoint"
BEST = "best"
METRICS_FILE = "metrics.json"

BEST_KEYS = {"keep_best_checkpoints", "best_checkpoint_metric", "best_checkpoint_bigger"}


class CheckpointError(ValueError):
    """A checkpoint does not fit the training that resumes from it."""


def save(
    folder: str,
    keep: int | None,
    is_chief: bool,
    values: dict[str, Any],
    options: Any = None,
    **objects: Any,
) -> str | None:
    """Write a checkpoint of `values` and trackable `objects`, and return its path, on the chief.

    All workers in step have to call this, because some variables are sums over workers. Only the
    chief's files are used, so the others write theirs into a folder of their own and drop it.
    `keep` is the number of checkpoints to keep; None or 0 for all.
    """
    if is_chief:
        os.makedirs(folder, exist_ok=True)
    # The numbers of checkpoints grow by 1, and `restore` compares them between workers.
    name = f"{_NAME}-{_number(latest(folder)) + 1}"
    # TensorFlow writes through links that another user may have made of the final names. So the
    # files get these names when they are complete.
    with tempfile.TemporaryDirectory(prefix=".akdl-", dir=folder if is_chief else None) as own:
        written = tf.train.Checkpoint(values=_Values(values), **objects).write(
            os.path.join(own, name), options
        )
        if not is_chief:
            return None
        # The files are on the disk before older ones are removed. Otherwise a crash of the host
        # could leave empty files under the final names, and no other checkpoint.
        for file in files_of(written):
            with open(file, "rb") as content:
                os.fsync(content.fileno())
            os.replace(file, os.path.join(folder, os.path.basename(file)))
    state = tf.train.get_checkpoint_state(folder)
    older = [] if state is None else map(os.path.basename, state.all_model_checkpoint_paths)
    names = [*older, name]
    # With `keep` 0 or None, `names[-0:]` is the whole list, and `names[:-len(names)]` is empty.
    record(folder, name, names[-(keep or 0) :], names[: -(keep or len(names))])
    return os.path.join(folder, name)


def restore(
    folder: str,
    total: Callable[[list[float]], Sequence[float]] | None,
    options: Any = None,
    **objects: Any,
) -> tuple[str, dict[str, Any]] | None:
    """Restore `objects` from the latest checkpoint, and return its path and its values.

    All workers in step have to call this with the sum over them as `total`. Hosts with folders of
    their own would otherwise continue from different steps, and no error would show it: the sums of
    gradients fit whatever the weights are. Nothing is changed if an object is a list of variables
    and the checkpoint has other ones.

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
                f"the workers see different checkpoints in {folder}: choose a folder that all hosts"
                " share, or set checkpointDir to an address of a storage"
            )
    if path is None:
        return None
    shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    values = _Values({})
    try:
        for name, own in objects.items():
            if not isinstance(own, list):
                continue
            # A key such as model/3/.ATTRIBUTES/VARIABLE_VALUE has the place of the variable in its
            # list.
            numbered = {
                int(key.split("/")[1]): shape
                for key, shape in shapes.items()
                if key.startswith(f"{name}/")
            }
            wanted = [one.shape.as_list() for one in own]
            got = [numbered[number] for number in sorted(numbered)]
            # TensorFlow notices a wrong shape only when it assigns it, after it has assigned other
            # variables.
            if wanted != got:
                raise ValueError(f"{name} has shapes {wanted}, the checkpoint has {got}")
        # Without the assertion, TensorFlow would leave variables that the checkpoint lacks as they
        # are.
        tf.train.Checkpoint(values=values, **objects).read(
            path, options
        ).assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise CheckpointError(
            f"{path} belongs to another model or another optimizer: {str(error).splitlines()[0]};"
            " to train from the start, choose another checkpointDir, or another path of the"
            " callback checkpoint"
        ) from error
    return path, values.found


def latest(folder: str) -> str | None:
    """Return the path of the latest checkpoint, without an extension; None without one."""
    found: str | None = tf.train.latest_checkpoint(folder)
    return found


def files_of(checkpoint: str) -> list[str]:
    """List the files of a checkpoint: TensorFlow names it by their common beginning."""
    return glob.glob(glob.escape(checkpoint) + ".*")


def record(folder: str, newest: str, names: Sequence[str], dropped: Iterable[str]) -> None:
    """Write which checkpoints a folder has, and remove the files of the dropped ones afterwards.

    A process that is killed in between leaves files too many, never a name without its files. The
    names are without folders, so that the folder can be moved.
    """
    # TensorFlow would take the names for paths from the current folder if `folder` were relative.
    tf.compat.v1.train.update_checkpoint_state(os.path.abspath(folder), newest, list(names))
    for name in dropped:
        for path in files_of(os.path.join(folder, name)):
            os.remove(path)


def try_folder(path: str) -> str | None:
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


class BestCheckpoints:
    """The `count` best checkpoints of a folder, in its subfolder `best`.

    `best/metrics.json` has their values, best first. It is read again for each offer, so a training
    that resumes compares its checkpoints with the ones of earlier attempts. Only the chief makes
    offers.
    """

    def __init__(self, folder: str, metric: str, count: int, bigger: bool = False) -> None:
        self._folder = os.path.join(folder, BEST)
        self._metric, self._count, self._sign = metric, count, -1.0 if bigger else 1.0

    def offer(self, checkpoint: str, metrics: Mapping[str, Any]) -> bool:
        """Copy a checkpoint if it is among the best ones, and return whether it is.

        Args:
            checkpoint: Path without extensions, as TensorFlow returns it; all files that begin so
                are copied.
            metrics: The values of the evaluation by name; the metric of this object has to be among
                them.

        Raises:
            ValueError: The evaluation has no such metric.
        """
        if self._metric not in metrics:
            raise ValueError(
                f"best_checkpoint_metric: expected one of {', '.join(sorted(metrics))}, got"
                f" {self._metric!r}: choose one, or compile the model with this metric"
            )
        known = self._known()
        value, name = float(metrics[self._metric]), os.path.basename(checkpoint)
        # Best first. The sort is stable, so the earlier of two equal checkpoints counts as better
        # and is not replaced.
        order = sorted({**known, name: value}.items(), key=lambda item: self._sign * item[1])
        ranked = dict(order[: self._count])
        # A NaN compares as false with every number, so its place in the order means nothing.
        if math.isnan(value) or name not in ranked:
            return False
        os.makedirs(self._folder, exist_ok=True)
        # The files come first, then their names, and old files are removed last. A process that is
        # killed in between leaves files too many, never a name without its files.
        for path in files_of(checkpoint):
            # Each copy appears complete or not at all, as a reader may look at the folder at any
            # time.
            with open(path, "rb") as file, WholeFile(
                os.path.join(self._folder, os.path.basename(path))
            ) as copy:
                shutil.copyfileobj(file, copy)
        with WholeFile(os.path.join(self._folder, METRICS_FILE)) as metrics_file:
            metrics_file.write(json.dumps(ranked, indent=1).encode("utf-8"))
        record(self._folder, next(iter(ranked)), list(ranked), set(known) - set(ranked))
        return True

    def _known(self) -> dict[str, float]:
        path = os.path.join(self._folder, METRICS_FILE)
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))


def best_checkpoints(
    train_config: Config, folder: str | None, metric: str
) -> BestCheckpoints | None:
    """Read the keys of a train config.

    The result is None without `keep_best_checkpoints`. `metric` is the default metric.
    """
    count = train_config.get("keep_best_checkpoints")
    if count is None:
        return None
    # A bool is an int in Python, so `true` in a config would otherwise pass as 1.
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(
            "train_config: keep_best_checkpoints: expected a whole number of at least 1, got"
            f" {count!r}"
        )
    if folder is None:
        raise ValueError(
            "train_config: keep_best_checkpoints needs a place for checkpoints: set checkpointDir"
            " on the operator"
        )
    bigger = bool(train_config.get("best_checkpoint_bigger", False))
    return BestCheckpoints(
        folder, train_config.get("best_checkpoint_metric") or metric, count, bigger
    )


class _Values(tf.train.experimental.PythonState):  # type: ignore[misc]
    """JSON values in a checkpoint; arrays keep their bits."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__()
        self.found = found

    def serialize(self) -> str:
        return json.dumps(self.found, default=_encoded)

    def deserialize(self, string_value: Any) -> None:
        self.found = json.loads(string_value, object_hook=_decoded)


def _encoded(array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    return {
        "dtype": array.dtype.name,
        "shape": array.shape,
        "base64": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def _decoded(value: dict[str, Any]) -> Any:
    if "base64" not in value:
        return value
    # TensorFlow adds dtypes to numpy's own, such as bfloat16.
    dtype = tf.as_dtype(value["dtype"]).as_numpy_dtype
    return np.frombuffer(base64.b64decode(value["base64"]), dtype).reshape(value["shape"])


def _number(path: str | None) -> int:
    return 0 if path is None else int(path.rpartition("-")[2])
