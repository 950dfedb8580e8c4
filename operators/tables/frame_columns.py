"""Columns of a pandas DataFrame: SQL types and cells. Pure."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.arrow_columns import check_repeated, schema_of_types

if TYPE_CHECKING:
    import pandas as pd

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
