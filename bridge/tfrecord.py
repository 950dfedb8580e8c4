"""TFRecord frames and their checksums, for whole batches at once. Pure.

A frame is the record's length (8 bytes, little-endian), the masked CRC-32C of these 8 bytes, the record, and the masked
CRC-32C of the record (TensorFlow documentation, "TFRecord and tf.train.Example"). Frames back to back are a TFRecord file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

HEAD = 12  # bytes before a record
TAIL = 4  # bytes after it

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed


def masked(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mask checksums as TFRecord does, so that a checksum of data that holds checksums stays good."""
    rotated: NDArray[np.uint32] = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def heads(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the 12 bytes that stand before records of these lengths, shape [records, 12]."""
    result = np.empty((len(lengths), HEAD), "u1")
    result[:, :8] = lengths.astype("<u8").view("u1").reshape(-1, 8)
    # Records in memory are shorter than 2**32, so the upper four bytes are zero.
    crc = affine_crc(result[:, :8], bytes(8), range(4))
    result[:, 8:] = masked(crc).astype("<u4").view("u1").reshape(-1, 4)
    return result


def frame(record: bytes) -> bytes:
    """Return one record with what stands around it."""
    head = heads(np.array([len(record)]))[0].tobytes()
    tail = masked(np.array([crc32c(record)], np.uint32)).astype("<u4").tobytes()
    return b"".join([head, record, tail])


def frames(records: bytes) -> Iterator[bytes]:
    """Yield each of the frames that lie back to back in `records`."""
    start = 0
    while start < len(records):
        end = start + HEAD + int.from_bytes(records[start : start + 8], "little") + TAIL
        yield records[start:end]
        start = end


def crc_of_each(data: memoryview, offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the CRC-32C of each of the records that lie back to back in `data`.

    One call of a C function per record, about 0.3 us; there is no way to vectorize it over records of many lengths.
    """
    ends = offsets.tolist()
    checksums = [crc32c(data[start:end]) for start, end in zip(ends, ends[1:])]
    return np.array(checksums, np.uint32)


def affine_crc(records: NDArray[np.uint8], template: bytes, variable: Sequence[int]) -> NDArray[np.uint32]:
    """Return the CRC-32C of records of one length that differ from `template` only in some bytes.

    CRC is affine: each byte adds a term that depends on its value and its place only. So it takes one table look-up per
    variable byte, and none for the rest.

    Args:
        records: The records, shape [records, length], uint8.
        template: The record with zero in all variable bytes.
        variable: Positions of the variable bytes.
    """
    crc = np.full(len(records), crc32c(template), np.uint32)
    tables = _tables(1 << (len(template) - 1).bit_length())
    for position in variable:
        crc ^= np.take(tables[len(template) - 1 - position], records[:, position])
    return crc


@functools.cache  # lengths are powers of two: few entries, all together twice the largest
def _tables(length: int) -> NDArray[np.uint32]:
    """Return what a byte adds to the checksum, shape [length, 256]: by the number of bytes after it, and its value."""
    values = np.arange(256, dtype=np.uint32)
    table = values.copy()
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    result = np.empty((length, 256), np.uint32)
    effect = table
    for distance in range(length):
        result[distance] = effect
        effect = (effect >> np.uint32(8)) ^ table[effect & np.uint32(0xFF)]
    return result
