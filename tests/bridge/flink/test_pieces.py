"""Chunks as they leave Python functions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bridge.codec.ipc import read_batch
from bridge.flink import pieces
from bridge.flink.elements import Element

BATCH = pa.record_batch([pa.array(["a" * 1000, "b"])], names=["x"])


@pytest.mark.parametrize("kinds", [None, b"\0\3"])
def test_a_chunk_of_usual_size_leaves_as_it_is(kinds: bytes | None) -> None:
    ((kind, found, arrow),) = pieces.pieces(BATCH, kinds)
    assert (kind, found) == (Element.CHUNK, kinds) and read_batch(arrow).equals(BATCH)


@pytest.mark.parametrize("kinds", [None, b"\0\3"])
def test_a_large_chunk_leaves_in_pieces(kinds: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 500)
    found = list(pieces.pieces(BATCH, kinds))
    assert [kind for kind, _, _ in found] == [Element.PIECE] * (len(found) - 1) + [Element.CHUNK] and len(found) > 3
    assert found[-1][1] == kinds and max(len(arrow) for _, _, arrow in found) <= 500
    assert read_batch(b"".join(arrow for _, _, arrow in found)).equals(BATCH)
