"""Elements between our operators: chunks of rows and control messages, each with a kind.

A stream of Flink has one type, and control messages travel between the chunks, because most of
them say something about the rows before them: a watermark, a mark of a checkpoint, an end. So the
kind is a field of its own, and never a special value of another field.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyflink.common import TypeInformation, Types

from bridge.codec.ipc import write_parts
from bridge.host.allocator import give_large_blocks_back

if TYPE_CHECKING:
    from pyflink.datastream import DataStream
    from pyflink.fn_execution.coder_impl_fast import InternalRow
    from pyflink.table import Table

    from bridge.files.reading import FileTable

# PyFlink and Beam copy each element six times on its way, so a row of 300 MB is sent in pieces.
PIECE_BYTES = 4 << 20
# This is PyFlink's number for the kind of a new row.
_INSERT = 0


class Element(enum.IntEnum):
    """Kind of an element.

    With a key, ROW(kind, number, size, content):
    - `CHUNK`: rows of an input; number of the extra input or 0, number of rows, an Arrow stream of
      them.
    - `START`: the job has started or continues from a checkpoint; number of the member.
    - `ADDRESS`: number and address of a member.
    - `PLACE`: number of a subtask that delivers models, and the host where it runs.
    - `WATERMARK`, `IDLE`: event time of a subtask of RowsToArrow; its number, the number of such
      subtasks, and `time_bytes`.

    Without a key, ROW(kind, row kinds, content):
    - `CHUNK`: row kinds, or null if all rows are new, and an Arrow stream of the rows.
    - `PIECE`: the begin of such an Arrow stream, which continues in the next element.
    - `WATERMARK`, `IDLE`: as above, for the subtask of ArrowToRows that gets it.
    - `START`, `CHECKPOINT`, `COMPLETE`, `END`: for files, see RowsToArrow.java; the number of a
      checkpoint in 8 bytes.
    - `END`: also behind all that a script or a predictor has written; without it the job fails,
      since rows are missing.
    - `ALL_OUT`: for predictors; a last chunk or no bytes, behind which the results of all chunks
      have to leave.
    """

    CHUNK = 0
    START = 1
    ADDRESS = 2
    PLACE = 3
    WATERMARK = 4
    IDLE = 5
    PIECE = 6
    CHECKPOINT = 7
    COMPLETE = 8
    END = 9
    ALL_OUT = 10


def named_row(**fields: TypeInformation) -> TypeInformation:
    """Type of a row with named fields: PyFlink asks the JVM for missing names, and Python workers
    cannot reach one.
    """
    return Types.ROW_NAMED(list(fields), list(fields.values()))


BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
KEYED_ELEMENT = named_row(kind=Types.INT(), number=Types.INT(), size=Types.INT(), content=BYTES)
KEY_AND_ELEMENT = named_row(key=Types.LONG(), element=KEYED_ELEMENT)
ELEMENT = named_row(kind=Types.INT(), row_kinds=BYTES, content=BYTES)


class Origin(NamedTuple):
    """Stream from which a table is made, for readers that can take it in place of the rows.

    Args:
        elements: Elements of all of its rows, which are new.
        columns: The columns of the table, in its order; elements may have more.
        files: Files with the same rows.
        ends: The last element is an END.
    """

    elements: DataStream
    columns: Sequence[str]
    files: FileTable | None = None
    ends: bool = False

    def selected(self, columns: Sequence[str]) -> Origin:
        """Return the origin of a `select` of some columns, which leaves the elements unchanged."""
        files = None if self.files is None else self.files.selected(columns)
        return Origin(self.elements, columns, files, self.ends)


def origin_of(table: Table) -> Origin | None:
    """Origin of a table; None where SQL stands between.

    It is an attribute of PyFlink's `Table` object, and each query makes a new object. So a table
    that a query has changed cannot have an origin by accident.
    """
    origin: Origin | None = vars(table).get("akdl_origin")
    return origin


def with_origin(table: Table, origin: Origin | None) -> Table:
    """Note the origin on this object of PyFlink, and return the object."""
    if origin is not None:
        table.akdl_origin = origin
    return table


def pieces(batch: pa.RecordBatch, kinds: bytes | None = None) -> Iterator[InternalRow]:
    """Yield a chunk; a large one as PIECE elements and a last CHUNK. The batch is not held once the
    first element is out.
    """
    give_large_blocks_back(batch.num_rows, batch.nbytes)
    parts = write_parts(batch, PIECE_BYTES)
    # The batch may have a hundred megabytes, and would stay in memory while this generator is
    # suspended at each piece.
    del batch
    # The last part is a CHUNK, and only the end of the parts shows which one it is, so one part is
    # held back.
    last = next(parts)
    for part in parts:
        yield element(Element.PIECE, None, last)
        last = part
    yield element(Element.CHUNK, kinds, last)


def element(kind: Element, row_kinds: bytes | None, content: bytes) -> InternalRow:
    """Element without a key, in the form that functions yield.

    An InternalRow goes into PyFlink's coder as it is; a Row would be asked for its fields and kind.
    """
    # The module loads Beam, which takes a second that drivers save.
    from pyflink.fn_execution.coder_impl_fast import InternalRow

    return InternalRow([kind.value, row_kinds, content], _INSERT)
