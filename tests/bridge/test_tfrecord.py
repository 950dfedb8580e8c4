"""Frames and checksums, against values computed one record at a time."""

import struct

import numpy as np
import pytest
from crc32c import crc32c

from bridge.tfrecord import crc_of_each, heads


def one_masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("length", [0, 1, 255, 256, 2**31 + 7])
def test_heads(length):
    plain = struct.pack("<Q", length)
    assert heads(np.array([length]))[0].tobytes() == plain + struct.pack("<I", one_masked(plain))


def test_crc_of_each():
    data = b"oneseventhree"
    crcs = crc_of_each(memoryview(data), np.array([0, 3, 8, 8, 13]))
    assert crcs.tolist() == [crc32c(b"one"), crc32c(b"seven"), crc32c(b""), crc32c(b"three")]
