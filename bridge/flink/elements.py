"""Elements between our operators: chunks of rows and control messages, each with a kind.

Streams of Flink have one row type each, so that one type holds all kinds. `RowsToArrow.java` and `ArrowToRows.java` use the
same numbers.
"""

from __future__ import annotations

import enum
import struct

from pyflink.common import Types

_TIME = struct.Struct(">q")
FIRST_TIME, LAST_TIME = -(2**63), 2**63 - 1  # Flink's watermarks before the first row and after the last one


class Element(enum.IntEnum):
    """Kind of an element.

    In an element with a key, ROW(kind, number, size, content):

    - `CHUNK`: rows of an input; number of the extra input or 0, number of rows, an Arrow stream of them.
    - `START`: the job has started or continues from a checkpoint; number of the member.
    - `ADDRESS`: number and address of a member.
    - `PLACE`: number of a subtask that delivers models, and the host where it runs.
    - `WATERMARK`: event time of a subtask of RowsToArrow; its number, the number of such subtasks, and `time_bytes`.
    - `IDLE`: such a subtask has no rows for now; its number, and the number of such subtasks.

    Without a key, ROW(kind, row kinds, content):

    - `CHUNK`: row kinds, or null if all rows are new, and an Arrow stream of the rows.
    - `PIECE`: the begin of such an Arrow stream, which continues in the next element.
    - `WATERMARK`, `IDLE`: as above, for the subtask of ArrowToRows that gets it.
    """

    CHUNK = 0
    START = 1
    ADDRESS = 2
    PLACE = 3
    WATERMARK = 4
    IDLE = 5
    PIECE = 6


_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
KEYED_ELEMENT = Types.ROW_NAMED(["kind", "number", "size", "content"], [Types.INT(), Types.INT(), Types.INT(), _BYTES])
KEY_AND_ELEMENT = Types.ROW_NAMED(["key", "element"], [Types.LONG(), KEYED_ELEMENT])
ELEMENT = Types.ROW_NAMED(["kind", "row_kinds", "content"], [Types.INT(), _BYTES, _BYTES])


def time_bytes(time: int) -> bytes:
    """Content of a watermark, in milliseconds."""
    return _TIME.pack(time)


def time_of(content: bytes) -> int:
    """Milliseconds in the content of a watermark."""
    time: int = _TIME.unpack(content)[0]
    return time
