"""A test call of a model on the first batch of a dataset.

An error names the user's line and the shapes.
"""

import os
import re
import traceback
from typing import Any, List, Tuple

import numpy as np
import tensorflow as tf

from akdl.keras.data import Part
from akdl.keras.loop import evaluated
from akdl.keras.objects import ObjectError
from akdl.keras.saved_function import FeaturesError, SavedFunction, describe
from akdl.keras.workers import Group

# Autograph's errors hold the user's lines as text: their traceback has generated files.
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')
_ERROR = re.compile(r"^\s*(\w*(?:Error|Exception): .*)$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PACKAGES = tuple(
    os.path.dirname(os.path.abspath(one)) + os.sep for one in (tf.__file__, np.__file__, os.path.dirname(__file__))
)


def call_on_sample(group: Group, model: Any, part: Part, where: str) -> Any:
    """Call a model on one part and return its outputs; all workers call this with their part.

    The call makes the variables of a model that is not built yet. Errors name the user's own line,
    because TensorFlow's traceback has some dozens of lines of its own.

    Raises:
        ObjectError: The model fails; the message has the shapes of the features.
    """
    try:
        # This model has its variables already, and TensorFlow does not call it under a strategy of
        # replicas.
        if isinstance(model, SavedFunction):
            return evaluated(model, part.features)
        # The call is eager, since it may make the variables, with the random numbers of Keras.
        with group.strategy.scope():
            return evaluated(model, part.features)
    except FeaturesError:
        raise
    except Exception as error:
        places = _places(error)
        at = ", line ".join(places[-1]) + ": " if places else ""
        raise ObjectError(
            f"{where}: the model fails on the first batch: {at}{_reason(error)}; it was called with features "
            f"{describe(part.features)}"
        ) from error


def _places(error: BaseException) -> List[Tuple[str, str]]:
    """List file and line of the user's own frames; from the error's text too."""
    found = [(one.filename, str(one.lineno), one.name) for one in traceback.extract_tb(error.__traceback__)]
    found += _PLACE.findall(str(error))
    return [(os.path.basename(file), f"{line}, in {name}") for file, line, name in found if _is_users(file)]


def _is_users(file: str) -> bool:
    outside = f"{os.sep}site-packages{os.sep}" in file or file.startswith(_PACKAGES) or "__autograph_generated" in file
    return os.path.isabs(file) and not outside


def _reason(error: BaseException) -> str:
    """Return the innermost error in a text, without the colours and headings of Keras."""
    text = str(error)
    inner = _ERROR.findall(text)
    if inner:
        return str(inner[-1])
    lines = [line.strip() for line in _COLOUR.sub("", text).splitlines() if line.strip()]
    # Keras puts a line of its own above the error.
    if len(lines) > 1 and lines[0].startswith("Exception encountered when calling"):
        lines = lines[1:]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
