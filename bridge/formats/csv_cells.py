"""Texts of CSV cells as values of a declared type: the patterns of Alink's reader, in RE2, and
Arrow's casts. Pure.

The patterns come first because Arrow reads more than a CSV file can mean, such as 0x10 as the
integer 16. They also accept texts that Arrow cannot read, such as "+5", "yes" or "2024-2-9", so a
text takes Arrow's form before it is cast.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from akdl.wire.column_type import FLOATS, INTEGERS, ColumnType, Kind
from bridge.formats.file_columns import (
    FileColumn,
    cast_cells,
    check_exact,
    declared_column,
    inexact,
    is_inexact,
)
from bridge.schema import Column, quoted

_DATE = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{1,2}-[0-9]{1,2}"
_TIME = "([01]?[0-9]|2[0-3]):[0-5]?[0-9]"
_FLOAT = (
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"
# These are the texts that pandas.read_csv takes for nulls by default.
USUAL_NULLS = (
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)
_EXAMPLES = {
    Kind.DATE: "2024-05-31",
    Kind.TIME: "18:00:00",
    Kind.TIMESTAMP: "2024-05-31 18:00:00 or 2024-05-31T18:00:00",
}


def csv_cells(column: FileColumn, cells: pa.Array, is_lenient: bool = False) -> pa.Array:
    """Values of texts.

    If `is_lenient`, a text that does not fit is null. The cells are halved until the bad ones are
    alone, so that columns without bad cells are converted as a whole.

    Raises:
        pa.ArrowException: A text does not fit; the error has no position.
    """
    if not is_lenient:
        return _cells(column, cells)
    try:
        return _cells(column, cells, is_lenient)
    except pa.ArrowException:
        if len(cells) == 1:
            return pa.nulls(1, column.arrow)
    half = len(cells) // 2
    return pa.concat_arrays(
        [csv_cells(column, each, True) for each in (cells.slice(0, half), cells.slice(half))]
    )


def _cells(column: FileColumn, cells: pa.Array, is_lenient: bool = False) -> pa.Array:
    if column.declared is None:
        return _inferred(column, cells)
    type_ = column.declared.type
    if type_.is_array:
        # Flink's CSV format separates the elements of an array in this way.
        lists = pc.split_pattern(cells, ";")
        element = Column(column.name, replace(type_, is_array=False))
        values = _cells(declared_column(element), lists.values)
        return pa.ListArray.from_arrays(lists.offsets, values, column.arrow, mask=lists.is_null())
    pattern = _pattern(type_)
    if not pattern:
        return cast_cells(column, cells)
    good = pc.match_substring_regex(cells, f"^ *({pattern}) *$")
    if not pc.all(good, min_count=0).as_py():
        if not is_lenient:
            # Arrow's error has a better reason. If there is no error, Arrow reads the text as
            # something that it does not mean.
            cast_cells(column, cells)
            raise pa.ArrowInvalid("the text has another form")
        # Arrow 16 makes wrong offsets from a slice here, which trimming copies.
        cells = pc.if_else(good, pc.utf8_trim(cells, " "), None)
    if type_.kind is Kind.BOOLEAN:
        return pc.match_substring_regex(cells, "(?i)^ *[ty1]")
    # Most texts are in Arrow's form already. To rewrite all of them first took 1.03 s of a
    # processor per million rows of five columns, and this order takes 0.78 s.
    try:
        return cast_cells(column, cells)
    except pa.ArrowInvalid:
        return cast_cells(column, _in_arrow_form(type_.kind, pc.utf8_trim(cells, " ")))


def _in_arrow_form(kind: Kind, cells: pa.Array) -> pa.Array:
    """Texts that match the pattern of a type, as Arrow writes them, or numbers."""
    # Alink's patterns are Java's, which allow 1.5f and 0x1p3.
    if kind in FLOATS:
        plain = [None if text is None else text.rstrip("fFdD") for text in cells.to_pylist()]
        values = [
            text and (float.fromhex(text) if "x" in text.lower() else float(text)) for text in plain
        ]
        if any(
            # Python reads a number beyond DOUBLE as infinity. Of the texts that match the pattern,
            # Infinity alone has a y.
            value in (math.inf, -math.inf) and "y" not in text
            for value, text in zip(values, plain)
            if text
        ):
            raise pa.ArrowInvalid("it is beyond DOUBLE")
        return pa.array(values, pa.float64())
    if kind in _EXAMPLES:
        # This pads single digits. A replacement of RE2 has only \0 to \9, so it reads \10 as group
        # 1 and a zero.
        cells = pc.replace_substring_regex(cells, r"(^|[-: T])([0-9])\b", r"\10\2")
        cells = pc.replace_substring_regex(cells, r"(\.[0-9]{6})0+$", r"\1")
        return pc.utf8_slice_codeunits(cells, 0, 10) if kind is Kind.DATE else cells
    if kind in INTEGERS:
        return pc.replace_substring_regex(cells, r"^\+?(-?)0*([0-9])", r"\1\2")
    return cells


def _inferred(column: FileColumn, cells: pa.Array) -> pa.Array:
    """Cells of a type that the first rows of a file have; 007 and 0x1F are not numbers there, but
    texts.
    """
    if column.arrow not in (pa.int64(), pa.float64()):
        return cast_cells(column, cells)
    cells = pc.ascii_trim_whitespace(cells)
    if has_other_numbers(cells):
        raise pa.ArrowInvalid("its first digit is 0")
    numbers = cells.cast(column.arrow)
    if column.arrow == pa.int64():
        return numbers
    # From 2**53 on, a DOUBLE does not hold every integer, so the digits of each such text are
    # compared.
    for text in cells.filter(pc.greater_equal(pc.abs(numbers), 2.0**53)).to_pylist():
        if text is not None and text.lstrip("+-").isdecimal() and is_inexact(text):
            raise pa.ArrowInvalid(inexact(text))
    check_exact(cells, numbers)
    return numbers


def has_other_numbers(cells: pa.Array) -> bool:
    """True where a text such as 007 or 0x1F would become another number."""
    return bool(pc.any(pc.match_substring_regex(cells, r"^\s*[+-]?0[0-9xX]")).as_py())


def _pattern(column: ColumnType) -> str:
    """Regular expression for a text without surrounding spaces; "" for types that have all
    texts.
    """
    kind = column.kind
    digits = (column.arguments or (0,))[0]
    fraction = (
        rf"(\.[0-9]{{0,{digits}}}0{{0,{9 - digits}}})?"
        if kind in (Kind.TIME, Kind.TIMESTAMP)
        else ""
    )
    time = f"{_TIME}(:[0-5]?[0-9]{fraction})?"
    return {
        **dict.fromkeys(INTEGERS, "[+-]?[0-9]+"),
        **dict.fromkeys(FLOATS, _FLOAT),
        Kind.BOOLEAN: "(?i)(t|true|y|yes|1|f|false|n|no|0)",
        Kind.DECIMAL: _DECIMAL,
        Kind.DATE: rf"{_DATE}( 00:00:00(\.0{{1,9}})?)?",
        Kind.TIME: time,
        Kind.TIMESTAMP: f"{_DATE}([ T]{time})?",
    }.get(kind, "")


def remedy_for(column: FileColumn, text: str) -> str:
    """Advice for a text that is not a value of a declared type."""
    kind = column.declared.type.kind if column.declared else Kind.STRING
    name = quoted(column.name)
    if text.strip() == column.name:
        return "if this is the header line, setIgnoreFirstLine(True) skips it; "
    if text.strip() in USUAL_NULLS:
        return f"setNullLiteral({text!r}) reads all such cells as null; "
    if kind in _EXAMPLES:
        return (
            f"the format is {_EXAMPLES[kind]}: read other formats as STRING and convert them in"
            " select; "
        )
    if kind in {*FLOATS, Kind.DECIMAL} and re.fullmatch(r"[-+]?[\d.' ]+,\d+", text.strip()):
        return (
            f"for decimal commas, read the column as STRING and select CAST(REPLACE({name}, ',',"
            f" '.') AS {column.sql}); "
        )
    if kind is Kind.DECIMAL and re.fullmatch(_DECIMAL, text.strip(" ")):
        return (
            "it has too many digits: to round it, read the column as DECIMAL(38, 18) and CAST it in"
            " select; "
        )
    return ""
