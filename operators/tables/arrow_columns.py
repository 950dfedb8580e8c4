"""SQL types and cells of Arrow tables from any library. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyarrow import types

from akdl.wire.cells import packed_bits
from akdl.wire.column_type import FLOATS, INTEGERS, Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema, quoted

_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT",  # SQL has no unsigned types, so the next larger one
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "BIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BYTES",
    pa.large_binary(): "BYTES",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
}
_NUMBERS = (types.is_integer, types.is_floating)
_BINARIES = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
_ACCEPTED: dict[Kind, tuple[Callable[[pa.DataType], bool], ...]] = {  # types of Arrow, which casts more than these
    Kind.BOOLEAN: (types.is_boolean, *_NUMBERS),
    **dict.fromkeys(INTEGERS | FLOATS, _NUMBERS),
    Kind.STRING: _BINARIES,
    Kind.BYTES: _BINARIES,
    Kind.DECIMAL: (types.is_decimal, types.is_integer),
    Kind.DATE: (types.is_date, lambda arrow: types.is_timestamp(arrow) and arrow.tz is None),
    Kind.TIME: (types.is_time,),
    Kind.TIMESTAMP: (lambda arrow: types.is_timestamp(arrow) and arrow.tz is None,),
    Kind.TIMESTAMP_LTZ: (types.is_timestamp,),
}
_VIEWS = {"string_view": pa.string(), "binary_view": pa.binary()}  # by name, as pyarrow has them since 16
_MOST_PARTS = 64
_IN_VIEW = 12  # bytes of a value that its view holds itself


def schema_of_types(where: str, found: list[tuple[str, pa.DataType]]) -> Schema:
    """Schema that fits columns; unsigned numbers get the next larger type, categories that of their labels."""
    if not found:
        raise ConfigurationError(f"{where}: the table has no columns")
    check_repeated(where, [name for name, _ in found])
    return Schema.parse(", ".join(f"{quoted(name)} {_column_sql(where, name, arrow)}" for name, arrow in found))


def check_repeated(where: str, names: list[str]) -> None:
    """Refuse names that occur twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigurationError(f"{where}: there are several columns named {', '.join(repeated)}: rename them")


def tables_of(reader: pa.RecordBatchReader, names: list[str], rows: int) -> Iterator[pa.Table]:
    """Yield the columns of a stream as tables, so that small batches are joined to so many rows; at least one table."""
    parts: list[pa.RecordBatch] = []
    waiting = 0
    for batch in reader:
        parts.append(batch)
        waiting += batch.num_rows
        if waiting >= rows or len(parts) == _MOST_PARTS:
            yield pa.Table.from_batches(parts).select(names)
            parts, waiting = [], 0
    yield pa.Table.from_batches(parts, reader.schema).select(names)


def accepted(kind: Kind, cells: pa.Array) -> pa.Array:
    """The same cells in a form that Arrow can cast exactly; TypeError where cells of their type do not belong to a kind."""
    cells = _plain(cells)
    if not any(accepts(cells.type) for accepts in _ACCEPTED[kind]):
        raise TypeError(cells.type)
    return cells


def _plain(cells: pa.Array) -> pa.Array:
    """The same cells without a dictionary and without views, which pyarrow could not cast."""
    if types.is_dictionary(cells.type):
        return pa.DictionaryArray.from_arrays(cells.indices, _plain(cells.dictionary)).dictionary_decode()
    return _without_views(cells) if str(cells.type) in _VIEWS else cells


def _column_sql(where: str, name: str, arrow: pa.DataType) -> str:
    sql = _sql(arrow)
    if sql is not None:
        return sql
    if types.is_null(arrow):
        raise ConfigurationError(f"{where}: column {name!r} has only null cells: set schemaStr")
    deep = types.is_nested(getattr(arrow, "value_type", arrow))
    remedy = "make columns of its values, or one list per row" if deep else "convert it to a type of SQL, or set schemaStr"
    raise ConfigurationError(f"{where}: column {name!r} has cells of the type {arrow}: {remedy}")


def _sql(arrow: pa.DataType) -> str | None:
    if types.is_dictionary(arrow):
        return _sql(arrow.value_type)
    arrow = _VIEWS.get(str(arrow), arrow)
    if arrow in _TYPES:
        return _TYPES[arrow]
    if types.is_fixed_size_binary(arrow):
        return "BYTES"
    if types.is_timestamp(arrow):
        return "TIMESTAMP(6)" if arrow.tz is None else "TIMESTAMP_LTZ(6)"
    if types.is_time(arrow):
        return "TIME(3)"
    if types.is_decimal(arrow):
        digits, scale = arrow.precision - min(arrow.scale, 0), max(arrow.scale, 0)
        return f"DECIMAL({digits}, {scale})" if scale <= digits <= 38 else None
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        element = _sql(arrow.value_type)
        return None if element is None or element.startswith(("ARRAY", "TIMESTAMP_LTZ")) else f"ARRAY<{element}>"
    return None


def _without_views(array: pa.Array) -> pa.Array:
    """Strings or bytes in one buffer. A view has the length of a value, and its bytes if it is short, else their place."""
    _, buffer, *data = array.buffers()
    views = np.frombuffer(buffer, "<i4").reshape(-1, 4)[array.offset : array.offset + len(array)]
    valid = np.asarray(array.is_valid())
    lengths = np.where(valid, views[:, 0], 0).astype(np.int64)
    ends = np.cumsum(lengths)
    content = np.empty(int(ends[-1]), "u1")
    numbers = np.where(lengths <= _IN_VIEW, -1, views[:, 2])
    for number in np.unique(numbers[lengths > 0]):
        rows = np.flatnonzero((numbers == number) & (lengths > 0))
        starts = 16 * (array.offset + rows) + 4 if number < 0 else views[rows, 3].astype(np.int64)
        source = np.frombuffer(buffer if number < 0 else data[number], "u1")
        sizes = lengths[rows]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        content[np.repeat(ends[rows] - sizes, sizes) + within] = source[np.repeat(starts, sizes) + within]
    bits, offsets = pa.py_buffer(packed_bits(valid)), pa.py_buffer(np.concatenate([[0], ends]))
    plain = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), [bits, offsets, pa.py_buffer(content)])
    return plain.cast(pa.large_string()) if str(array.type) == "string_view" else plain
