"""Cells of CSV files: texts that are values of a type, and SQL that casts them, more strictly than Flink's CAST. Pure."""

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
_FRACTION, _EXPONENT = r"\.([0-9]*?)0*([eE]|$)", "[eE]([+-]?[0-9]+)$"
USUAL_NULLS = (  # the default of pandas.read_csv
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN",
    "None", "n/a", "nan", "null",
)  # fmt: skip
_JAVA_SPACES = "".join(map(chr, range(33)))  # that Java trims around a FLOAT or DOUBLE
_MOST_DIGITS = 1000  # of an integer; Python is slow beyond
_BITS = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}
WRONG = "not a value: "
_EXAMPLES = {
    Kind.DATE: "2024-05-31",
    Kind.TIME: "18:00:00",
    Kind.TIMESTAMP: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
    Kind.TIMESTAMP_LTZ: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
}


def is_text(column: ColumnType) -> bool:
    return column.kind is Kind.STRING and not column.arguments and not column.is_array


def has_no_cast(column: ColumnType) -> bool:
    """Return True for types that only Flink's reader reads: ARRAY and BYTES."""
    return column.is_array or column.kind is Kind.BYTES


def fits(column: Column) -> Callable[[str], bool]:
    if has_no_cast(column.type) or is_text(column.type):
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
    """SQL that casts the text of a cell; a text that is not a value becomes null if `lenient`, else it fails the job."""
    kind, sql = column.type.kind, column.type.cast_sql
    if has_no_cast(column.type) or is_text(column.type):
        return text
    cast, trimmed = "TRY_CAST" if lenient else "CAST", f"TRIM({text})"
    if kind in FLOATS or kind is Kind.BOOLEAN:
        return f"{cast}({trimmed} AS {sql})"
    if kind is Kind.STRING:
        value, good = text, f"CHAR_LENGTH({text}) <= {column.type.arguments[0]}"
    else:
        value = f"REPLACE({trimmed}, 'T', ' ')" if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else trimmed
        good = f"REGEXP({trimmed}, '^({_pattern(column.type)})$')"
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):  # CAST reads February 30 as a day in March
        good += f" AND TRY_CAST(REGEXP_EXTRACT({trimmed}, '^[0-9-]+', 0) AS DATE) IS NOT NULL"
    if kind is Kind.DECIMAL:
        fraction = f"CHAR_LENGTH(REGEXP_EXTRACT({trimmed}, '{_FRACTION}', 1))"
        exponent = f"TRY_CAST(REGEXP_EXTRACT({trimmed}, '{_EXPONENT}', 1) AS INT)"
        good += f" AND COALESCE({fraction}, 0) - COALESCE({exponent}, 0) <= {column.type.arguments[1]}"
    bad = "" if lenient else f" WHEN {text} IS NOT NULL THEN {_error_sql(column.type, text)}"
    return f"CASE WHEN {good} THEN {cast}({value} AS {sql}){bad} END"


def _error_sql(column: ColumnType, text: str) -> str:
    """SQL that fails the job with an exception that quotes `WRONG` and the text."""
    # Flink SQL has no function that raises an error. A cast of this message does, except to DECIMAL and VARCHAR.
    message = f"CONCAT('{WRONG}', {text})"
    if column.kind in (Kind.DECIMAL, Kind.STRING):
        message = f"CAST({message} AS INT)"
    return f"CAST({message} AS {column.cast_sql})"


def wrong_cell(where: str, column: Column, text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where}, column {column.name!r}: expected {column.type.sql}, got {text!r}; {_remedy(column, text)}"
        "setLenient(True) reads it as null"
    )


def _remedy(column: Column, text: str) -> str:
    sql, name = column.type.sql, quoted(column.name)
    if text.strip() == column.name:
        return "if this is the header line, setIgnoreFirstLine(True) skips it; "
    if text.strip() in USUAL_NULLS:
        return f"setNullLiteral({text!r}) reads all such cells as null; "
    if column.type.kind in _EXAMPLES:
        return f"the format is {_EXAMPLES[column.type.kind]}: read other formats as STRING and convert them in select; "
    if column.type.kind in {*FLOATS, Kind.DECIMAL} and re.fullmatch(r"[-+]?[\d.' ]+,\d+", text.strip()):
        return f"for decimal commas, read the column as STRING and select CAST(REPLACE({name}, ',', '.') AS {sql}); "
    if column.type.kind is Kind.DECIMAL and re.fullmatch(_DECIMAL, text.strip(" ")):
        return "it has too many digits: to round it, read the column as DECIMAL(38, 18) and CAST it in select; "
    return ""


def _pattern(column: ColumnType) -> str:
    """Regular expression, with one meaning in Python and Java, for text without surrounding spaces."""
    kind, digits = column.kind, (column.arguments or (0,))[0]
    fraction = rf"(\.[0-9]{{0,{digits}}}0{{0,{9 - digits}}})?" if kind in _EXAMPLES else ""
    if kind in INTEGERS:
        return "[+-]?[0-9]+"
    if kind in FLOATS:
        return _FLOAT
    return {
        Kind.BOOLEAN: "(?i)(t|true|y|yes|1|f|false|n|no|0)",
        Kind.DECIMAL: _DECIMAL,
        Kind.DATE: rf"{_DATE}( 00:00:00(\.0{{1,9}})?)?",
        Kind.TIME: f"{_HOUR}:[0-5]?[0-9](:[0-5]?[0-9]{fraction})?",
    }.get(kind, f"{_DATE}([ T]{_HOUR}:[0-5]?[0-9]:[0-5]?[0-9]{fraction})?")


def _is_date(text: str) -> bool:
    year, month, day = map(int, re.split("[ T]", text)[0].split("-"))
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


def _fits_decimal(text: str, precision: int, scale: int) -> bool:
    found, exponent = re.search(_FRACTION, text), re.search(_EXPONENT, text)
    shift = int(exponent[1]) if exponent else 0
    if (len(found[1]) if found else 0) - shift > scale:
        return False
    return digits_of([decimal.Decimal(text)])[0] <= precision - scale
