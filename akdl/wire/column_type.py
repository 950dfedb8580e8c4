"""SQL types of columns: their meanings in one table, and the parser of their texts. Pure.

Codecs, file formats and predictors map the kinds of this table to types of their own. A type that
is not here cannot travel on a channel, and is refused when the operator is linked.
"""

import enum
import functools
import re
from dataclasses import dataclass
from typing import Dict, Mapping, NamedTuple, Tuple

from akdl.near_names import did_you_mean
from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, TableColumn
from akdl.wire.exchange_pb2 import ValueType

INT64_FEATURE = "int64"
FLOAT32_FEATURE = "float32"
STRING_FEATURE = "string"

Arguments = Tuple[int, ...]


class Kind(enum.Enum):
    """Types of a cell, or of an element of an ARRAY; the value is Flink's name."""

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

    # Enum's own hash is Python code, which is too slow for a look-up with each value.
    __hash__ = object.__hash__


class Meaning(NamedTuple):
    """Forms of a kind: feature of an Example, values of a message, and names in SQL text.

    `fixed` and `with_length` are Flink's names of a text or bytes with a length. They differ from
    the name without one, so `ColumnType.name` keeps them for the text of the type.
    """

    feature: str  # unless doubles are kept exact
    sent: "ValueType"  # as text: protobuf's enum is not a class in Python 3.7
    names: Mapping[str, Arguments]  # in Flink and Alink, with default arguments
    unit: str = ""  # of a point in time, numpy's
    largest_precision: int = 0  # digits of fractional seconds
    with_length: str = ""
    fixed: str = ""


MEANINGS: Dict[Kind, Meaning] = {
    # An Example has no booleans or small integers, so all of them are int64 there.
    Kind.BOOLEAN: Meaning(INT64_FEATURE, BOOL, {"BOOLEAN": (), "BOOL": ()}),
    Kind.TINYINT: Meaning(INT64_FEATURE, INT8, {"TINYINT": (), "BYTE": ()}),
    Kind.SMALLINT: Meaning(INT64_FEATURE, INT16, {"SMALLINT": (), "SHORT": ()}),
    Kind.INT: Meaning(INT64_FEATURE, INT32, {"INT": (), "INTEGER": ()}),
    Kind.BIGINT: Meaning(INT64_FEATURE, INT64, {"BIGINT": (), "LONG": ()}),
    Kind.FLOAT: Meaning(FLOAT32_FEATURE, FLOAT32, {"FLOAT": (), "REAL": ()}),
    Kind.DOUBLE: Meaning(FLOAT32_FEATURE, FLOAT64, {"DOUBLE": ()}),
    Kind.STRING: Meaning(
        STRING_FEATURE,
        BYTES,
        # Vectors, and tensors of any type, are text, such as "0.5 1.0".
        {
            "STRING": (),
            "VARCHAR": (),
            "CHAR": (1,),
            "VECTOR": (),
            "DENSE_VECTOR": (),
            "SPARSE_VECTOR": (),
            "TENSOR": (),
        },
        with_length="VARCHAR",
        fixed="CHAR",
    ),
    Kind.BYTES: Meaning(
        STRING_FEATURE,
        BYTES,
        {"BYTES": (), "VARBINARY": (), "BINARY": (1,)},
        with_length="VARBINARY",
        fixed="BINARY",
    ),
    Kind.DECIMAL: Meaning(
        STRING_FEATURE,
        BYTES,
        # DECIMAL without digits has the digits that Alink's users expect. SQL's default (10, 0)
        # would round all numbers.
        dict.fromkeys(("DECIMAL", "DEC", "NUMERIC", "BIG_DEC", "BIGDECIMAL"), (38, 18)),
    ),
    Kind.DATE: Meaning(INT64_FEATURE, INT32, {"DATE": ()}, "D"),
    Kind.TIME: Meaning(INT64_FEATURE, INT32, {"TIME": ()}, "ms", 3),
    Kind.TIMESTAMP: Meaning(
        INT64_FEATURE, INT64, {"TIMESTAMP": (6,), "SQL_TIMESTAMP": (3,), "DATETIME": (3,)}, "us", 6
    ),
    Kind.TIMESTAMP_LTZ: Meaning(INT64_FEATURE, INT64, {"TIMESTAMP_LTZ": (6,)}, "us", 6),
}

_KINDS = {name: kind for kind, meaning in MEANINGS.items() for name in meaning.names}

# Alink's tensor types become an ARRAY of their elements.
_TENSORS = {
    "FLOAT_TENSOR": "ARRAY<FLOAT>",
    "DOUBLE_TENSOR": "ARRAY<DOUBLE>",
    "INT_TENSOR": "ARRAY<INT>",
    "LONG_TENSOR": "ARRAY<BIGINT>",
    "BYTE_TENSOR": "ARRAY<TINYINT>",
    # TINYINT is signed and ends at 127.
    "UBYTE_TENSOR": "ARRAY<SMALLINT>",
    "BOOL_TENSOR": "ARRAY<BOOLEAN>",
    "STRING_TENSOR": "ARRAY<STRING>",
}

POINTS_IN_TIME = frozenset(kind for kind, meaning in MEANINGS.items() if meaning.unit)
FLOATS = frozenset(kind for kind, meaning in MEANINGS.items() if meaning.feature == FLOAT32_FEATURE)
INTEGERS = frozenset(
    kind
    for kind, meaning in MEANINGS.items()
    if meaning.feature == INT64_FEATURE and meaning.sent != BOOL and not meaning.unit
)


# The object is frozen, because `parse_type` caches it and gives one object to all callers.
@dataclass(frozen=True)
class ColumnType:
    """Type of a column that can be sent to a script and back."""

    kind: Kind  # of the cell, or of each element of an ARRAY
    arguments: Arguments = ()  # (precision, scale), (precision,) or (length,)
    name: str = ""  # Flink's, where it differs from the kind's: CHAR, VARCHAR, BINARY, VARBINARY
    is_array: bool = False
    nullable: bool = True
    element_nullable: bool = True  # for Flink; akdl refuses null elements

    @property
    def feature(self) -> str:
        """Kind of feature of a cell, or of an ARRAY's elements, unless doubles are kept exact."""
        return MEANINGS[self.kind].feature

    @property
    def element_sql(self) -> str:
        text = self.name or self.kind.value
        return f"{text}({', '.join(map(str, self.arguments))})" if self.arguments else text

    @property
    def sql(self) -> str:
        """Flink SQL text, such as "DECIMAL(10, 2)", "ARRAY<FLOAT>" or "BIGINT NOT NULL"."""
        return self.cast_sql if self.nullable else f"{self.cast_sql} NOT NULL"

    @property
    def cast_sql(self) -> str:
        """Type for CAST, which accepts NOT NULL for elements only."""
        text = self.element_sql
        return (
            f"ARRAY<{text if self.element_nullable else text + ' NOT NULL'}>"
            if self.is_array
            else text
        )


_ARRAY = re.compile(r"ARRAY\s*<(.*)>", re.DOTALL)
_NOT_NULL = re.compile(r"\s+NOT\s+NULL$")
_TYPE = re.compile(r"([A-Z_]+)\s*(?:\(\s*(\d+(?:\s*,\s*\d+)?)\s*\))?", re.ASCII)


def type_of(column: TableColumn) -> ColumnType:
    """Parse the type of a column; the ValueError for an unknown type names the column."""
    try:
        return parse_type(column.type)
    except ValueError as error:
        # The text of the inner error begins with "the unknown type" or "the type", so both make one
        # sentence.
        raise ValueError(f"the column {column.name!r} has {error}") from None


@functools.lru_cache(maxsize=1024)  # every written batch parses the types of its columns
def parse_type(text: str) -> ColumnType:
    """Parse Flink's SQL types in any case, and Alink's names such as LONG, BYTE, FLOAT_TENSOR and
    VECTOR.
    """
    plain, nullable = _without_not_null(text.upper().strip())
    plain = _TENSORS.get(plain, plain)
    # NOT NULL may follow the element and the ARRAY, so it is removed at both levels.
    array = _ARRAY.fullmatch(plain)
    if array is None:
        kind, name, arguments = _parse_plain(plain)
        return ColumnType(kind, arguments, name, nullable=nullable)
    element, element_nullable = _without_not_null(array.group(1).strip())
    kind, name, arguments = _parse_plain(element)
    return ColumnType(kind, arguments, name, True, nullable, element_nullable)


def _without_not_null(text: str) -> Tuple[str, bool]:
    plain = _NOT_NULL.sub("", text)
    return plain, plain == text


def _parse_plain(text: str) -> Tuple[Kind, str, Arguments]:
    found = _TYPE.fullmatch(text)
    if found is None or found.group(1) not in _KINDS:
        known = f"known types are {', '.join(sorted(_KINDS))}, and ARRAY<...> of them"
        raise ValueError(
            f"the unknown type {text!r}{did_you_mean(text, _KINDS)}; {known}. A column name with"
            " spaces needs back-quotes"
        )
    kind = _KINDS[found.group(1)]
    meaning = MEANINGS[kind]
    name = meaning.fixed if found.group(1) == meaning.fixed else ""
    if found.group(2) is None:
        return kind, name, meaning.names[found.group(1)]
    return (
        kind,
        # STRING(10) is VARCHAR(10) in Flink's text, since STRING takes no length.
        name or meaning.with_length,
        _checked(kind, tuple(map(int, found.group(2).split(","))), text),
    )


def _checked(kind: Kind, arguments: Arguments, text: str) -> Arguments:
    meaning = MEANINGS[kind]
    if kind is Kind.DECIMAL:
        # The scale of SQL's DECIMAL(10) is 0.
        arguments = (*arguments, 0)[:2]
        if not 1 <= arguments[0] <= 38 or arguments[1] > arguments[0]:
            raise ValueError(
                f"the type {text!r}; DECIMAL takes 1 to 38 digits, and at most as many behind the"
                " point"
            )
    elif len(arguments) != 1 or not (meaning.with_length or meaning.largest_precision):
        raise ValueError(f"the type {text!r}, which does not accept these arguments")
    elif meaning.largest_precision and arguments[0] > meaning.largest_precision:
        largest = f"{kind.value}({meaning.largest_precision})"
        raise ValueError(f"the type {text}; at most {largest} is supported: CAST it to {largest}")
    return arguments
