"""Columns and their types: of the table that feeds a script, and of `outputSchemaStr`. Pure.

A schema comes from a text of the user or from a table of PyFlink, and all codecs and formats use
it. Types that no script could get are refused here, when the job is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from akdl.wire import TableColumn
from akdl.wire.column_type import MEANINGS, ColumnType, Kind, parse_type
from bridge.exceptions import SchemaError

if TYPE_CHECKING:
    from pyflink.table.types import DataType

_WATERMARK = re.compile(r",\s*WATERMARK\s+FOR\s+(`[^`]+`|\w+)\s+AS\s+", re.IGNORECASE)
# A comma in the expression of a watermark, but outside of these, means that more columns follow.
_ENCLOSED = re.compile(r"'[^']*'|\(.*\)|`[^`]*`", re.DOTALL)


@dataclass(frozen=True)
class Column:
    name: str
    type: ColumnType


@dataclass(frozen=True)
class Schema:
    """Columns in order, at least one, with different names."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        seen = set()
        for column in self.columns:
            if column.name in seen:
                raise SchemaError(f"the column {column.name!r} occurs twice")
            seen.add(column.name)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def all_nullable(self) -> Schema:
        """The same columns without NOT NULL, which a file does not guarantee."""
        types = (replace(column.type, nullable=True, element_nullable=True) for column in self)
        return Schema(tuple(Column(name, type_) for name, type_ in zip(self.names, types)))

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Parse "name type, name type, ..." with the types of `parse_type`; names with odd
        characters are in back-quotes.
        """
        if not text.strip():
            raise SchemaError('the schema is empty; expected "name type, name type, ..."')
        parts = _SEPARATOR.sub(lambda found: found[1] or "\0", text).split("\0")
        return cls(tuple(_parse_column(part, place, text) for place, part in enumerate(parts, 1)))

    @classmethod
    def of_table(cls, names: Sequence[str], types: Sequence[object]) -> Schema:
        """Make the schema of a table from PyFlink's types; SchemaError for unsupported ones."""
        return cls(
            tuple(Column(name, _of_data_type(name, type_)) for name, type_ in zip(names, types))
        )


def split_watermark(text: str) -> tuple[str, tuple[str, str] | None]:
    """Split "name type, ..., WATERMARK FOR name AS expression" into the schema and (name,
    expression), if there is one.
    """
    schema, *rest = _WATERMARK.split(text, maxsplit=1)
    if not rest:
        return text, None
    name = rest[0].replace("`", "")
    expression = rest[1].strip()
    column = next((column for column in Schema.parse(schema) if column.name == name), None)
    if "," in _ENCLOSED.sub("", expression):
        raise SchemaError(
            f"WATERMARK FOR {name} has to be the last entry of the schema, behind all columns; got"
            f" {text!r}"
        )
    # Flink's event time has at most 3 digits behind the second, and a TIMESTAMP without a number
    # has 6.
    kinds = (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
    if (
        column is None
        or column.type.is_array
        or column.type.kind not in kinds
        or max(column.type.arguments, default=6) > 3
    ):
        raise SchemaError(
            f"WATERMARK FOR {name}: expected a column of type TIMESTAMP(3) or TIMESTAMP_LTZ(3)"
        )
    return schema, (name, expression)


def quoted(name: str) -> str:
    """Name of a column in SQL, where any character may stand between back-quotes."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
# The first alternative takes names of fields in back-quotes, because a name may contain the words
# of the others and stays unchanged.
_NULL_OR_TIME = re.compile(r"(`(?:[^`]|``)*`)| NOT NULL| \*(?:ROWTIME|PROCTIME)\*")


def schema_text(names: Sequence[str], types: Sequence[str]) -> str:
    """Columns as "name type, name type" for `Schema.parse`: without NOT NULL and marks of event
    time.
    """
    plain = (_NULL_OR_TIME.sub(lambda found: found[1] or "", type_) for type_ in types)
    shown = (name if _PLAIN_NAME.fullmatch(name) else quoted(name) for name in names)
    return ", ".join(map(" ".join, zip(shown, plain)))


# A comma between columns, or a group in back-quotes or brackets, which may contain commas. Types
# nest only as ARRAY<DECIMAL(3, 2)>, so brackets need not be counted.
_SEPARATOR = re.compile(r"(`(?:[^`]|``)*`|\([^)]*\)|<[^>]*>)|,")
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`]+))\s+(.+?)\s*", re.DOTALL)


def table_columns(schema: Schema) -> list[TableColumn]:
    return [TableColumn(name=column.name, type=column.type.sql) for column in schema]


def _parse_column(part: str, place: int, text: str) -> Column:
    if _WATERMARK.match(f",{part}"):
        raise SchemaError(
            "WATERMARK FOR has to be the last entry of the schema, and belongs to a source or to"
            f" the output of a stream script. Move it there, or leave it out of {text!r}"
        )
    found = _COLUMN.fullmatch(part)
    if found is None:
        raise SchemaError(
            f'expected "name type" for column {place}, got {part.strip()!r} in the schema {text!r}'
        )
    name = (found.group(1) or "").replace("``", "`") or found.group(2)
    column_type = _type_of(found.group(3), name)
    # Tables of Flink may have a length of 0, since the literal '' is a CHAR(0).
    if MEANINGS[column_type.kind].with_length and 0 in column_type.arguments:
        raise SchemaError(
            f"the column {name!r} has the type {found.group(3)!r}; expected a length of at least 1"
        )
    return Column(name, column_type)


def _type_of(text: str, name: str) -> ColumnType:
    try:
        column_type = parse_type(text)
    except ValueError as error:
        raise SchemaError(f"the column {name!r} has {error}") from None
    if column_type.is_array and column_type.kind is Kind.TIMESTAMP_LTZ:
        # PyFlink: "not supported to be used as the element type of ArrayType"
        raise SchemaError(
            f"the column {name!r} is an ARRAY of TIMESTAMP_LTZ, which PyFlink does not support."
            " CAST it to ARRAY<TIMESTAMP(6)>, whose times are in the session's time zone"
        )
    return column_type


# PyFlink's types are known by their names: the classes are called BooleanType and so on, and have
# their arguments as attributes. So PyFlink need not be imported for them.
_ARGUMENTS = ("length", "precision", "scale")
# PyFlink has STRING and BYTES as VARCHAR and VARBINARY of this length.
_UNBOUNDED = [2**31 - 1]


def _of_data_type(name: str, data_type: DataType) -> ColumnType:
    if type(data_type).__name__ != "ArrayType":
        return _type_of(_sql(name, data_type), name)
    if type(data_type.element_type).__name__ == "ArrayType":
        raise SchemaError(
            f"the column {name!r} is an ARRAY of ARRAYs, which a feature cannot hold. Flatten it"
            " in SQL"
        )
    return _type_of(f"ARRAY<{_sql(name, data_type.element_type)}>{_not_null(data_type)}", name)


def _sql(name: str, data_type: DataType) -> str:
    sql_name = (
        type(data_type)
        .__name__[: -len("Type")]
        .upper()
        .replace("LOCALZONEDTIMESTAMP", "TIMESTAMP_LTZ")
    )
    try:
        kind = parse_type(sql_name).kind
    except ValueError:
        raise SchemaError(
            f"the column {name!r} has the type {data_type}, which scripts do not support. Leave it"
            " out with selectedCols, or CAST it in SQL to "
            + ", ".join(kind.value for kind in Kind)
            + " or an ARRAY of them"
        ) from None
    arguments = [getattr(data_type, name) for name in _ARGUMENTS if hasattr(data_type, name)]
    if arguments == _UNBOUNDED:
        return kind.value + _not_null(data_type)
    if not arguments:
        return sql_name + _not_null(data_type)
    return f"{sql_name}({', '.join(map(str, arguments))}){_not_null(data_type)}"


def _not_null(data_type: DataType) -> str:
    # PyFlink's method `nullable` makes a nullable copy of a type, and there is none that asks.
    return "" if data_type._nullable else " NOT NULL"
