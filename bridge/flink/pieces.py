"""Chunks as they leave Python functions: a large one leaves in pieces, which ArrowToRows puts together.

PyFlink and Beam copy each element that a function yields several times, and keep the buffers of the largest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyflink.fn_execution.coder_impl_fast import InternalRow

from bridge.codec.ipc import write_parts
from bridge.flink.elements import Element
from bridge.host.allocator import give_large_blocks_back

PIECE_BYTES = 4 << 20
_INSERT = 0  # the kind of a row that is new, for PyFlink


def pieces(batch: pa.RecordBatch, kinds: bytes | None = None) -> Iterator[InternalRow]:
    """Yield a chunk, in pieces if it is large, of the kind PIECE but for the last.

    Once the first is out, the batch is no longer held here.
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
    """Return an element without a key as functions yield it."""
    return InternalRow(
        [kind.value, row_kinds, content], _INSERT
    )  # PyFlink's coder takes it as it is, but asks a Row for its fields and its kind
