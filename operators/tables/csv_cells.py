"""Cells of CSV files: which text is a value of a type, and the SQL that makes the value. Pure.

These rules hold for all readers. A CAST of Flink alone would make 3 of "3.7" for an INT, round a DECIMAL, drop the digits of a
time and the end of a VARCHAR, and add the offset of a time of day to it. Such cells are no values of their column here.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable

from akdl.wire.column_type import FLOATS, INTEGERS, ColumnType, Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, quoted
from operators.alink.ak_cells import digits_of

_DATE = "(?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_HOUR = "([01]?[0-9]|2[0-3])"
_FLOAT = (
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"
_BEHIND_POINT, _EXPONENT = r"\.([0-9]*?)0*([eE]|$)", "[eE]([+-]?[0-9]+)$"
USUAL_NULLS = (  # those of pandas.read_csv
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN",
    "None", "n/a", "nan", "null",
)  # fmt: skip
_JAVA_SPACES = "".join(map(chr, range(33)))  # around a number with a point
_MOST_DIGITS = 1000  # of a whole number; Python takes long for more
_BITS = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}
_EXAMPLES = {
    Kind.DATE: "2024-05-31",
    Kind.TIME: "18:00:00",
    Kind.TIMESTAMP: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
    Kind.TIMESTAMP_LTZ: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
}


def is_text(column: ColumnType) -> bool:
    """Whether any text is a cell of a type."""
    return column.kind is Kind.STRING and not column.arguments and not column.is_array


def cannot_be_text(column: ColumnType) -> bool:
    """Whether cells of a type are read by Flink's csv format alone."""
    return column.is_array or column.kind is Kind.BYTES


def fits(column: Column) -> Callable[[str], bool]:
    """Return a function that tells whether text, which is not empty, is a cell of a column."""
    if cannot_be_text(column.type) or is_text(column.type):
        return lambda text: True
    if column.type.kind is Kind.STRING:
        (most,) = column.type.arguments
        return lambda text: len(text) <= most
    match, more = re.compile(_pattern(column.type), re.ASCII).fullmatch, _in_range(column.type)
    around = _JAVA_SPACES if column.type.kind in FLOATS else " "
    return lambda text: match(text.strip(around)) is not None and more(text.strip(around))


def _in_range(column: ColumnType) -> Callable[[str], bool]:
    if column.kind in INTEGERS:
        limit = 1 << _BITS[column.kind]
        return lambda text: len(text) <= _MOST_DIGITS and -limit <= int(text) < limit
    if column.kind is Kind.DECIMAL:
        precision, scale = column.arguments
        return lambda text: _fits_decimal(text, precision, scale)
    return _is_date if column.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else lambda text: True


def cell_sql(column: Column, text: str, lenient: bool) -> str:
    """Return the SQL that makes the value of a cell.

    Args:
        lenient: Whether text that is no value is null; else it fails the job.
    """
    kind, sql = column.type.kind, column.type.cast_sql
    if cannot_be_text(column.type) or is_text(column.type):
        return text
    cast, trimmed = "TRY_CAST" if lenient else "CAST", f"TRIM({text})"
    if kind in FLOATS or kind is Kind.BOOLEAN:
        return f"{cast}({trimmed} AS {sql})"
    if kind in INTEGERS:
        return f"{cast}(REPLACE({text}, '.', '?') AS {sql})"
    if kind is Kind.STRING:
        value, good = text, f"CHAR_LENGTH({text}) <= {column.type.arguments[0]}"
    else:
        value = f"REPLACE({trimmed}, 'T', ' ')" if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else trimmed
        good = f"REGEXP({trimmed}, '^({_pattern(column.type)})$')"
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):  # a CAST makes March of February 30
        good += f" AND TRY_CAST(REGEXP_EXTRACT({trimmed}, '^[0-9-]+', 0) AS DATE) IS NOT NULL"
    if kind is Kind.DECIMAL:
        behind = f"CHAR_LENGTH(REGEXP_EXTRACT({trimmed}, '{_BEHIND_POINT}', 1))"
        exponent = f"TRY_CAST(REGEXP_EXTRACT({trimmed}, '{_EXPONENT}', 1) AS INT)"
        good += f" AND COALESCE({behind}, 0) - COALESCE({exponent}, 0) <= {column.type.arguments[1]}"
    # CASTs to DECIMAL and VARCHAR take any text, and one to INT does not.
    told = f"CONCAT('? ', {text})" if kind in _EXAMPLES else f"CAST(CONCAT('? ', {text}) AS INT)"
    bad = "" if lenient else f" WHEN {text} IS NOT NULL THEN CAST({told} AS {sql})"
    return f"CASE WHEN {good} THEN {cast}({value} AS {sql}){bad} END"


def wrong_cell(where: str, column: Column, text: str) -> ConfigurationError:
    """Return the error about a cell that is not of its column's type."""
    return ConfigurationError(
        f"{where}: the column {column.name!r}: {text!r} is no {column.type.sql}; {_remedy(column, text)}setLenient(True) makes "
        "it null"
    )


def _remedy(column: Column, text: str) -> str:
    """Return what helps where all cells of the column are alike."""
    sql, name = column.type.sql, quoted(column.name)
    if text.strip() == column.name:
        return "is it the line with the names of the columns? setIgnoreFirstLine(True) leaves it out; "
    if text.strip() in USUAL_NULLS:
        return f"setNullLiteral({text!r}) makes such cells null; "
    if column.type.kind in _EXAMPLES:
        return f"it takes {_EXAMPLES[column.type.kind]}: read another form as STRING, and make a {sql} of it in select; "
    if column.type.kind in {*FLOATS, Kind.DECIMAL} and re.fullmatch(r"[-+]?[\d.' ]+,\d+", text.strip()):
        return f"a decimal comma: read it as STRING, and CAST(REPLACE({name}, ',', '.') AS {sql}) in select; "
    if column.type.kind is Kind.DECIMAL and re.fullmatch(_DECIMAL, text.strip(" ")):
        return "it has more digits than the type: read it as DECIMAL(38, 18), and CAST it in select to round it; "
    return ""


def _pattern(column: ColumnType) -> str:
    """Return a regular expression, alike in Python and in Java, for text without spaces around it."""
    kind, digits = column.kind, (column.arguments or (0,))[0]
    behind = rf"(\.[0-9]{{0,{digits}}}0{{0,{9 - digits}}})?" if kind in _EXAMPLES else ""
    if kind in INTEGERS:
        return "[+-]?[0-9]+"
    if kind in FLOATS:
        return _FLOAT
    return {
        Kind.BOOLEAN: "(?i)(t|true|y|yes|1|f|false|n|no|0)",
        Kind.DECIMAL: _DECIMAL,
        Kind.DATE: rf"{_DATE}( 00:00:00(\.0{{1,9}})?)?",
        Kind.TIME: f"{_HOUR}:[0-5]?[0-9](:[0-5]?[0-9]{behind})?",
        Kind.TIMESTAMP: f"{_DATE}([ T]{_HOUR}:[0-5]?[0-9]:[0-5]?[0-9]{behind})?",
        Kind.TIMESTAMP_LTZ: f"{_DATE}([ T]{_HOUR}:[0-5]?[0-9]:[0-5]?[0-9]{behind})?",
    }[kind]


def _is_date(text: str) -> bool:
    year, month, day = map(int, re.split("[ T]", text)[0].split("-"))
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


def _fits_decimal(text: str, precision: int, scale: int) -> bool:
    found, exponent = re.search(_BEHIND_POINT, text), re.search(_EXPONENT, text)
    shift = int(exponent[1]) if exponent else 0
    if (len(found[1]) if found else 0) - shift > scale:
        return False
    return digits_of([decimal.Decimal(text)])[0] <= precision - scale
