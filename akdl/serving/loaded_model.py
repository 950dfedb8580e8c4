"""The interface of all kinds of models, and the errors of prediction.

A kind of model is one subclass of `LoadedModel`, which `load` in `model_store` chooses. It has its
inputs and outputs as soon as it is made, so that a wrong name is an error before a model of many
gigabytes is loaded.

ValueError
└── ServingError        nothing can be predicted; the message says what to change
    ├── SignatureError  the model lacks a name in the parameters, or cannot be used with them
    └── RowsError       some rows cannot be predicted

Refused and CellError are raised inside this package alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, ContextManager, Dict, Iterable, Sequence, Tuple

from akdl.wire.cells import Arrays

_SHOWN = 5

BadRow = Tuple[int, str]
"""A row by its number from 0 in its batch, and what is wrong with it."""
RowNumbers = Sequence[int]
Errors = Dict[int, str]
"""Faults of rows, by their numbers."""


class ServingError(ValueError):
    """Nothing can be predicted."""


class SignatureError(ServingError):
    """The model has no such tag, signature, input or output, or a wrong type; the message lists the
    existing ones.
    """


class RowsError(ServingError):
    """Rows that cannot be predicted, in `bad`."""

    def __init__(self, bad: Sequence[BadRow]) -> None:
        self.bad = list(bad)
        text = "; ".join(f"row {row}: {message}" for row, message in self.bad[:_SHOWN])
        more = len(self.bad) - _SHOWN
        super().__init__(text + (f"; and {more} more rows" if more > 0 else ""))


class Refused(Exception):
    """The model refuses a batch, or lacks memory for it; some of its rows may still succeed.

    `ServedModel` halves the batch then. Any other exception of `predict` fails the whole request,
    since smaller batches would fail in the same way.
    """

    def __init__(self, error: BaseException, message: object) -> None:
        super().__init__(str(message))
        # Few frameworks have a class of their own for this error, so it is recognized by its words.
        said = f"{type(error).__name__} {error}".lower()
        self.lacks_memory = isinstance(error, MemoryError) or any(
            words in said
            for words in ("resourceexhausted", "out of memory", "allocate memory", "bad_alloc")
        )


class CellError(ValueError):
    """A cell, or a cell of a batch, cannot be converted."""


@dataclass(frozen=True)
class TensorDescription:
    """An input or output of a signature; `tensor` is empty for sparse and ragged ones, and sizes of
    -1 are variable.
    """

    key: str
    dtype: str
    shape: tuple[int, ...] | None
    tensor: str = ""

    def __str__(self) -> str:
        return f"{self.key!r} {self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model."""

    key: str
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]
    is_compiled: bool = False  # by XLA, for each shape of the inputs

    def __str__(self) -> str:
        return (
            f"{self.key!r} (inputs: {tensors_text(self.inputs)}; outputs:"
            f" {tensors_text(self.outputs)})"
        )


class LoadedModel:
    """A model that predicts batches, which have their rows on the first axis.

    Each kind of model is a subclass. It is made with its signature, loaded once, called from
    several threads at once unless `turn` is a lock, and closed after its last batch. It neither
    divides batches nor converts cells, so a new kind of model needs these methods only.

    Attributes:
        name: Subject of sentences in error messages, such as "the model".
        kind: Its kind, as users call it.
        device: "CPU" or "GPU" once the model is loaded; "" where the model itself chooses.
        signature: The inputs and outputs.
        turn: A lock that is held during each call, for models that must not be called from two
            threads at once.
    """

    name = "the model"
    kind = ""
    device = ""
    signature: Signature
    turn: ContextManager[Any] = contextlib.nullcontext()

    def load(self, outputs: Sequence[str]) -> None:
        """Load the model into memory, to predict these outputs. ModelError or ServingError if that
        fails.
        """
        raise NotImplementedError

    def predict(self, columns: Arrays) -> Arrays:
        """Predict a batch, given and returned by the keys of inputs and outputs. Refused if another
        batch may succeed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release the memory of the model, which cannot predict afterwards."""
        raise NotImplementedError


def shape_text(shape: Iterable[int] | None) -> str:
    """A shape for a message."""
    return "[any shape]" if shape is None else str(list(shape))


def tensors_text(tensors: Iterable[TensorDescription]) -> str:
    """Inputs or outputs for a message."""
    return ", ".join(map(str, tensors)) or "none"


def find_tensor(
    tensors: Sequence[TensorDescription], key: str, what: str, signature: Signature
) -> TensorDescription:
    """Return the input or output of this name; a SignatureError lists the existing ones."""
    for tensor in tensors:
        if tensor.key == key:
            return tensor
    renamed = ""
    if what == "input" and "inputs" in {tensor.key for tensor in tensors}:
        renamed = (
            ". Keras 3 loses the names of inputs in tf.saved_model.save: write"
            " model.export(task_config.saved_model_dir)"
        )
    raise SignatureError(f"the model has no {what} {key!r}; its signature is {signature}{renamed}")
