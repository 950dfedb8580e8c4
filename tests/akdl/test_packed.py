"""Frames from what differs between them, against frames made one at a time."""

import numpy as np
import pytest
from crc32c import crc32c

from akdl.packed import HEAD, TAIL, masked, pack, unpack
from bridge.tfrecord import frame, frames
from tests.bridge.test_tfrecord import one_masked

RANDOM = np.random.default_rng(7)


def columns(rows, *widths):
    return [RANDOM.integers(0, 256, (rows, width), "u1") for width in widths]


def common(length, places, widths):
    """Return what records of one form have in common, as `pack` takes it."""
    record = bytearray(RANDOM.integers(1, 256, length, "u1"))
    for place, width in zip(places, widths):
        record[place : place + width] = bytes(width)
    return frame(bytes(record))[:-TAIL] + crc32c(record).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("length", "places", "widths"),
    [(90, [5, 44], [4, 10]), (1, [0], [1]), (300, [0, 292], [8, 8]), (90, [7], [0]), (256, [255], [1]), (257, [0], [257])],
)
@pytest.mark.parametrize("rows", [0, 1, 2, 100])
def test_unpacked_frames_are_those_of_the_whole_records(length, places, widths, rows):
    form, cells = common(length, places, widths), columns(rows, *widths)
    wanted = []
    for row in range(rows):
        record = bytearray(form[HEAD:-TAIL])
        for place, column in zip(places, cells):
            record[place : place + column.shape[1]] = column[row].tobytes()
        wanted.append(frame(bytes(record)))
    packed = pack(form, [HEAD + place for place in places], cells)
    assert bytes(unpack(packed)) == b"".join(wanted)
    assert list(frames(packed)) == wanted


def test_frames_that_are_not_packed_stay_as_they_are():
    records = frame(b"one") + frame(b"")
    assert unpack(records) is records
    assert unpack(b"") == b""


def test_columns_may_be_every_other_row():
    form, (cells,) = common(20, [3], [4]), columns(9, 4)
    both = [pack(form, [HEAD + 3], [cells[start::2]]) for start in (0, 1)]
    first, second = (list(frames(each)) for each in both)
    assert [frame for pair in zip(first, second) for frame in pair] + first[4:] == list(frames(pack(form, [HEAD + 3], [cells])))


def test_masked():
    data = [b"", b"a", b"TensorFlow", bytes(300)]
    crcs = np.array([crc32c(piece) for piece in data], np.uint32)
    assert masked(crcs).tolist() == [one_masked(piece) for piece in data]
