"""CRC-32C of many records at once, as in TFRecord files. Pure.

A CRC is affine over bits: CRC(a xor b) = CRC(a) xor CRC(b), up to a constant for the length. So the
checksum of a record is the xor of one term per byte, which depends only on the byte's value and its
distance from the end. The terms are tabulated, and numpy looks up the same position of all records
in one call.

    record of 140 bytes, cut from its end:       [ 12 ][   64   ][   64   ]
    raw CRC of each block, by pairs of bytes:      c0      c1        c2
    advanced over the bytes behind the block:     128      64         0
    the xor of these:                            the raw CRC of the record

A raw CRC lacks the inversions (ones) that a CRC-32C begins and ends with.
"""

import functools
from typing import Any, List

import numpy as np

from akdl.wire.byte_arrays import windows

Array = Any

# Bytes of a record that are looked up together.
BLOCK = 64

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed
# Blocks that are looked up in one call: half a megabyte, which fits the processor's cache.
_AT_ONCE = 1 << 13
# Bits of a length that one look-up in `_shifts` handles. A table of a level takes 256 KB.
_DIGIT = 6


def masked(crc: Array) -> Array:
    """Mask checksums, uint32, as TFRecord does, so that data which contains checksums keeps a
    strong checksum.
    """
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def crc_of_each(data: Array, starts: Array, lengths: Array) -> Array:
    """CRC-32C of each record, uint32; `data` needs `BLOCK` arbitrary bytes before the first
    record.
    """
    ones = np.uint32(0xFFFFFFFF)
    if not len(lengths):
        return np.empty(0, np.uint32)
    # Blocks are counted from the end of a record, so that only the first one can be incomplete. It
    # is read with bytes in front of the record, which `_masks` clears.
    counts = np.maximum(1, -(-lengths // BLOCK))
    firsts = np.cumsum(counts) - counts
    # Number of blocks of the record behind each block.
    after = np.repeat(firsts + counts, counts) - np.arange(int(counts.sum())) - 1
    begins = np.repeat(starts + lengths, counts) - BLOCK * (after + 1)
    crc = np.empty(len(after), np.uint32)
    for start in range(0, len(after), _AT_ONCE):
        end = min(start + _AT_ONCE, len(after))
        # Blocks begin at any byte. One index operation copies them as items of 64 bytes into new
        # memory, where they can be read as words.
        blocks = windows(data, BLOCK)[begins[start:end]]
        words = blocks.view(np.uint64).reshape(-1, BLOCK // 8)
        # Records whose first block is among the ones of this round: only a first block has bytes in
        # front of the record.
        some = slice(*np.searchsorted(firsts, [start, end]))
        words[firsts[some] - start] &= _masks()[lengths[some] - BLOCK * (counts[some] - 1)]
        crc[start:end] = _crc_of_blocks(words.view("<u2"))
    crc = np.bitwise_xor.reduceat(shifted(crc, BLOCK * after), firsts)
    # A CRC-32C starts with all bits set, which the raw CRC lacks. By linearity these bits are
    # advanced over the record and added.
    return crc ^ shifted(np.full(len(lengths), ones), lengths) ^ ones


def add_to_crc(crc: Array, column: Array, place: int, length: int) -> None:
    """Update CRC-32Cs of records for bytes that were zero so far: `column`, uint8 of shape
    [records, width], at `place`.
    """
    terms = _terms(1 << length.bit_length())
    for byte in range(column.shape[1]):
        crc ^= np.take(terms[length - 1 - place - byte], column[:, byte])


def shifted(crc: Array, counts: Array) -> Array:
    """Advance raw CRCs, without the initial and final ones, over so many zero bytes each."""
    longest = int(counts.max()) if len(counts) else 0
    for level in range(-(-longest.bit_length() // _DIGIT)):
        digits = (counts >> (_DIGIT * level)) & ((1 << _DIGIT) - 1)
        # A digit of 0 advances over no bytes, so its look-up is left out.
        if digits.any():
            crc = _looked_up(_shifts(level).reshape(-1), digits << 10, crc)
    return crc


def _looked_up(table: Array, base: Any, crc: Array) -> Array:
    """Look up the four bytes of each checksum in a table of 4 x 256 entries from `base` on, and
    combine the results.
    """
    result = np.take(table, base + (crc & np.uint32(0xFF)))
    for byte in range(1, 4):
        result ^= np.take(
            table,
            base + (256 * byte + ((crc >> np.uint32(8 * byte)) & np.uint32(0xFF)).astype(np.int64)),
        )
    return result


def _crc_of_blocks(pairs: Array) -> Array:
    tables = _terms_of_pairs()
    crc = np.take(tables[0], pairs[:, 0])
    for place in range(1, len(tables)):
        crc ^= np.take(tables[place], pairs[:, place])
    return crc


@functools.lru_cache(maxsize=None)
def _masks() -> Array:
    """Masks that keep the last n bytes of a block, for n from 0 to BLOCK, as words."""
    keeps = np.arange(BLOCK) >= BLOCK - np.arange(BLOCK + 1)[:, np.newaxis]
    return (keeps * np.uint8(0xFF)).astype(np.uint8).view(np.uint64)


@functools.lru_cache(maxsize=None)
def _terms_of_pairs() -> List[Array]:
    """Contribution of two bytes to the CRC of a block, for each of their positions: 256 KB each."""
    terms = _terms(BLOCK)
    places = range(0, BLOCK, 2)
    # The first byte of a pair is the lower one of the index.
    return [
        (terms[BLOCK - 2 - place][:, np.newaxis] ^ terms[BLOCK - 1 - place]).reshape(-1)
        for place in places
    ]


# Callers round lengths up to powers of two, so that all cached tables together take at most twice
# the memory of the largest one.
@functools.lru_cache(maxsize=None)
def _terms(length: int) -> Array:
    """Contribution of a byte to the CRC, shape [length, 256]: by the number of bytes behind it, and
    its value.
    """
    result = np.empty((length, 256), np.uint32)
    term = np.arange(256, dtype=np.uint32)
    for distance in range(length):
        term = _after_a_zero(term)
        result[distance] = term
    return result


@functools.lru_cache(maxsize=None)
def _shifts(level: int) -> Array:
    """Table for `shifted`, shape [64, 4, 256]: CRC bytes advanced over 0 to 63 times 64**level zero
    bytes.
    """
    result = np.empty((1 << _DIGIT, 4, 256), np.uint32)
    result[0] = np.arange(256, dtype=np.uint32) << (
        np.uint32(8) * np.arange(4, dtype=np.uint32)[:, np.newaxis]
    )
    for count in range(1, 1 << _DIGIT):
        if level == 0:
            result[count] = _after_a_zero(result[count - 1])
        else:
            result[count] = shifted(
                result[count - 1].reshape(-1), np.full(1024, 64**level - 1)
            ).reshape(4, 256)
            result[count] = _after_a_zero(result[count])
    return result


def _after_a_zero(crc: Array) -> Array:
    return (crc >> np.uint32(8)) ^ _byte_table()[crc & np.uint32(0xFF)]


@functools.lru_cache(maxsize=None)
def _byte_table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(
            table & np.uint32(1),
            (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL),
            table >> np.uint32(1),
        )
    return table
