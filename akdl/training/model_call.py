"""Calls of a model: a test call on the first batch, and calls of SavedModels as functions.

An error of a test call names the user's line and the shapes.

Keras 3 loads no SavedModels, and Keras 2 loads no exports of Keras 3. Evaluation and prediction
only need outputs, and any SavedModel gives these.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf

from akdl.storage.training_folders import without_pattern
from akdl.training.data import Part
from akdl.training.user_functions import ObjectError
from akdl.training.workers import Group
from akdl.user_code.remedies import OWN_FOLDER

# Autograph's errors hold the user's lines as text: their traceback has generated files.
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')
_ERROR = re.compile(r"^\s*(\w*(?:Error|Exception): .*)$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PACKAGES = (
    OWN_FOLDER,
    *(os.path.dirname(os.path.abspath(one)) + os.sep for one in (tf.__file__, np.__file__)),
)
_OUTSIDE = (f"{os.sep}site-packages{os.sep}", "__autograph_generated")


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
        raise ObjectError(
            f"{where}: the model fails on the first batch: {_place(error)}{_reason(error)}; it was"
            f" called with features {describe(part.features)}"
        ) from error


def evaluated(model: Any, features: Any) -> Any:
    """Call a model as for evaluation; a function of the user's may not take `training`."""
    return (
        model(features, training=False)
        if isinstance(model, tf.keras.layers.Layer)
        else model(features)
    )


def _place(error: BaseException) -> str:
    """Name the last of the user's own lines, from the error's text too; "" without any."""
    found = [
        (one.filename, one.lineno, one.name) for one in traceback.extract_tb(error.__traceback__)
    ]
    found += _PLACE.findall(str(error))
    users = [
        f"{os.path.basename(file)}, line {line}, in {name}: "
        for file, line, name in found
        if os.path.isabs(file)
        and not file.startswith(_PACKAGES)
        and not any(part in file for part in _OUTSIDE)
    ]
    return "".join(users[-1:])


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


_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class FeaturesError(ValueError):
    """Features do not fit the inputs of a SavedModel; the message lists both."""


class SavedFunction:
    """A SavedModel that is called with features, like its original model.

    An export of Keras 3 has the function `serve`, a SavedModel of Keras 2 can be called. Both
    contain the structure of the model's inputs. Other SavedModels only have a signature, which
    takes its inputs by name.
    """

    def __init__(self, path: str, name: str) -> None:
        with without_pattern(path) as plain:
            loaded = tf.saved_model.load(plain)
        # The functions hold only weak references to the variables, which would be freed without
        # this.
        self._loaded = loaded
        self._name = name
        self._rest: tuple[Any, ...] = ()
        self._ordered = True
        if hasattr(loaded, "serve"):
            self._function = loaded.serve
            self._inputs = _signatures(loaded.serve)[0][0]
        elif callable(loaded):
            self._function = loaded
            # A model with the argument `training` is saved with a trace for each of its values. The
            # trace for evaluation is one without True.
            found = [
                one
                for one in _signatures(loaded.__call__)
                if True not in [rest is True for rest in one[1:]]
            ]
            # A saved trace takes its other arguments only with the values that it was made with.
            self._inputs, self._rest = found[0][0], tuple(found[0][1:])
        elif _SIGNATURE in loaded.signatures:
            signature = loaded.signatures[_SIGNATURE]
            self._inputs = dict(signature.structured_input_signature[1])
            self._function = lambda features: _single(signature(**features))
            self._ordered = len(self._inputs) == 1
        else:
            raise FeaturesError(
                f"{name}: the SavedModel in {path} cannot be called: expected the signature"
                f" {_SIGNATURE!r}, got {', '.join(loaded.signatures) or 'no signature'}"
            )
        # A list or tuple of inputs has no names, but the specs in it have.
        flat = tf.nest.flatten(self._inputs)
        self.input_names = (
            list(self._inputs)
            if isinstance(self._inputs, Mapping)
            else [str(spec.name) for spec in flat]
        )

    def __call__(self, features: Any, training: Any = None, mask: Any = None) -> Any:
        """Return the outputs for features.

        Features are in the structure of the inputs, a dict by input names, or a tensor for one
        input.
        """
        return self._function(self._arranged(features), *self._rest)

    def _arranged(self, features: Any) -> Any:
        """Return the features in the structure that the trace was made with.

        A trace accepts this structure alone. A dataset may give a dict for a single tensor or the
        reverse, as Keras itself allows.
        """
        # These names have no annotations, because AutoGraph cannot transform them.
        names, by_name = self.input_names, isinstance(self._inputs, Mapping)
        if isinstance(features, Mapping) and set(names) <= set(features):
            # TensorFlow takes the values of a dict in the order of its sorted keys.
            flat = [features[name] for name in (sorted(names) if by_name else names)]
        elif isinstance(features, (list, tuple)) and not by_name:
            flat = tf.nest.flatten(features)
        else:
            # A single input may be in a dict or list of one, or bare.
            flat = [_single(features)]
        try:
            arranged = tf.nest.pack_sequence_as(self._inputs, flat)
            return tf.nest.map_structure(_as_input, arranged, self._inputs)
        except (TypeError, ValueError) as error:
            raise self._misfit(features) from error

    def _misfit(self, features: Any) -> FeaturesError:
        """Describe inputs and features next to each other."""
        by_name = "" if self._ordered else ", by name only"
        return FeaturesError(
            f"{self._name}: the features do not fit the model's inputs: it takes"
            f" {describe(self._inputs)}{by_name}; the dataset has {describe(features)}"
        )


def describe(structure: Any) -> str:
    """Describe dtypes and shapes of tensors or specs: `(string[?, 2], {'x': float32[?]})`."""
    if isinstance(structure, Mapping):
        return "{" + ", ".join(f"{key!r}: {describe(one)}" for key, one in structure.items()) + "}"
    if isinstance(structure, (list, tuple)):
        inside = ", ".join(map(describe, structure))
        return f"({inside})" if isinstance(structure, tuple) else f"[{inside}]"
    if not hasattr(structure, "shape") or not hasattr(structure, "dtype"):
        return type(structure).__name__
    shape = tf.TensorShape(structure.shape)
    sizes = (
        "..."
        if shape.rank is None
        else ", ".join("?" if size is None else str(size) for size in shape.as_list())
    )
    return f"{tf.as_dtype(structure.dtype).name}[{sizes}]"


def _signatures(function: Any) -> list[Sequence[Any]]:
    """Return the structures of the positional arguments of a function's traces."""
    return [concrete.structured_input_signature[0] for concrete in function.concrete_functions]


def _single(features: Any) -> Any:
    """Take the only value out of a dict or list of one."""
    if isinstance(features, Mapping) and len(features) == 1:
        return next(iter(features.values()))
    return features[0] if isinstance(features, (list, tuple)) and len(features) == 1 else features


def _as_input(value: Any, spec: Any) -> Any:
    """Cast numbers and add a missing last axis of size 1, like Keras."""
    value = value if tf.is_tensor(value) else tf.convert_to_tensor(value)
    if value.dtype != spec.dtype:
        if tf.string in (value.dtype, spec.dtype):
            raise TypeError(f"expected {spec.dtype.name}, got {value.dtype.name}")
        # A trace takes its own dtype only.
        value = tf.cast(value, spec.dtype)
    rank = spec.shape.rank
    if rank is not None and value.shape.rank == rank - 1 and spec.shape[-1] == 1:
        value = tf.expand_dims(value, -1)
    if not spec.shape.is_compatible_with(value.shape):
        raise ValueError(f"expected the shape {spec.shape}, got {value.shape}")
    return value
