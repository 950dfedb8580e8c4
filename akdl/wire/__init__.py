"""The messages of the process line, generated from `proto/` (see scripts/build_proto.py), under the names the rest uses."""

from akdl.wire.example_pb2 import Example
from akdl.wire.exchange_pb2 import (
    BYTES,
    FLOAT32,
    FLOAT64,
    INT64,
    Chunk,
    ColumnValues,
    Empty,
    EndOfInput,
    Rows,
)
from akdl.wire.task_pb2 import Cluster, Failure, Hello, Outcome, Success, TableColumn, Task

__all__ = [
    "BYTES",
    "FLOAT32",
    "FLOAT64",
    "INT64",
    "Chunk",
    "Cluster",
    "ColumnValues",
    "Empty",
    "EndOfInput",
    "Example",
    "Failure",
    "Hello",
    "Outcome",
    "Rows",
    "Success",
    "TableColumn",
    "Task",
]
