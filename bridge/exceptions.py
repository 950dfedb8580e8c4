"""Exceptions of the Flink side, exported by `operators`.

BridgeError
├── SchemaError        a column, a type or a schema text that cannot be used; found before the job
├── RowError           a cell that cannot be encoded or decoded; found while the job runs
├── ConfigurationError settings that cannot work: counts, files, interpreters, Java
├── TaskError          a process of a script that failed; carries its traceback and last log lines
└── JobError           a job that Flink refused, or that failed outside of akdl
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from akdl.masking import masked


class BridgeError(Exception):
    """Base class of all errors of akdl. Secrets in the text are masked.

    Attributes:
        details: The whole text of a failed job, if the message is a summary of it; else "".
    """

    details: str = ""

    def __init__(self, *args: object) -> None:
        # Addresses of storages in a text may have passwords. They are masked here, so that no
        # caller can forget it.
        super().__init__(*(masked(each) if isinstance(each, str) else each for each in args))


class SchemaError(BridgeError):
    """A column, a type or a schema text that cannot be used. Raised when the job is built."""


class RowError(BridgeError):
    """A cell that cannot be encoded or decoded. The text names column, row, expected and found
    value.
    """


class ConfigurationError(BridgeError):
    """Settings that cannot work, such as counts, files, interpreters or Java. The text says what to
    change.
    """


class TaskError(BridgeError):
    """A TensorFlow process that failed, with its role, the script's own traceback and its last log
    lines.
    """


class JobError(BridgeError):
    """A job that Flink refused, or that failed outside of akdl; the message is the
    innermost cause.
    """


@contextmanager
def refused_at(where: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise some errors of a block as a ConfigurationError whose text begins with `where`.

    The original is left out of the traceback, because its text is in the new one.
    """
    try:
        yield
    except errors as error:
        raise ConfigurationError(f"{where}: {error}") from None
