"""Chunks as they leave Python functions: a large one leaves in pieces, which ArrowToRows puts together.

PyFlink and Beam copy each element of a function's output several times, and keep the buffers of the largest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyflink.fn_execution.coder_impl_fast import InternalRow

from bridge.codec.ipc import write_parts
from bridge.flink.elements import Element
from bridge.host.allocator import give_large_blocks_back

PIECE_BYTES = 4 << 20
_INSERT = 0  # PyFlink's kind of a new row


def pieces(batch: pa.RecordBatch, kinds: bytes | None = None) -> Iterator[InternalRow]:
    """Yield a chunk; a large one as PIECE elements and a last CHUNK.

    The batch is not held here once the first element is out.
    """
    give_large_blocks_back(batch.num_rows, batch.nbytes)
    parts = write_parts(batch, PIECE_BYTES)
    del batch  # it may have a hundred megabytes
    last = next(parts)
    for part in parts:
        yield element(Element.PIECE, None, last)
        last = part
    yield element(Element.CHUNK, kinds, last)


def element(kind: Element, row_kinds: bytes | None, content: bytes) -> InternalRow:
    """Element without a key, in the form that functions yield."""
    return InternalRow(
        [kind.value, row_kinds, content], _INSERT
    )  # PyFlink's coder takes it as it is, but asks a Row for its fields and its kind
