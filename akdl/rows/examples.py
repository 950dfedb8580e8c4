"""Rows as TFRecord frames of tf.train.Example, by vector operations only. Pure.

The features, with null as an absent feature: BOOLEAN and integers -> int64_list; FLOAT and DOUBLE
-> float_list (DOUBLE narrowed to float32, or kept as 8 little-endian bytes in a bytes_list, an
ARRAY<DOUBLE> as one value of 8 bytes per element); text, bytes and DECIMAL (as text) -> bytes_list;
DATE -> days, TIME -> milliseconds of the day, TIMESTAMP -> microseconds since 1970-01-01
(TIMESTAMP_LTZ: since 1970-01-01 00:00 UTC), int64_list; ARRAY -> a list.

A TFRecord file is a sequence of frames (TensorFlow documentation, "TFRecord and tf.train.Example"),
and the record in a frame is an Example. HEAD and TAIL surround it:

    | length, 8 bytes | masked CRC of the length, 4 | record | masked CRC of the record, 4 |

    record:   0a n                    Example.features has n bytes
                0a n 0a n name 12 n   entry of the map: the key, and a value of n bytes
                  1a n 0a n values    Feature.int64_list, with packed values

Integers and lengths (n) are varints of one width per column and batch. Shorter ones are padded,
which every protobuf reader accepts. When all cells have one width, all frames have one width too
(`_Alike`): a table of bytes, most of them equal in all rows.
"""

from __future__ import annotations

import functools
import sys
from typing import IO, Callable, Iterator, NamedTuple, Sequence, Union

import numpy as np

from akdl.features import FLOAT32, INT64
from akdl.rows.checksums import BLOCK, add_to_crc, crc_of_each, masked
from akdl.wire import Rows, TableColumn, TableColumns
from akdl.wire.byte_arrays import (
    SPILL,
    copy_ranges,
    items,
    packed_offsets,
    padded,
    varint,
    width_of,
    windows,
)
from akdl.wire.cells import Array, Cells, read_cells
from akdl.wire.column_type import MEANINGS, Kind, type_of

HEAD = 12  # bytes of a frame before its record
TAIL = 4  # bytes after it, the masked CRC-32C of the record

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3  # numbers of the fields of tf.train.Feature
_NUMBERS = {INT64: _INT64_LIST, FLOAT32: _FLOAT_LIST}
# Templates of a column that are cached. A column of texts may need one for each length, so the
# cache has a bound.
_MOST_TEMPLATES = 1000
# Pieces of half a megabyte stay in the processor's cache, and the kernel neither gives nor takes
# back pages for each chunk.
_PIECE_BYTES = 512 << 10
# Bytes of a record from which on its checksum is made from its bytes and not from its columns: the
# tables of terms have an entry for each position.
_WIDE = 4096


class ExampleEncoder:
    """Encodes batches of rows. With `exact_doubles`, DOUBLE keeps its 8 bytes in a bytes_list.

    That is because a float_list has 32 bits: TensorFlow has no feature for 64-bit floats.
    """

    def __init__(self, columns: TableColumns, exact_doubles: bool = False) -> None:
        self._fields = [_Field(column, exact_doubles) for column in columns]

    def frames(self, rows: Rows) -> memoryview:
        """Return all frames at once, in memory of their own, unlike `pieces`."""
        # With one piece for all rows, no later piece overwrites its memory.
        return next(self.pieces(rows, sys.maxsize), memoryview(b""))

    def pieces(self, rows: Rows, most_bytes: int = _PIECE_BYTES) -> Iterator[memoryview]:
        """Yield the frames, of like rows in pieces of about `most_bytes`. The next piece may
        overwrite the memory of one.
        """
        if not rows.rows:
            return
        found = {column.name: column for column in rows.columns}
        there = [field for field in self._fields if field.name in found]
        parts = [
            field.encoded(read_cells(found[field.name], rows.rows, field.sent)) for field in there
        ]
        if all(isinstance(part, _Alike) for part in parts):
            yield from _alike_pieces(parts, rows.rows, most_bytes)  # type: ignore[arg-type]
        else:
            yield _joined_frames(parts, rows.rows)


def records(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the records of a TFRecord file without checking their CRCs."""
    for head in iter(lambda: file.read(HEAD), b""):
        yield file.read(int.from_bytes(head[:8], "little"))
        file.read(TAIL)


class _Alike(NamedTuple):
    """Features of equal width in every row: `template`, with `values` [rows, n] at its end."""

    template: bytes
    values: Array


class _Bodies(NamedTuple):
    data: Array
    starts: Array
    lengths: Array


class _Varying(NamedTuple):
    """Features of some rows, or of various widths: a head for each row number in `rows` (None:
    all), and a range behind it.
    """

    rows: Array | None  # None for all
    heads: Array
    bodies: _Bodies | None


_Part = Union[_Alike, _Varying]


class _Field:
    def __init__(self, column: TableColumn, exact_doubles: bool) -> None:
        column_type = type_of(column)
        self.name = column.name
        self.sent = MEANINGS[column_type.kind].sent
        self._is_array = column_type.is_array
        self._is_exact = exact_doubles and column_type.kind is Kind.DOUBLE
        self._list = (
            _BYTES_LIST if self._is_exact else _NUMBERS.get(column_type.feature, _BYTES_LIST)
        )
        name = column.name.encode("utf-8")
        self._name = b"\x0a" + varint(len(name)) + name
        self._templates: dict[tuple[int, bool], bytes] = {}

    def encoded(self, cells: Cells) -> _Part:
        rows = None if cells.valid is None or cells.valid.all() else np.flatnonzero(cells.valid)
        if cells.cell_offsets is not None:
            return self._of_ranges(
                rows, _chosen(self._elements(cells, cells.cell_offsets), rows), self._is_exact
            )
        if cells.value_offsets is not None:
            return self._of_ranges(
                rows, _chosen(_ranges(cells.values, cells.value_offsets), rows), True
            )
        return self._of_table(
            rows, self._numbers(cells.values if rows is None else cells.values[rows])
        )

    def _elements(self, cells: Cells, cell_offsets: Array) -> _Bodies:
        """Bytes of each cell's list in an ARRAY column."""
        if cells.value_offsets is not None:
            values = _ranges(cells.values, cells.value_offsets)
            heads = _by_length(
                lambda lengths: _side_by_side([b"\x0a", padded(lengths, width_of(lengths))]),
                values.lengths,
            )
            ends = packed_offsets(values.lengths + heads.itemsize)
            data = np.empty(ends[-1] + SPILL, np.uint8)
            _put(_Varying(None, heads, values), data, ends[:-1])
            return _ranges(data, ends[cell_offsets])
        numbers = self._numbers(cells.values)
        return _ranges(numbers.reshape(-1), cell_offsets.astype(np.int64) * numbers.shape[1])

    def _numbers(self, values: Array) -> Array:
        """Bytes of each number inside a packed list, shape [values, width]."""
        if self._list == _INT64_LIST:
            unsigned = values.astype(np.int64).view(np.uint64)
            return padded(unsigned, width_of(unsigned))
        # Values beyond float32 become infinity, as in any conversion; a signaling NaN raises
        # `invalid`.
        with np.errstate(over="ignore", invalid="ignore"):
            plain = np.ascontiguousarray(values, "<f8" if self._is_exact else "<f4")
        return plain.view(np.uint8).reshape(len(plain), plain.itemsize)

    def _of_table(self, rows: Array | None, values: Array) -> _Part:
        template = self._template(values.shape[1], True)
        if rows is None:
            return _Alike(template, values)
        return _Varying(rows, items(_side_by_side([template, values])), None)

    def _of_ranges(self, rows: Array | None, bodies: _Bodies, is_value: bool) -> _Part:
        """Features whose only value, packed list or whole list is a range of bytes."""
        tagged = is_value or self._list != _BYTES_LIST
        width = int(bodies.lengths[0]) if len(bodies.lengths) else 0
        # Texts of one length, such as hashes or fixed codes, are a table as numbers are.
        if rows is None and width and (bodies.lengths == width).all():
            values = windows(bodies.data, width)[bodies.starts]
            return _Alike(self._template(width, tagged), values.view(np.uint8).reshape(-1, width))
        return _Varying(
            rows, _by_length(lambda lengths: self._heads(lengths, tagged), bodies.lengths), bodies
        )

    def _template(self, width: int, tagged: bool) -> bytes:
        """Result of `_heads` for one length, cached: most batches need the same one."""
        if (width, tagged) not in self._templates:
            if len(self._templates) > _MOST_TEMPLATES:
                self._templates.clear()
            self._templates[width, tagged] = self._heads(np.array([width]), tagged)[0].tobytes()
        return self._templates[width, tagged]

    def _heads(self, lengths: Array, tagged: bool) -> Array:
        """All bytes in front of bodies of these lengths, at one width. `tagged` bodies have a tag
        and a length of their own.
        """
        longest = int(lengths.max()) if len(lengths) else 0
        tag = [b"\x0a", padded(lengths, width_of(lengths))] if tagged else []
        inner = lengths + sum(_size(part) for part in tag)
        # The 40 bytes are more than all tags and lengths around a body take, so one width fits the
        # three outer lengths.
        outer = width_of(np.array([longest + len(self._name) + 40]))
        feature = inner + 1 + outer
        entry = feature + len(self._name) + 1 + outer
        of_list = [bytes([self._list << 3 | 2]), padded(inner, outer)]
        return _side_by_side(
            [
                b"\x0a",
                padded(entry, outer),
                self._name + b"\x12",
                padded(feature, outer),
                *of_list,
                *tag,
            ]
        )


# Frames.


def _alike_pieces(parts: Sequence[_Alike], rows: int, most_bytes: int) -> Iterator[memoryview]:
    """Yield frames of rows whose Examples differ only in the values at fixed places.

    A CRC is affine, so the CRC of all constant bytes is computed once, and each value adds its own
    terms: no record is read again for its checksum.
    """
    body = sum(len(part.template) + part.values.shape[1] for part in parts)
    common = b"\x0a" + varint(body)
    # Positions of the values in a record.
    places = []
    for part in parts:
        common += part.template
        places.append(len(common))
        common += bytes(part.values.shape[1])
    length = len(common)
    head, crc_of_common = _constants(common)
    width, is_wide = HEAD + length + TAIL, length >= _WIDE
    crc = np.full(rows, crc_of_common, np.uint32)
    if not is_wide:
        for part, place in zip(parts, places):
            add_to_crc(crc, part.values, place, length)
    # Small pieces in the same memory stay in the processor's cache, and keep their constant bytes.
    most = rows if is_wide else max(1, most_bytes // width)
    table = np.empty((min(rows, most), width), np.uint8)
    table[:] = np.frombuffer(head + common + bytes(TAIL), np.uint8)
    for start in range(0, rows, most):
        frames = table[: rows - start]
        for part, place in zip(parts, places):
            _column(frames, HEAD + place, part.values.shape[1])[:] = items(
                part.values[start : start + most]
            )
        if is_wide:
            # `crc_of_each` reads in front of each record: the former frame, or here BLOCK further
            # bytes.
            data = np.concatenate([np.empty(BLOCK, np.uint8), frames.reshape(-1)])
            crc = crc_of_each(data, BLOCK + HEAD + np.arange(rows) * width, np.full(rows, length))
        _column(frames, HEAD + length, TAIL)[:] = (
            masked(crc[start : start + most]).astype("<u4").view(f"V{TAIL}")
        )
        yield frames.reshape(-1).data


@functools.lru_cache(maxsize=8)
def _constants(record: bytes) -> tuple[bytes, int]:
    """Head of a frame with this record, and the CRC-32C of the record."""
    return _heads_of_frames(np.array([len(record)])).tobytes(), int(
        crc_of_each(*_padded_record(record))[0]
    )


def _column(table: Array, place: int, width: int) -> Array:
    """The `width` bytes from `place` on of each row of a table of bytes, as items, shape [n]."""
    return np.ndarray((len(table),), f"V{width}", table, place, (table.shape[1],))


def _joined_frames(parts: Sequence[_Part], rows: int) -> memoryview:
    """Return frames of rows of various lengths: the sizes first, then each column at its places."""
    bodies = np.zeros(rows, np.int64)
    for part in parts:
        _add(bodies, part)
    starts_of_records = _by_length(
        lambda lengths: _side_by_side([b"\x0a", padded(lengths, width_of(lengths))]), bodies
    )
    lengths = bodies + starts_of_records.itemsize
    ends = BLOCK + packed_offsets(HEAD + lengths + TAIL)
    # BLOCK bytes in front and SPILL bytes behind belong to no frame: `crc_of_each` reads in front
    # of the first record, and `copy_ranges` writes behind the last one.
    data = np.empty(ends[-1] + SPILL, np.uint8)
    begins = ends[:-1] + HEAD  # starts of the records
    places = begins + starts_of_records.itemsize
    for part in parts:
        if isinstance(part, _Alike):
            whole = items(_side_by_side([part.template, part.values]))
            windows(data, whole.itemsize)[places] = whole
        else:
            _put(part, data, places if part.rows is None else places[part.rows])
        _add(places, part)
    # Written last: `copy_ranges` may have spilled over the end of a frame and the start of the next
    # one.
    windows(data, starts_of_records.itemsize)[begins] = starts_of_records
    windows(data, HEAD)[ends[:-1]] = _by_length(_heads_of_frames, lengths)
    crc = masked(crc_of_each(data, begins, lengths)).astype("<u4")
    windows(data, TAIL)[ends[1:] - TAIL] = crc.view(f"V{TAIL}")
    return data[BLOCK : ends[-1]].data


def _heads_of_frames(lengths: Array) -> Array:
    """HEAD bytes in front of records of these lengths, shape [records, HEAD]."""
    result = np.empty((len(lengths), HEAD), np.uint8)
    result[:, :8] = lengths.astype("<u8").view(np.uint8).reshape(-1, 8)
    # Records in memory are shorter than 2**32, so the upper four bytes are zero.
    crc = np.full(len(lengths), crc_of_each(*_padded_record(bytes(8)))[0], np.uint32)
    add_to_crc(crc, result[:, :4], 0, 8)
    result[:, 8:] = masked(crc).astype("<u4").view(np.uint8).reshape(-1, 4)
    return result


def _padded_record(record: bytes) -> tuple[Array, Array, Array]:
    return (
        np.frombuffer(bytes(BLOCK) + record, np.uint8),
        np.array([BLOCK]),
        np.array([len(record)]),
    )


def _add(sizes: Array, part: _Part) -> None:
    if isinstance(part, _Alike):
        sizes += len(part.template) + part.values.shape[1]
        return
    widths = (
        part.heads.itemsize if part.bodies is None else part.heads.itemsize + part.bodies.lengths
    )
    if part.rows is None:
        sizes += widths
    else:
        sizes[part.rows] += widths


def _put(part: _Varying, data: Array, places: Array) -> None:
    width = part.heads.itemsize
    if part.bodies is not None:
        copy_ranges(part.bodies.data, part.bodies.starts, part.bodies.lengths, data, places + width)
    windows(data, width)[places] = part.heads  # last, over the spill of `copy_ranges`


# Ranges and tables of bytes.


def _ranges(data: Array, offsets: Array) -> _Bodies:
    return _Bodies(data, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))


def _chosen(bodies: _Bodies, rows: Array | None) -> _Bodies:
    return (
        bodies if rows is None else _Bodies(bodies.data, bodies.starts[rows], bodies.lengths[rows])
    )


def _by_length(make: Callable[[Array], Array], lengths: Array) -> Array:
    """Items made from lengths; each distinct length is made once where that is less work."""
    longest = int(lengths.max()) if len(lengths) else 0
    return (
        items(make(np.arange(longest + 1)))[lengths]
        if longest < len(lengths)
        else items(make(lengths))
    )


def _side_by_side(parts: Sequence[bytes | Array]) -> Array:
    """Concatenate constants and tables horizontally; at least one part is a table."""
    result = np.empty(
        (max(len(part) for part in parts if not isinstance(part, bytes)), sum(map(_size, parts))),
        np.uint8,
    )
    place = 0
    for part in parts:
        result[:, place : place + _size(part)] = (
            np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        )
        place += _size(part)
    return result


def _size(part: bytes | Array) -> int:
    return len(part) if isinstance(part, bytes) else int(part.shape[1])
