"""Advice for common errors of scripts whose own message does not say what to do.

The advice is made in the process, because only there the exception is an object with a type and
arguments. Each function returns "" for an error that it does not recognize, so the results can be
appended to any message.
"""

import os
import re
import shlex
import sys
import traceback
from types import CodeType
from typing import Optional, Sequence

from akdl.near_names import near
from akdl.tf_version import NO_GROUP_OF_KERAS_3

_SHOWN = 20
# The folder of this package, whose frames are not the user's.
OWN_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_OF_A_SAVED_MODEL = {"saved_model.pb", "saved_model.pbtxt"}
_NO_FILE = re.compile(
    r"No (such )?file or directory|SavedModel file does not exist|File not found: filepath="
)
_IN_A_GROUP = re.compile(
    r"PerReplica[\s\S]*unsupported type|ClusterCoordinator\.create_per_worker_dataset"
)
_MISSING_FEATURE = re.compile(
    r"Feature: (\S+) \(data type: [^)]*\) is required but could not be found"
)


def missing_column(error: BaseException, columns: Sequence[str]) -> str:
    """Hint for an error about a column that the rows do not have; "" for other errors."""
    name: Optional[str] = None
    close = None
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        # AutoGraph wraps a KeyError of the user's function, and gives its own the text of the
        # first.
        name = re.sub("^KeyError: '(.*)'$", r"\1", error.args[0])
        found = near(name, columns)
        # Dictionaries of the script raise KeyError too. An error about an existing column, or about
        # a key that resembles no column, comes from one of them.
        if name in columns or not found:
            return ""
        close = found[0]
    elif type(error).__name__ == "InvalidArgumentError":
        # The error's class is compared by name, because TensorFlow is not imported here.
        feature = _MISSING_FEATURE.search(str(error))
        name = feature.group(1) if feature is not None and feature.group(1) not in columns else None
    if name is None:
        return ""
    question = f"did you mean {close!r}? " if close is not None else ""
    listed = ", ".join(map(repr, columns[:_SHOWN])) + (
        f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    )
    return f" ({question}the rows have {listed})"


def missing_file(error: BaseException) -> str:
    """Hint for a file that is not in the script's work folder; "" for other errors, and for
    absolute paths and addresses.
    """
    text = str(error)
    if not (isinstance(error, FileNotFoundError) or _NO_FILE.search(text)) or re.search(
        r"(^|[\s'\"`:=])/|://", text
    ):
        return ""
    return (
        " (the script's folder has its userFiles only: add the file to them, or use an absolute"
        " path that all hosts have)"
    )


def missing_tensorflow(error: BaseException) -> str:
    """Hint for a Python without TensorFlow, with the call of akdl that needs it; "" for other
    errors.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name != "tensorflow":
        return ""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    # The call of akdl that a script makes directly is the one that its author recognizes, so the
    # frames behind it do not count.
    calls = [
        code.co_name
        for before, code in zip(codes, codes[1:])
        if _is_own(code) and not _is_own(before)
    ]
    return (
        f" ({calls[0] if calls else 'this'} needs TensorFlow: install it with"
        f" {shlex.quote(sys.executable)} -m pip install tensorflow, or choose another environment"
        " with pythonEnv. Scripts of other frameworks read task_config.context.arrays)"
    )


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(OWN_FOLDER)


def no_group(error: BaseException) -> str:
    """Sentence in front of an error of Keras 3 in a group, whose own text is about tensor types; ""
    for other errors.
    """
    keras = sys.modules.get("keras")
    is_keras_3 = str(getattr(keras, "__version__", "")).startswith("3.")
    return (
        f"{NO_GROUP_OF_KERAS_3}. Keras reports: "
        if is_keras_3 and _IN_A_GROUP.search(str(error))
        else ""
    )


def missing_export(folder: str, work_dir: str) -> str:
    """Error text for a training that left no model in its folder; "" where the folder has
    content.
    """
    if os.path.isdir(folder) and os.listdir(folder):
        return ""
    # A common mistake is an export to another folder, so the error names a SavedModel that is
    # there.
    elsewhere = ""
    for place, folders, names in os.walk(work_dir):
        # Hidden folders are left out, because akdl has its own files in one, `.akdl`.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if _OF_A_SAVED_MODEL & set(names):
            elsewhere = f"; the one in {os.path.relpath(place, work_dir)} is ignored"
            break
    return (
        "the script left no model in task_config.saved_model_dir: export it with"
        " model.export(task_config.saved_model_dir), or save the files of another framework"
        f" there{elsewhere}"
    )
