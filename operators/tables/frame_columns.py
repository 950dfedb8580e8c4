"""Columns of a pandas DataFrame: SQL types and cells. Pure."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from akdl.wire.column_type import Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema, quoted

logger = logging.getLogger(__name__)

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
}


def schema_of_frame(where: str, frame: pd.DataFrame) -> Schema:
    """Schema that fits the cells of a DataFrame; unsigned numbers get the next larger type, categories that of their labels."""
    if not len(frame.columns):
        raise ConfigurationError(f"{where}: the DataFrame has no columns")
    _check_repeated(where, frame)
    names = map(str, frame.columns)
    types = [_type_of(f"{where}: column {str(name)!r}", cells) for name, cells in frame.items()]
    return Schema.parse(", ".join(f"{quoted(name)} {sql}" for name, sql in zip(names, types)))


def columns_of_frame(where: str, schema: Schema, frame: pd.DataFrame) -> list[Any]:
    """Cells of each column of a schema, matched by name, or by position where pandas has numbered the columns."""
    _check_repeated(where, frame)
    labels: list[Any] = list(frame.columns)
    if labels == list(range(len(labels))):
        if len(frame.columns) != len(schema.columns):
            raise ConfigurationError(f"{where}: expected {len(schema.columns)} columns, got {len(frame.columns)}")
        frame = frame.set_axis(schema.names, axis=1)
    else:
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        _check_names(where, schema.names, list(frame.columns))
    return [_cells(c.type.kind, frame[c.name]) for c in schema]


def warn_of_losses(where: str, frame: pd.DataFrame) -> None:
    if isinstance(frame.columns, pd.MultiIndex):
        raise ConfigurationError(
            f"{where}: column names of the DataFrame have {frame.columns.nlevels} levels: join them with "
            "frame.columns = frame.columns.map('_'.join)"
        )
    names = [name for name in frame.index.names if name is not None]
    if names or isinstance(frame.index, pd.MultiIndex):
        logger.warning(
            "%s: the index of the DataFrame (%s) is not part of the table: frame.reset_index() converts it to a column, "
            "frame.reset_index(drop=True) removes it", where, ", ".join(map(str, names)) or f"{frame.index.nlevels} levels",
        )  # fmt: skip
    if frame.attrs:
        logger.warning("%s: the attrs of the DataFrame (%s) are not part of the table", where, ", ".join(map(str, frame.attrs)))
    categories = [str(name) for name, cells in frame.items() if _loses_categories(cells)]
    if categories:
        logger.warning(
            "%s: the order and the unused labels of categories (%s) are not part of the table: cells become their labels",
            where, ", ".join(categories),
        )  # fmt: skip


def _loses_categories(cells: Any) -> bool:
    if not isinstance(cells.dtype, pd.CategoricalDtype):
        return False
    return bool(cells.cat.ordered) or cells.nunique() < len(cells.cat.categories)


def _check_repeated(where: str, frame: pd.DataFrame) -> None:
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigurationError(f"{where}: the DataFrame has several columns named {', '.join(repeated)}: rename them")


def _check_names(where: str, wanted: list[str], given: list[str]) -> None:
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        problems = [f"lacks {', '.join(missing)}"] if missing else []
        problems += [f"has {', '.join(unknown)}, which the schema lacks"] if unknown else []
        raise ConfigurationError(
            f"{where}: columns are matched by name; the DataFrame {' and '.join(problems)}: rename or select columns, "
            f"such as frame[[{', '.join(map(repr, wanted[:2]))}{', ...' if len(wanted) > 2 else ''}]], or change schemaStr"
        )


def _type_of(where: str, cells: Any) -> str:
    if isinstance(cells.dtype, pd.CategoricalDtype):
        cells = cells.cat.categories.to_series()
    try:
        arrow = pa.Array.from_pandas(cells).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{where} has cells without a common type ({error}): convert it, or set schemaStr") from None
    sql = _sql(arrow)
    if sql is None:
        reason = "only null cells" if pa.types.is_null(arrow) else f"cells of the type {arrow}"
        raise ConfigurationError(f"{where} has {reason}: set schemaStr, or convert the column with .astype")
    return sql


def _sql(arrow: pa.DataType) -> str | None:
    if arrow in _TYPES:
        return _TYPES[arrow]
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMP(6)" if arrow.tz is None else "TIMESTAMP_LTZ(6)"
    if pa.types.is_time(arrow):
        return "TIME(3)"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {max(arrow.scale, 0)})" if 1 <= arrow.precision <= 38 else None
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        element = _sql(arrow.value_type)
        return None if element is None or element.startswith("ARRAY") else f"ARRAY<{element}>"
    return None


def _cells(kind: Kind, cells: Any) -> Any:
    """Column as a numpy array, or as a list if an array cannot represent its nulls."""
    if isinstance(cells.dtype, pd.DatetimeTZDtype) and kind is Kind.TIMESTAMP_LTZ:
        return cells.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    missing = cells.isna()
    if isinstance(cells.dtype, np.dtype) and (cells.dtype.kind in "biuM" or (cells.dtype.kind == "f" and not missing.any())):
        return cells.to_numpy()
    return [None if is_missing else cell for cell, is_missing in zip(cells.astype(object), missing)]
