"""Table columns to TFRecord-framed `tf.train.Example` records, by vector operations only. Pure.

The mapping, with null as an absent feature: BOOLEAN and integers -> int64_list; FLOAT and DOUBLE -> float_list (DOUBLE
narrowed to float32, or kept as 8 little-endian bytes in a bytes_list); text, bytes and DECIMAL (as text) -> bytes_list;
DATE -> days, TIME -> milliseconds of the day, TIMESTAMP -> microseconds since 1970-01-01 (TIMESTAMP_LTZ: since
1970-01-01 00:00 UTC), int64_list; ARRAY -> a list.

A batch whose cells all have one width makes records of one form, and travels packed, see `akdl.packed`. To that end integers
are written as varints of one width per column, padded where a shorter one would do; every protobuf reader takes these. Other
batches are joined from pieces, row by row, inside Arrow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import pandas as pd
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from akdl.packed import HEAD, TAIL, masked, pack
from bridge.arguments import PRIMITIVE, Argument, Arguments, Masks
from bridge.byte_columns import (
    Matrix,
    array_offsets,
    as_array,
    data_of,
    join,
    lengths_of,
    masked_out,
    offsets_of,
    padded,
    side_by_side,
    slices,
    varint,
    varint_width,
    varints,
)
from bridge.cells import binary_array, check_size, list_array, temporal
from bridge.exceptions import RowError
from bridge.schema import Column, Kind, Schema
from bridge.tfrecord import crc_of_each, heads

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3  # numbers of the fields of tf.train.Feature
_UNUSABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)  # what Arrow and numpy raise at cells


class Records(ABC):
    """Records of a batch."""

    def deal(self, workers: int, first: int) -> list[tuple[int, int, bytes]]:
        """Deal the rows round-robin.

        Args:
            workers: Number of workers.
            first: The worker that gets row 0; row r goes to worker (first + r) modulo `workers`.

        Returns:
            (worker, number of rows, their chunk for `akdl.packed.unpack`) for each worker that gets a row.
        """
        size = len(self)
        starts = range(min(workers, size))
        return [((first + start) % workers, len(range(start, size, workers)), self._chunk(start, workers)) for start in starts]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _chunk(self, start: int, step: int) -> bytes:
        """Return row `start` and each `step`-th after it."""


@dataclass(frozen=True)
class _Alike(Records):
    """Records that differ in some columns of bytes only, see `akdl.packed.pack`."""

    frame: bytes
    places: list[int]
    columns: list[Matrix]

    def __len__(self) -> int:
        return len(self.columns[0])

    def _chunk(self, start: int, step: int) -> bytes:
        return pack(self.frame, self.places, [column[start::step] for column in self.columns])


@dataclass(frozen=True)
class _Framed(Records):
    """Frames as an Arrow array of binary values."""

    frames: pa.Array

    def __len__(self) -> int:
        return len(self.frames)

    def _chunk(self, start: int, step: int) -> bytes:
        return data_of(self.frames[start::step] if step > 1 else self.frames).tobytes()


class RowEncoder:
    """Encodes batches of rows.

    Args:
        schema: The columns, in order.
        exact_doubles: DOUBLE keeps its 8 bytes in a bytes_list instead of being narrowed to float32.
        ones: Further columns that hold 1 in every row, such as a weight.
    """

    def __init__(self, schema: Schema, exact_doubles: bool = False, ones: Sequence[Column] = ()) -> None:
        self._arguments = Arguments(schema)
        self._columns = [_Field(column, exact_doubles, argument) for column, argument in zip(schema, self._arguments.columns)]
        self._ones = [_Field(column, exact_doubles, Argument(column)) for column in ones]
        self.sql_arguments = self._arguments.sql
        """SQL expressions over the table's columns, the arguments that `encode` takes, see `bridge.arguments`."""

    def encode(self, series: Sequence[Any]) -> Records:
        """Encode one batch.

        Args:
            series: What `sql_arguments` describe: columns of one length, or the one value of a column that is constant.

        Raises:
            RowError: A cell that no feature can hold.
        """
        size, columns, masks = self._arguments.read(series)
        pieces: list[_Cells] = []
        for field, column in zip(self._columns, columns):
            pieces.extend(field.encode(column, masks))
        for field in self._ones:
            pieces.extend(field.encode(pd.Series(np.ones(size, "f4")), masks))
        if all(isinstance(piece, _Constant) for piece in pieces):
            return _alike(pieces)  # type: ignore[arg-type]
        return _Framed(_joined_frames(pieces, size))


@dataclass
class _Constant:
    """Bytes that stand in every row: `template`, with `values` [rows, n] at the end of it."""

    template: bytes
    values: Matrix


@dataclass
class _Varying:
    """Bytes of each row, of different length, as an Arrow array of binary values."""

    values: pa.Array


_Cells = Union[_Constant, _Varying]


class _Field:
    """Encodes one column."""

    def __init__(self, column: Column, exact_doubles: bool, argument: Argument) -> None:
        self._name = column.name
        self._type = column.type
        self._exact = exact_doubles and column.type.kind is Kind.DOUBLE
        self._is_null = argument.null
        self._has_null_element = argument.null_element
        self._number = self._feature_number()

    def encode(self, series: pd.Series[Any], masks: Masks) -> list[_Cells]:
        self._refuse_null_elements(masks)
        try:
            return self._encode(series, masks)
        except _UNUSABLE as error:
            where, cause = self._first_unusable(series, masks) or (f"a batch of {len(series)} rows", error)
            raise RowError(f"column {self._name!r} ({self._type.sql}): {where}: {cause}") from error

    def _first_unusable(self, series: pd.Series[Any], masks: Masks) -> tuple[str, Exception] | None:
        """Find the row that makes the batch fail; one by one will do, since the job ends here."""
        for row in range(len(series)):
            try:
                self._encode(series.iloc[row : row + 1], [mask[row : row + 1] for mask in masks])
            except _UNUSABLE as error:
                return f"row {row} of a batch", error
        return None

    def _encode(self, series: pd.Series[Any], masks: Masks) -> list[_Cells]:
        if self._type.is_array:
            return self._encode_array(series)
        if self._number == _BYTES_LIST and not self._exact:
            return self._bytes_feature(binary_array(series, self._type.kind))
        values, valid = self._numbers(series, masks)
        if self._exact:
            template = self._head(8, b"\x0a\x08")
        else:
            template = self._head(values.shape[1], b"\x0a" + varint(values.shape[1]))
        if valid is None:
            return [_Constant(template, values)]
        rows = side_by_side([template, values], len(values))
        return [_Varying(slices(rows.reshape(-1), offsets_of(valid * rows.shape[1])))]

    def _feature_number(self) -> int:
        kind = self._type.kind
        if self._exact or kind in {Kind.STRING, Kind.BYTES, Kind.DECIMAL}:
            return _BYTES_LIST
        return _FLOAT_LIST if kind in {Kind.FLOAT, Kind.DOUBLE} else _INT64_LIST

    def _refuse_null_elements(self, masks: Masks) -> None:
        if self._has_null_element is None:
            return
        rows = np.flatnonzero(self._has_null_element.rows(masks))
        if len(rows):
            raise RowError(
                f"column {self._name!r} ({self._type.sql}): the array in row {rows[0]} of a batch holds a null, which a list "
                "of a tf.train.Example cannot: remove or replace the nulls in SQL, for example with ARRAY_REMOVE"
            )

    def _numbers(self, series: pd.Series[Any], masks: Masks) -> tuple[Matrix, NDArray[np.bool_] | None]:
        """Return the bytes of each number there is, and which rows have one (None when all have)."""
        kind = self._type.kind
        if kind in PRIMITIVE:
            cells = series.to_numpy()
            valid = np.ones(len(cells), bool) if self._is_null is None else ~self._is_null.rows(masks)
        else:
            cells = temporal(series, kind)
            valid = series.notna().to_numpy()
        if valid.all():
            return self._bytes_of(cells), None
        return self._bytes_of(cells[valid]), valid

    def _bytes_of(self, values: NDArray[Any]) -> Matrix:
        """Return the bytes of each number inside a packed list."""
        if self._number == _INT64_LIST:
            return varints(values.astype(np.int64))
        with np.errstate(over="ignore"):  # beyond float32 is infinity, as in any conversion to float32
            plain = np.ascontiguousarray(values, "<f8" if self._exact else "<f4")
        return plain.view("u1").reshape(len(plain), plain.itemsize)

    def _bytes_feature(self, cells: pa.Array) -> list[_Cells]:
        """Return a feature with one bytes value per row; none where the cell is null."""
        lengths = lengths_of(cells)
        width = varint_width(int(lengths.max(initial=0)))
        return self._with_head(cells, lengths, b"\x0a", width)

    def _encode_array(self, series: pd.Series[Any]) -> list[_Cells]:
        cells = list_array(series, self._type.kind)
        offsets = cells.offsets.to_numpy().astype(np.int64)
        offsets, elements = offsets - offsets[0], cells.flatten()
        valid = np.asarray(cells.is_valid())
        if self._number == _BYTES_LIST and not self._exact:
            blobs, ends = _prefixed(elements)
            return self._with_head(masked_out(slices(blobs, ends[offsets]), valid), None, b"", 0)
        if self._type.kind in PRIMITIVE:
            numbers = elements.to_numpy(zero_copy_only=False)
        else:
            numbers = temporal(elements.to_pandas(date_as_object=True), self._type.kind)
        rows = self._bytes_of(numbers)
        check_size(rows.size)
        values = masked_out(slices(rows.reshape(-1), offsets * rows.shape[1]), valid)
        if self._exact:
            return self._bytes_feature(values)
        lengths = lengths_of(values)
        return self._with_head(values, lengths, b"\x0a", varint_width(int(lengths.max(initial=0))))

    def _with_head(self, cells: pa.Array, lengths: NDArray[np.int64] | None, tag: bytes, width: int) -> list[_Cells]:
        """Put before each value of the list field its tag and length, and all that makes it a feature of this name."""
        inner = lengths_of(cells) + len(tag) + width
        outer = varint_width(int(inner.max(initial=0)) + len(self._name.encode()) + 40)
        list_head = bytes([self._number << 3 | 2])
        name = self._name.encode()
        name_field = b"\x0a" + varint(len(name)) + name
        feature = inner + 1 + outer
        entry = feature + len(name_field) + 1 + outer
        parts: list[bytes | Matrix] = [
            b"\x0a", padded(entry, outer), name_field + b"\x12", padded(feature, outer), list_head, padded(inner, outer),
        ]  # fmt: skip
        if lengths is not None:
            parts += [tag, padded(lengths, width)]
        rows = side_by_side(parts, len(cells))
        valid = np.asarray(cells.is_valid())
        if not valid.all():
            rows = rows[valid]
        return [_Varying(slices(rows.reshape(-1), offsets_of(valid * rows.shape[1]))), _Varying(cells)]

    def _head(self, size: int, tag_and_length: bytes) -> bytes:
        """Return all that stands before a value of `size` bytes in a feature of this name."""
        inner = tag_and_length
        feature = bytes([self._number << 3 | 2]) + varint(len(inner) + size) + inner
        name = self._name.encode()
        entry = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature) + size) + feature
        return b"\x0a" + varint(len(entry) + size) + entry


# Frames.


def _alike(cells: Sequence[_Constant]) -> _Alike:
    body = sum(len(cell.template) + cell.values.shape[1] for cell in cells)
    prefix = b"\x0a" + varint(body)
    frame = bytearray(heads(np.array([len(prefix) + body]))[0].tobytes() + prefix)
    places = []
    for cell in cells:
        frame += cell.template
        places.append(len(frame))
        frame += bytes(cell.values.shape[1])
    frame += crc32c(frame[HEAD:]).to_bytes(TAIL, "little")
    return _Alike(bytes(frame), places, [cell.values for cell in cells])


def _joined_frames(cells: Sequence[_Cells], size: int) -> pa.Array:
    pieces = _merged(cells, size)
    lengths = np.zeros(size, np.int64)
    for piece in pieces:
        lengths += lengths_of(piece)
    width = varint_width(int(lengths.max(initial=0)))
    check_size(int(lengths.sum()) + size * (1 + width + HEAD + TAIL))
    prefix = as_array(side_by_side([b"\x0a", padded(lengths, width)], size))
    records = join([prefix, *pieces])
    offsets = array_offsets(records)
    crc = masked(crc_of_each(data_of(records).data, offsets - offsets[0]))
    tails = as_array(crc.astype("<u4").view("u1").reshape(-1, 4))
    return join([as_array(heads(np.diff(offsets))), records, tails])


def _merged(cells: Sequence[_Cells], size: int) -> list[pa.Array]:
    """Lay neighbouring cells of constant width together: fewer pieces, less to join."""
    pieces: list[pa.Array] = []
    run: list[bytes | Matrix] = []
    for cell in [*cells, None]:
        if isinstance(cell, _Constant):
            run += [cell.template, cell.values]
            continue
        if run:
            pieces.append(as_array(side_by_side(run, size)))
            run = []
        if cell is not None:
            pieces.append(cell.values)
    return pieces


def _prefixed(elements: pa.Array) -> tuple[Matrix, NDArray[np.int64]]:
    """Return elements of a bytes_list with tag and length before each, and where each begins."""
    values = elements.cast(pa.binary())
    lengths = lengths_of(values)
    heads_of = as_array(side_by_side([b"\x0a", padded(lengths, varint_width(int(lengths.max(initial=0))))], len(values)))
    joined = join([heads_of, values])
    offsets = array_offsets(joined)
    return data_of(joined), offsets - offsets[0]
