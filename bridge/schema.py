"""Columns and their types: of the table that feeds a script, and of `outputSchemaStr`. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from akdl.wire import TableColumn
from bridge.exceptions import SchemaError

_WATERMARK = re.compile(r",\s*WATERMARK\s+FOR\s+(`[^`]+`|\w+)\s+AS\s+", re.IGNORECASE)


class Kind(enum.Enum):
    """The types a cell, or an element of an ARRAY cell, may have; the value is Flink's name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"


@dataclass(frozen=True)
class ColumnType:
    """A type that rows can carry to a script and back.

    Args:
        kind: Type of the cell, or of each element of an ARRAY.
        arguments: What stands in brackets behind the type: (precision, scale), (precision,) or (length,); may be empty.
        name: Flink's name where it differs from the kind's: CHAR, VARCHAR, BINARY, VARBINARY.
        is_array: Whether the cell is an ARRAY of `kind`.
        nullable: Whether the cell may be null.
        element_nullable: Whether elements of an ARRAY may be null as far as Flink knows; null elements are refused.
    """

    kind: Kind
    arguments: tuple[int, ...] = ()
    name: str = ""
    is_array: bool = False
    nullable: bool = True
    element_nullable: bool = True

    @property
    def element_sql(self) -> str:
        """The type of the cell, or of an element, as Flink SQL text without NOT NULL."""
        text = self.name or self.kind.value
        return f"{text}({', '.join(map(str, self.arguments))})" if self.arguments else text

    @property
    def sql(self) -> str:
        """The type as Flink SQL text, such as "DECIMAL(10, 2)", "ARRAY<FLOAT>" or "BIGINT NOT NULL"."""
        text = self.element_sql
        if self.is_array:
            text = f"ARRAY<{text if self.element_nullable else text + ' NOT NULL'}>"
        return text if self.nullable else f"{text} NOT NULL"


@dataclass(frozen=True)
class Column:
    """A column: its name and its type."""

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
        """The column names in order."""
        return [column.name for column in self.columns]

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read "name type, name type, ...".

        Types are Flink's SQL types, and the names that Alink uses: LONG, BYTE, SHORT, STRING and so on. Names with odd
        characters stand in back-quotes.

        Raises:
            SchemaError: With the column and what was expected there.
        """
        if not text.strip():
            raise SchemaError('the schema is empty; expected "name type, name type, ..."')
        return cls(tuple(_parse_column(part, place, text) for place, part in enumerate(_split(text), 1)))

    @classmethod
    def of_table(cls, names: Sequence[str], types: Sequence[Any]) -> Schema:
        """Read the schema of a PyFlink table.

        Args:
            names: As `Table.get_resolved_schema().get_column_names()` gives them.
            types: As `Table.get_resolved_schema().get_column_data_types()` gives them.

        Raises:
            SchemaError: A type that cannot be carried to a script, with its column and what to do.
        """
        return cls(tuple(Column(name, _of_data_type(name, type_)) for name, type_ in zip(names, types)))


def split_watermark(text: str) -> tuple[str, tuple[str, str] | None]:
    """Split "name type, ..., WATERMARK FOR name AS expression" into the schema and (name, expression), None without one.

    Raises:
        SchemaError: The watermark's column is none of the schema, or is no TIMESTAMP or TIMESTAMP_LTZ.
    """
    schema, *rest = _WATERMARK.split(text, maxsplit=1)
    if not rest:
        return text, None
    name, expression = rest[0].replace("`", ""), rest[1].strip()
    column = next((column for column in Schema.parse(schema) if column.name == name), None)
    kinds = (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
    if column is None or column.type.is_array or column.type.kind not in kinds or max(column.type.arguments, default=6) > 3:
        raise SchemaError(f"WATERMARK FOR {name}: expected the name of a column of type TIMESTAMP(3) or TIMESTAMP_LTZ(3)")
    return schema, (name, expression)


def quoted(name: str) -> str:
    """Return a name as a Flink SQL identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


# What a schema text may call a type: kind, Flink's name where the kind does not say it, arguments that are implied.
_NAMES: dict[str, tuple[Kind, str, tuple[int, ...]]] = {
    **{kind.value: (kind, "", ()) for kind in Kind if kind is not Kind.DECIMAL},
    "BOOL": (Kind.BOOLEAN, "", ()),
    "BYTE": (Kind.TINYINT, "", ()),
    "SHORT": (Kind.SMALLINT, "", ()),
    "INTEGER": (Kind.INT, "", ()),
    "LONG": (Kind.BIGINT, "", ()),
    "REAL": (Kind.FLOAT, "", ()),
    "CHAR": (Kind.STRING, "CHAR", (1,)),
    "VARCHAR": (Kind.STRING, "", ()),
    "BINARY": (Kind.BYTES, "BINARY", (1,)),
    "VARBINARY": (Kind.BYTES, "", ()),
    "DECIMAL": (Kind.DECIMAL, "", (10, 0)),
    "DEC": (Kind.DECIMAL, "", (10, 0)),
    "NUMERIC": (Kind.DECIMAL, "", (10, 0)),
    "BIG_DEC": (Kind.DECIMAL, "", (38, 18)),
    "BIGDECIMAL": (Kind.DECIMAL, "", (38, 18)),
    "TIME": (Kind.TIME, "", ()),
    "TIMESTAMP": (Kind.TIMESTAMP, "", (6,)),
    "TIMESTAMP_LTZ": (Kind.TIMESTAMP_LTZ, "", (6,)),
    "SQL_TIMESTAMP": (Kind.TIMESTAMP, "", (3,)),
    "DATETIME": (Kind.TIMESTAMP, "", (3,)),
}
_WITH_LENGTH = {Kind.STRING: "VARCHAR", Kind.BYTES: "VARBINARY"}
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`]+))\s+(.+?)\s*", re.DOTALL)
_TYPE = re.compile(r"([A-Z_]+)\s*(?:\(\s*(\d+(?:\s*,\s*\d+)?)\s*\))?", re.ASCII)
_LARGEST_PRECISION = {Kind.TIMESTAMP: 6, Kind.TIMESTAMP_LTZ: 6, Kind.TIME: 3}


def table_columns(schema: Schema) -> list[TableColumn]:
    """Return the columns as processes are told of them."""
    return [TableColumn(name=column.name, type=column.type.sql) for column in schema]


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets and back-quotes."""
    parts, depth, quote, opened = [""], 0, False, 0
    for position, character in enumerate(text, 1):
        if character == "`" and not quote or character in "(<" and not quote and depth == 0:
            opened = position
        quote ^= character == "`"
        if not quote:
            depth += (character in "(<") - (character in ")>")
            if depth < 0:
                raise SchemaError(f"the bracket {character!r} at character {position} of {text!r} closes none")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    if depth or quote:
        raise SchemaError(f"the {text[opened - 1]!r} at character {opened} of {text!r} is not closed")
    return parts


def _parse_column(part: str, place: int, text: str) -> Column:
    found = _COLUMN.fullmatch(part)
    if found is None:
        raise SchemaError(f'expected "name type" for column {place}, got {part.strip()!r} in the schema {text!r}')
    name = (found.group(1) or "").replace("``", "`") or found.group(2)
    return Column(name, _parse_type(found.group(3), name))


def _parse_type(text: str, name: str) -> ColumnType:
    plain, nullable = _without_not_null(text.upper())
    array = re.fullmatch(r"ARRAY\s*<(.*)>", plain, re.DOTALL)
    if array is None:
        kind, flink_name, arguments = _parse_plain(plain, name)
        return ColumnType(kind, arguments, flink_name, nullable=nullable)
    element, element_nullable = _without_not_null(array.group(1).strip())
    kind, flink_name, arguments = _parse_plain(element, name)
    _check_element(kind, name)
    return ColumnType(kind, arguments, flink_name, True, nullable, element_nullable)


def _without_not_null(text: str) -> tuple[str, bool]:
    plain = re.sub(r"\s+NOT\s+NULL$", "", text)
    return plain, plain == text


def _parse_plain(text: str, name: str) -> tuple[Kind, str, tuple[int, ...]]:
    found = _TYPE.fullmatch(text)
    if found is None or found.group(1) not in _NAMES:
        known = ", ".join(sorted(_NAMES))
        raise SchemaError(f"the column {name!r} has the unknown type {text!r}; known are {known}, and ARRAY<...> of them")
    kind, flink_name, implied = _NAMES[found.group(1)]
    if found.group(2) is None:
        return kind, flink_name, implied
    arguments = tuple(int(number) for number in found.group(2).split(","))
    if kind is Kind.DECIMAL:
        arguments = (arguments + (0,))[:2]
        if not 1 <= arguments[0] <= 38 or arguments[1] > arguments[0]:
            raise SchemaError(f"the column {name!r} has the type {text!r}; DECIMAL takes 1 to 38 digits, of them the scale")
    elif len(arguments) != 1 or kind not in {*_WITH_LENGTH, *_LARGEST_PRECISION}:
        raise SchemaError(f"the column {name!r} has the type {text!r}, which does not take these numbers in brackets")
    elif kind in _WITH_LENGTH and arguments[0] < 1:
        raise SchemaError(f"the column {name!r} has the type {text!r}; a length is at least 1")
    _check_precision(kind, arguments, name, text)
    return kind, flink_name or _WITH_LENGTH.get(kind, ""), arguments


def _check_precision(kind: Kind, arguments: tuple[int, ...], name: str, text: str) -> None:
    largest = _LARGEST_PRECISION.get(kind)
    if largest is not None and arguments[0] > largest:
        raise SchemaError(
            f"the column {name!r} has the type {text}; at most {kind.value}({largest}) can be carried to a script and back: "
            f"CAST it to {kind.value}({largest})"
        )


def _check_element(kind: Kind, name: str) -> None:
    if kind is Kind.TIMESTAMP_LTZ:  # PyFlink: "not supported to be used as the element type of ArrayType"
        raise SchemaError(
            f"the column {name!r} is an ARRAY of TIMESTAMP_LTZ, which PyFlink cannot carry: CAST it to ARRAY<TIMESTAMP(6)>, "
            "which holds the times of the session's time zone"
        )


# PyFlink's classes of data types; each has a `precision`, a `scale` or a `length` where its type takes one.
_UNBOUNDED = 2**31 - 1
_CLASSES: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "BooleanType": (Kind.BOOLEAN, ()),
    "TinyIntType": (Kind.TINYINT, ()),
    "SmallIntType": (Kind.SMALLINT, ()),
    "IntType": (Kind.INT, ()),
    "BigIntType": (Kind.BIGINT, ()),
    "FloatType": (Kind.FLOAT, ()),
    "DoubleType": (Kind.DOUBLE, ()),
    "CharType": (Kind.STRING, ("length",)),
    "VarCharType": (Kind.STRING, ("length",)),
    "BinaryType": (Kind.BYTES, ("length",)),
    "VarBinaryType": (Kind.BYTES, ("length",)),
    "DecimalType": (Kind.DECIMAL, ("precision", "scale")),
    "DateType": (Kind.DATE, ()),
    "TimeType": (Kind.TIME, ("precision",)),
    "TimestampType": (Kind.TIMESTAMP, ("precision",)),
    "LocalZonedTimestampType": (Kind.TIMESTAMP_LTZ, ("precision",)),
}
_BOUNDED_NAMES = {"CharType": "CHAR", "VarCharType": "VARCHAR", "BinaryType": "BINARY", "VarBinaryType": "VARBINARY"}


def _of_data_type(name: str, data_type: Any) -> ColumnType:
    class_name = type(data_type).__name__
    if class_name == "ArrayType":
        element = _of_data_type(name, data_type.element_type)
        if element.is_array:
            raise SchemaError(f"the column {name!r} is an ARRAY of ARRAYs, which a feature cannot hold: flatten it in SQL")
        _check_element(element.kind, name)
        return ColumnType(
            element.kind, element.arguments, element.name, True, data_type._nullable, data_type.element_type._nullable
        )
    if class_name not in _CLASSES:
        raise SchemaError(
            f"the column {name!r} has the type {data_type}, which cannot be carried to a script: leave it out with "
            "selectedCols, or CAST it in SQL to one of " + ", ".join(kind.value for kind in Kind) + " or an ARRAY of these"
        )
    kind, attributes = _CLASSES[class_name]
    arguments = tuple(getattr(data_type, attribute) for attribute in attributes)
    if arguments == (_UNBOUNDED,):
        return ColumnType(kind, nullable=data_type._nullable)
    if arguments:
        _check_precision(kind, arguments, name, f"{kind.value}({arguments[0]})")
    return ColumnType(kind, arguments, _BOUNDED_NAMES.get(class_name, ""), nullable=data_type._nullable)
