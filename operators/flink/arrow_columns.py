"""SQL types and cells of Arrow tables from any library, and of pandas DataFrames. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from akdl.near_names import listed
from akdl.wire.column_type import FLOATS, INTEGERS, Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.formats.file_columns import flink_type
from bridge.schema import Schema, quoted

if TYPE_CHECKING:
    import pandas as pd

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


logger = logging.getLogger(__name__)

# Arrow makes these types of an object column only if all cells are texts, bytes or booleans. For
# other types it may have converted cells, so such columns stay lists.
_CERTAIN = (pa.string(), pa.binary(), pa.bool_())


def schema_of_frame(where: str, frame: pd.DataFrame) -> Schema:
    """Schema that fits the cells of a DataFrame; unsigned numbers get the next larger type,
    categories that of their labels.
    """
    return schema_of_types(
        where,
        [
            (str(name), _arrow_type(f"{where}: column {str(name)!r}", c))
            for name, c in frame.items()
        ],
    )


def columns_of_frame(where: str, schema: Schema, frame: pd.DataFrame) -> list[Any]:
    """Cells of each column of a schema, matched by name, or by position where pandas has numbered
    the columns.
    """
    names = [str(name) for name in frame.columns]
    check_repeated(where, names)
    labels: list[Any] = list(frame.columns)
    # pandas numbers the columns of a DataFrame that is made from rows alone, so such names say
    # nothing and the order decides.
    if labels == list(range(len(labels))):
        if len(labels) != len(schema.columns):
            raise ConfigurationError(
                f"{where}: expected {len(schema.columns)} columns, got {len(labels)}"
            )
        names = schema.names
    else:
        check_names(where, schema.names, names)
    frame = frame.set_axis(names, axis=1)
    return [_cells(frame[column.name]) for column in schema]


def warn_of_losses(where: str, frame: pd.DataFrame) -> None:
    """Warn of parts of a DataFrame that a table cannot hold.

    These are the index, attrs, and the order of categories.
    """
    import pandas as pd

    if isinstance(frame.columns, pd.MultiIndex):
        raise ConfigurationError(
            f"{where}: column names of the DataFrame have {frame.columns.nlevels} levels: join them"
            " with frame.columns = frame.columns.map('_'.join)"
        )
    names = [name for name in frame.index.names if name is not None]
    if names or isinstance(frame.index, pd.MultiIndex):
        logger.warning(
            "%s: the index of the DataFrame (%s) is not part of the table: frame.reset_index()"
            " converts it to a column, frame.reset_index(drop=True) removes it",
            where,
            ", ".join(map(str, names)) or f"{frame.index.nlevels} levels",
        )
    if frame.attrs:
        logger.warning(
            "%s: the attrs of the DataFrame (%s) are not part of the table",
            where,
            ", ".join(map(str, frame.attrs)),
        )
    categories = [
        str(name)
        for name, cells in frame.items()
        # Categories that have no order and are all in use lose nothing, so they cause no warning.
        if isinstance(cells.dtype, pd.CategoricalDtype)
        and (cells.cat.ordered or cells.nunique() < len(cells.cat.categories))
    ]
    if categories:
        logger.warning(
            "%s: the order and the unused labels of categories (%s) are not part of the table:"
            " cells become their labels",
            where,
            ", ".join(categories),
        )


def check_names(where: str, wanted: list[str], given: list[str]) -> None:
    """Refuse columns that the schema lacks, and lacking ones."""
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        problems = [f"lacks {', '.join(missing)}"] if missing else []
        problems += [f"has {', '.join(unknown)}, which the schema lacks"] if unknown else []
        raise ConfigurationError(
            f"{where}: columns are matched by name; the data {' and '.join(problems)}: rename or"
            " select columns, such as"
            f" frame[[{', '.join(map(repr, wanted[:2]))}{', ...' if len(wanted) > 2 else ''}]], or"
            " change schemaStr"
        )


def _arrow_type(where: str, cells: pd.Series[Any]) -> pa.DataType:
    try:
        return pa.Array.from_pandas(cells).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{where} has cells without a common type ({error}): convert it, or set schemaStr"
        ) from None


def _cells(cells: pd.Series[Any]) -> pa.ChunkedArray | list[object]:
    """Column in Arrow, or as a list where Arrow might change the cells."""
    # Arrow refuses columns of mixed types. They stay lists, whose cells are converted to the
    # column's own type later.
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        array = pa.Array.from_pandas(cells)
        if cells.dtype != object or array.type in _CERTAIN:
            return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return [
        None if is_missing else cell for cell, is_missing in zip(cells.astype(object), cells.isna())
    ]
