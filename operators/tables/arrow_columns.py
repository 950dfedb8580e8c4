"""SQL types and cells of Arrow tables from any library. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyarrow import types

from akdl.near_names import listed
from akdl.wire.column_type import FLOATS, INTEGERS, Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.formats.file_columns import flink_type
from bridge.schema import Schema, quoted

_NUMBERS = (types.is_integer, types.is_floating)
_BINARIES = (
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
)
# Arrow casts more types than these, for example texts to numbers, which would change cells
# silently.
_ACCEPTED: dict[Kind, tuple[Callable[[pa.DataType], bool], ...]] = {
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
# The keys are texts and not types, because pyarrow has types of views only since version 16, and
# Flink 1.20 brings version 11.
_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_MOST_PARTS = 64


def schema_of_types(where: str, found: list[tuple[str, pa.DataType]]) -> Schema:
    """Schema that fits columns; unsigned numbers get the next larger type, categories that of their
    labels.
    """
    if not found:
        raise ConfigurationError(f"{where}: the table has no columns")
    check_repeated(where, [name for name, _ in found])
    return Schema.parse(
        ", ".join(f"{quoted(name)} {_column_sql(where, name, arrow)}" for name, arrow in found)
    )


def check_repeated(where: str, names: list[str]) -> None:
    """Refuse names that occur twice or are empty."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if any(not name.strip() for name in names):
        raise ConfigurationError(
            f"{where}: a column has an empty name; the columns are {listed(names)}: rename it"
        )
    if repeated:
        raise ConfigurationError(
            f"{where}: there are several columns named {', '.join(repeated)}: rename them"
        )


def tables_of(reader: pa.RecordBatchReader, names: list[str], rows: int) -> Iterator[pa.Table]:
    """Yield the columns of a stream as tables, so that small batches are joined to so many rows; at
    least one table.
    """
    parts = []
    waiting = 0
    for batch in reader:
        parts.append(batch)
        waiting += batch.num_rows
        if waiting >= rows or len(parts) == _MOST_PARTS:
            yield pa.Table.from_batches(parts).select(names)
            parts = []
            waiting = 0
    # The rest may be empty. The schema is given because no batches have no schema, and callers get
    # a table with the right columns even from an empty stream.
    yield pa.Table.from_batches(parts, reader.schema).select(names)


def accepted(kind: Kind, cells: pa.Array) -> pa.Array:
    """The same cells in a form that Arrow can cast exactly; TypeError where cells of their type do
    not belong to a kind.
    """
    cells = _plain(cells)
    if not any(accepts(cells.type) for accepts in _ACCEPTED[kind]):
        raise TypeError(cells.type)
    return cells


def _plain(cells: pa.Array) -> pa.Array:
    """The same cells without a dictionary and without views, which pyarrow could not cast."""
    # The labels of a dictionary may be views, so they are made plain before the dictionary is
    # decoded.
    if types.is_dictionary(cells.type):
        return pa.DictionaryArray.from_arrays(
            cells.indices, _plain(cells.dictionary)
        ).dictionary_decode()
    if str(cells.type) in _VIEWS:
        return pa.array(cells.to_pylist(), _VIEWS[str(cells.type)])
    return cells


def _column_sql(where: str, name: str, arrow: pa.DataType) -> str:
    """SQL type of a column of Arrow; ConfigurationError with a remedy if SQL has no such type."""
    sql = (flink_type(arrow) or ("",))[0]
    try:
        return parse_type(sql).sql
    # SQL has no such type: it may be a MAP, a ROW, an ARRAY of ARRAYs, or unknown to Flink.
    except ValueError:
        if types.is_null(arrow):
            raise ConfigurationError(
                f"{where}: column {name!r} has no rows or only null cells, and so no type: set"
                " schemaStr"
            ) from None
        deep = types.is_nested(getattr(arrow, "value_type", arrow))
        remedy = (
            "make columns of its values, or one list per row"
            if deep
            else "convert it to a type of SQL, or set schemaStr"
        )
        raise ConfigurationError(
            f"{where}: column {name!r} has cells of the type {arrow}: {remedy}"
        ) from None
