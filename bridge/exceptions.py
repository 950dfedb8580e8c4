"""What can go wrong on the Flink side. `from operators import *` has all of them.

BridgeError
├── SchemaError        a column, a type or a schema text that cannot be used; found when the job is built
├── RowError           a cell that cannot be encoded or decoded; found while rows move
├── ConfigurationError settings that cannot work: counts, files, interpreters, Java
├── TaskError          a TensorFlow process that failed; carries the script's traceback and last log lines
└── JobError           a job that Flink refused or failed for a reason that is not ours
"""

from __future__ import annotations

from akdl.masking import masked


class BridgeError(Exception):
    """Base of every error that the product raises on purpose. Its text has no secrets, whoever wrote it.

    Attributes:
        details: All that is known of a failed job, where the message is a short form of it; else "".
    """

    details: str = ""

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(each) if isinstance(each, str) else each for each in args))


class SchemaError(BridgeError):
    """A column, a type or a schema text that cannot be used. Raised when the job is built."""


class RowError(BridgeError):
    """A cell that cannot be encoded or decoded. Names the column, the row, what was expected and what came."""


class ConfigurationError(BridgeError):
    """Settings that cannot work, such as counts, files, interpreters or Java. Says what to change."""


class TaskError(BridgeError):
    """A TensorFlow process that failed, with its role, the script's own traceback and its last log lines."""


class JobError(BridgeError):
    """Flink refused or failed a job for a reason that is not ours; the message is the innermost cause."""
