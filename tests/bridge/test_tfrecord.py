"""Frames and checksums, against values computed one record at a time."""

import struct

import numpy as np
import pytest
from crc32c import crc32c

from bridge.tfrecord import affine_crc, crc_of_each, heads, masked


def one_masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_masked():
    data = [b"", b"a", b"TensorFlow", bytes(300)]
    crcs = np.array([crc32c(piece) for piece in data], np.uint32)
    assert masked(crcs).tolist() == [one_masked(piece) for piece in data]


@pytest.mark.parametrize("length", [0, 1, 255, 256, 2**31 + 7])
def test_heads(length):
    plain = struct.pack("<Q", length)
    assert heads(np.array([length]))[0].tobytes() == plain + struct.pack("<I", one_masked(plain))


def test_crc_of_each():
    data = b"oneseventhree"
    crcs = crc_of_each(memoryview(data), np.array([0, 3, 8, 8, 13]))
    assert crcs.tolist() == [crc32c(b"one"), crc32c(b"seven"), crc32c(b""), crc32c(b"three")]


def test_affine_crc_equals_the_plain_one():
    rng = np.random.default_rng(7)
    template = bytearray(rng.integers(0, 256, 90, "u1"))
    variable = [0, 5, 6, 7, 44, 89]
    for place in variable:
        template[place] = 0
    records = np.tile(np.frombuffer(bytes(template), "u1"), (100, 1))
    records[:, variable] = rng.integers(0, 256, (100, len(variable)), "u1")
    assert affine_crc(records, bytes(template), variable).tolist() == [crc32c(row.tobytes()) for row in records]
