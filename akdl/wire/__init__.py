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
    Progress,
    Rows,
    Share,
    Shares,
)
from akdl.wire.group_pb2 import ENDED, FAILED, RUNNING, STARTING, GroupState, MemberState
from akdl.wire.serving_pb2 import BadRow, Description, Notice, Notices, Offer, Prediction, ServedTensor, Serving
from akdl.wire.task_pb2 import Cluster, ExtraInput, Failure, Hello, Outcome, Success, TableColumn, Task

__all__ = [
    "ENDED",
    "FAILED",
    "GroupState",
    "MemberState",
    "Progress",
    "RUNNING",
    "STARTING",
    "Share",
    "Shares",
    "BYTES",
    "FLOAT32",
    "FLOAT64",
    "INT64",
    "BadRow",
    "Chunk",
    "Cluster",
    "ColumnValues",
    "Description",
    "Empty",
    "EndOfInput",
    "Example",
    "ExtraInput",
    "Failure",
    "Hello",
    "Notice",
    "Notices",
    "Offer",
    "Outcome",
    "Prediction",
    "Rows",
    "ServedTensor",
    "Serving",
    "Success",
    "TableColumn",
    "Task",
]
