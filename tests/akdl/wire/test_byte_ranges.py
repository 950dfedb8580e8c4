"""Ranges of bytes of many lengths are copied as a slice of each would be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from akdl.wire.byte_arrays import SPILL, copy_ranges, items, joined_ranges, packed_offsets, windows

RANDOM = np.random.RandomState(3)
LENGTHS = {
    "none": [],
    "empty": [0, 0],
    "short": [1, 15, 0, 3, 2, 14, 0, 1],
    "borders": [0, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1, 0, 1025],
    "of one length": [40] * 9,
    "long, of one length": [5000] * 3,
    "wild": [3, 300_000, 0, 1, 70_000, 5],
    "many": RANDOM.randint(0, 200, 2000).tolist(),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_joined_ranges_puts_ranges_of_any_length_together(lengths: Any) -> None:
    lengths = np.array(lengths, np.int64)
    source = RANDOM.randint(0, 256, 400_000).astype(np.uint8)
    starts = np.array([RANDOM.randint(0, len(source) - length + 1) for length in lengths], np.int64)
    starts[-1:] = len(source) - lengths[-1:]  # the last bytes too
    wanted = b"".join(
        source[start : start + length].tobytes() for start, length in zip(starts, lengths)
    )
    assert joined_ranges(source, starts, lengths).tobytes() == wanted


def test_copy_ranges_overwrites_only_what_follows_a_range() -> None:
    lengths, target = np.array([1, 20, 0, 3]), np.full(400, 7, np.uint8)
    places = np.array([10, 100, 200, 300])
    copy_ranges(np.full(20, 1, np.uint8), np.zeros(4, np.int64), lengths, target, places)
    for place, length in zip(places, lengths):
        assert target[:place][-SPILL:].tolist() == [7] * min(place, SPILL)
        assert target[place : place + length].tolist() == [1] * length
        assert target[place + length + SPILL :][:SPILL].tolist() == [7] * SPILL


def test_windows_and_items_split_bytes() -> None:
    data = np.arange(6, dtype=np.uint8)
    assert windows(data, 4)[[2, 0]].tobytes() == bytes([2, 3, 4, 5, 0, 1, 2, 3])
    assert len(windows(data, 7)) == 0
    assert [item.tobytes() for item in items(data.reshape(2, 3))] == [b"\0\1\2", b"\3\4\5"]


def test_packed_offsets_add_up_lengths() -> None:
    assert packed_offsets(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
