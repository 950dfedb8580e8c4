"""Messages of the channel between processes, generated from `proto/` by scripts/build_proto.py."""

from typing import Sequence

from akdl.wire.example_pb2 import Example
from akdl.wire.exchange_pb2 import (
    AWAITING,
    BOOL,
    BYTES,
    CALLING,
    FLOAT32,
    FLOAT64,
    IMPORTING,
    INT8,
    INT16,
    INT32,
    INT64,
    READING,
    STILL,
    WORKING,
    Activity,
    Chunk,
    Column,
    Empty,
    EndOfInput,
    Output,
    Progress,
    Report,
    Rows,
    Share,
    Shares,
    Wishes,
)
from akdl.wire.group_pb2 import (
    ENDED,
    FAILED,
    RUNNING,
    STARTING,
    ExtraInputsRequest,
    GroupState,
    MemberReport,
    MemberState,
    Phase,
)
from akdl.wire.serving_pb2 import BadRow, Description, Notice, Notices, Offer, Prediction, Serving
from akdl.wire.task_pb2 import (
    Cluster,
    ExtraInput,
    Failure,
    Hello,
    Outcome,
    Success,
    TableColumn,
    Task,
)

TableColumns = Sequence[TableColumn]
"""The columns of a table, in their order."""
