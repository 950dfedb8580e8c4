"""Kinds of elements, in Python and in Java."""

from __future__ import annotations

import pathlib
import re

import pyarrow as pa
import pytest

from bridge.codec.ipc import read_batch
from bridge.flink import elements
from bridge.flink.elements import Element


def test_kinds_of_elements_have_the_same_numbers_in_java() -> None:
    text = (
        pathlib.Path(elements.__file__).with_name("ChunkOperator.java").read_text(encoding="utf-8")
    )
    found = re.findall(r"static final int (\w+) = (\d+);", text)
    kinds = {kind: int(number) for kind, number in found if kind in Element.__members__}
    assert kinds == {kind: Element[kind] for kind in kinds} and len(kinds) >= 3


BATCH = pa.record_batch([pa.array(["a" * 1000, "b"])], names=["x"])


@pytest.mark.parametrize("kinds", [None, b"\0\3"])
def test_a_chunk_of_usual_size_leaves_as_it_is(kinds: bytes | None) -> None:
    ((kind, found, arrow),) = elements.pieces(BATCH, kinds)
    assert (kind, found) == (Element.CHUNK, kinds) and read_batch(arrow).equals(BATCH)


@pytest.mark.parametrize("kinds", [None, b"\0\3"])
def test_a_large_chunk_leaves_in_pieces(
    kinds: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "PIECE_BYTES", 500)
    found = list(elements.pieces(BATCH, kinds))
    assert [kind for kind, _, _ in found] == [Element.PIECE] * (len(found) - 1) + [
        Element.CHUNK
    ] and len(found) > 3
    assert found[-1][1] == kinds and max(len(arrow) for _, _, arrow in found) <= 500
    assert read_batch(b"".join(arrow for _, _, arrow in found)).equals(BATCH)
