"""Messages of the channel between processes, generated from `proto/` by scripts/build_proto.py."""

from typing import Sequence

from akdl.wire.example_pb2 import *
from akdl.wire.exchange_pb2 import *
from akdl.wire.group_pb2 import *
from akdl.wire.serving_pb2 import *
from akdl.wire.task_pb2 import *

TableColumns = Sequence[TableColumn]
"""The columns of a table, in their order."""
