"""Errors of prediction.

ValueError
└── ServingError        nothing can be predicted; the message says what to change
    ├── SignatureError  the model lacks a name in the parameters, or cannot be used with them
    └── RowsError       some rows cannot be predicted

Refused is raised inside this package alone.
"""

from typing import List, Sequence, Tuple

_SHOWN = 5

BadRow = Tuple[int, str]
"""A row by its number from 0 in its batch, and what is wrong with it."""


class ServingError(ValueError):
    """Nothing can be predicted."""


class SignatureError(ServingError):
    """The model has no such tag, signature, input or output, or a wrong type; the message lists the existing ones."""


class RowsError(ServingError):
    """Rows that cannot be predicted, in `bad`."""

    def __init__(self, bad: Sequence[BadRow]) -> None:
        self.bad: List[BadRow] = list(bad)
        text = "; ".join(f"row {row}: {message}" for row, message in self.bad[:_SHOWN])
        more = len(self.bad) - _SHOWN
        super().__init__(text + (f"; and {more} more rows" if more > 0 else ""))


class Refused(Exception):
    """The model refuses a batch, or lacks memory for it; some of its rows may still succeed."""

    def __init__(self, message: object, lacks_memory: bool) -> None:
        super().__init__(str(message))
        self.lacks_memory = lacks_memory


class CellError(ValueError):
    """A cell, or a cell of a batch, cannot be converted; internal to this package."""
