"""TFRecord frames that differ in a few bytes only, as one frame and these bytes. Pure.

Where all cells have one width, so have the records, and most of their bytes are names and lengths that stand in every one.
Without them rows of numbers take a fourth of the bytes on their way through Flink, and the process of the script makes
frames of them again, checksums included.

A chunk of records is either frames back to back or packed; see "TFRecord and tf.train.Example" in the documentation of
TensorFlow for frames.
"""

import functools
import struct
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

HEAD = 12  # bytes of a frame before its record
TAIL = 4  # bytes after it, the masked CRC-32C of the record

_MARK = b"\xff" * 8  # no frame begins with it: these bytes are the length of its record
_HEADER = struct.Struct("<8sIII")  # the mark, number of rows, bytes of a frame, number of columns
_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed


def pack(frame: bytes, places: Sequence[int], columns: Sequence[Any]) -> bytes:
    """Pack frames.

    Args:
        frame: What all have in common: zero where bytes differ, and at its end the CRC-32C of this record, not masked.
        places: Where the bytes of each column begin in the frame.
        columns: The bytes that differ, each uint8 of shape [rows, width].
    """
    layout = np.array([(place, column.shape[1]) for place, column in zip(places, columns)], "<u4")
    header = _HEADER.pack(_MARK, len(columns[0]), len(frame), len(columns))
    return b"".join([header, frame, layout.tobytes(), *(np.ascontiguousarray(column).data for column in columns)])


class Layout(NamedTuple):
    """Where the cells of a row stand in its frame: `width` bytes from `place` for each column of the table, in their order."""

    length: int  # of a frame
    cells: Tuple[Tuple[int, int], ...]  # (place, width)


def layout(records: bytes) -> Optional[Layout]:
    """Return the layout of the frames of a chunk; None where it is not packed, and each frame may have another."""
    return _head(records)[1] if records.startswith(_MARK) else None


def unpack(records: bytes) -> Union[bytes, memoryview]:
    """Return the frames of a chunk back to back, whether they are packed or not."""
    if not records.startswith(_MARK):
        return records
    rows, (length, cells), start = _head(records)
    frame = np.frombuffer(records, np.uint8, length, _HEADER.size)
    frames = np.empty((rows, length), np.uint8)
    frames[:] = frame
    crc = np.full(rows, int.from_bytes(frame[-TAIL:].tobytes(), "little"), np.uint32)
    for place, width in cells:
        column = np.frombuffer(records, np.uint8, rows * width, start).reshape(rows, width)
        start += rows * width
        frames[:, place : place + width] = column
        add_to_crc(crc, column, place - HEAD, length - HEAD - TAIL)
    frames[:, -TAIL:] = masked(crc).astype("<u4").view(np.uint8).reshape(-1, TAIL)
    return frames.reshape(-1).data


def _head(records: bytes) -> Tuple[int, Layout, int]:
    """Return the number of rows of a packed chunk, the layout of its frames, and where the bytes of its columns begin."""
    _, rows, length, number = _HEADER.unpack_from(records)
    start = _HEADER.size + length
    cells = np.frombuffer(records, "<u4", 2 * number, start).reshape(-1, 2).tolist()
    return rows, Layout(length, tuple(map(tuple, cells))), start + 8 * number


def masked(crc: Any) -> Any:
    """Mask checksums, uint32, as TFRecord does, so that a checksum of data that holds checksums stays good."""
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def add_to_crc(crc: Any, column: Any, place: int, length: int) -> None:
    """Turn CRC-32Cs of records with zero in some bytes into those with the bytes of a column there.

    CRC is affine: each byte adds a term that depends on its value and its place only. So it takes one table look-up per
    byte, and none for all that records have in common.

    Args:
        crc: A checksum per record, uint32; changed in place.
        column: The bytes, uint8 of shape [records, width].
        place: Where they begin in a record.
        length: Of a record.
    """
    terms = _terms(1 << length.bit_length())
    for byte in range(column.shape[1]):
        crc ^= np.take(terms[length - 1 - place - byte], column[:, byte])


@functools.lru_cache(maxsize=None)  # lengths are powers of two: few entries, all together twice the largest
def _terms(length: int) -> Any:
    """Return what a byte adds to the checksum, shape [length, 256]: by the number of bytes after it, and its value."""
    values = np.arange(256, dtype=np.uint32)
    table = values.copy()
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    result = np.empty((length, 256), np.uint32)
    term = table
    for distance in range(length):
        result[distance] = term
        term = (term >> np.uint32(8)) ^ table[term & np.uint32(0xFF)]
    return result
