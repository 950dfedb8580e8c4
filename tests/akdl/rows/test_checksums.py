"""Checksums of many records at once are those of each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from akdl.rows.checksums import BLOCK, add_to_crc, crc_of_each, masked
from akdl.wire.byte_arrays import packed_offsets

RANDOM = np.random.RandomState(7)


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [0],
        [5],
        [0, 1, 2, 3, 63, 64, 65, 127, 128, 129],
        [5000, 0, 300_000, 7],
        RANDOM.randint(0, 700, 3000),
    ],
    ids=["none", "empty", "one", "borders", "wild", "many"],
)
def test_crc_of_each_equals_crc32c_of_each_record(lengths: Any) -> None:
    lengths = np.array(lengths, np.int64)
    offsets = BLOCK + packed_offsets(lengths)
    data = RANDOM.randint(0, 256, offsets[-1]).astype(np.uint8)
    wanted = [crc32c(data[start:end].tobytes()) for start, end in zip(offsets, offsets[1:])]
    assert crc_of_each(data, offsets[:-1], lengths).tolist() == wanted


@pytest.mark.parametrize(
    ("length", "place", "width"),
    [(90, 5, 4), (1, 0, 1), (300, 292, 8), (256, 255, 1), (257, 0, 257), (9, 3, 0)],
)
def test_add_to_crc_equals_crc32c_of_the_changed_record(
    length: int, place: int, width: int
) -> None:
    record = RANDOM.randint(0, 256, length).astype(np.uint8)
    record[place : place + width] = 0
    column = RANDOM.randint(0, 256, (20, width)).astype(np.uint8)
    crc = np.full(20, crc32c(record.tobytes()), np.uint32)
    add_to_crc(crc, column, place, length)
    for row in range(20):
        record[place : place + width] = column[row]
        assert crc[row] == crc32c(record.tobytes())


def test_masked_crc_is_that_of_tfrecord_files() -> None:
    crcs = [0, 1, 0x80000000, 0xFFFFFFFF]
    wanted = [((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF for crc in crcs]
    assert masked(np.array(crcs, np.uint32)).tolist() == wanted
