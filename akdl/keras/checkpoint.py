"""Checkpoints of the Keras runner.

A checkpoint is one .npz file with variables and the position in the data, readable without
TensorFlow.

The chief writes a file and renames it, so it is whole or missing. Every worker reads it, so hosts
have to share the folder.
"""

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from akdl.storage.whole_file import WholeFile

_NAME = re.compile(r"checkpoint-(\d+)\.npz")


class CheckpointError(ValueError):
    """A checkpoint does not fit the training that resumes from it."""


def save(folder: str, steps: int, arrays: Mapping[str, Any], progress: Mapping[str, Any], keep: int) -> str:
    """Write a checkpoint, remove all but the newest `keep`, and return its path; on the chief.

    The file is on the disk before older ones are removed: without `fsync`, a crash of the host
    could leave an empty file under the final name, and no other checkpoint.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"checkpoint-{steps:09d}.npz")
    # The file gets its name when it is complete, so a process that is killed leaves no half
    # checkpoint.
    with WholeFile(path) as file:
        text = np.frombuffer(json.dumps(progress).encode("utf-8"), np.uint8)
        np.savez(file, progress=text, **{f"array/{name}": value for name, value in arrays.items()})
        file.flush()
        os.fsync(file.fileno())
    for old in _found(folder)[:-keep]:
        os.remove(os.path.join(folder, old))
    return path


def latest(folder: str) -> Optional[str]:
    """Return the path of the checkpoint with the most steps; None without one."""
    names = _found(folder) if os.path.isdir(folder) else []
    return os.path.join(folder, names[-1]) if names else None


def load(path: str) -> Any:
    """Return the arrays by name, and the progress; without unpickling anything."""
    # A pickled array could execute code, and the folder may be shared with other users.
    with np.load(path, allow_pickle=False) as content:
        progress = json.loads(content["progress"].tobytes().decode("utf-8"))
        arrays = {name.partition("/")[2]: content[name] for name in content.files if name.startswith("array/")}
    return arrays, progress


def values_of(prefix: str, variables: Sequence[Any]) -> Dict[str, Any]:
    """Read variables as arrays, numbered in the order in which `assign` takes them."""
    return {f"{prefix}{number}": variable.numpy() for number, variable in enumerate(variables)}


def assign(path: str, prefix: str, variables: Sequence[Any], arrays: Mapping[str, Any]) -> None:
    """Assign the arrays of a checkpoint to variables, in their order.

    Raises:
        CheckpointError: The number of variables or their shapes differ; no variable was changed.
    """
    found = [name for name in arrays if re.fullmatch(re.escape(prefix) + r"\d+", name)]
    wanted: List[Any] = [tuple(variable.shape) for variable in variables]
    got = [arrays[f"{prefix}{number}"].shape for number in range(len(found))]
    if wanted != got:
        raise CheckpointError(
            f"{path} belongs to another model or another optimizer: {prefix.rstrip('/')} has shapes {wanted}, the checkpoint "
            f"has {got}; choose another checkpoint path, or the model of the checkpoint"
        )
    for number, variable in enumerate(variables):
        variable.assign(arrays[f"{prefix}{number}"])


def _found(folder: str) -> List[str]:
    """List the names of checkpoints, the oldest first."""
    # The order is by number: names with more than nine digits would sort wrongly as text.
    return sorted((name for name in os.listdir(folder) if _NAME.fullmatch(name)), key=lambda name: int(_NAME.findall(name)[0]))


def split_state(state: Mapping[str, Any], prefix: str, arrays: Dict[str, Any]) -> Mapping[str, Any]:
    """Return a state for JSON: its lists of arrays move to `arrays`, and their lengths stay."""
    plain = {}
    for key, value in state.items():
        if isinstance(value, list):
            arrays.update({f"{prefix}{key}/{number}": one for number, one in enumerate(value)})
            value = {"arrays": len(value)}
        plain[key] = value
    return plain


def join_state(plain: Mapping[str, Any], prefix: str, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reverse `split_state`: put the arrays back into their lists."""
    return {
        key: [np.asarray(arrays[f"{prefix}{key}/{number}"]) for number in range(value["arrays"])]
        if isinstance(value, dict)
        else value
        for key, value in plain.items()
    }
