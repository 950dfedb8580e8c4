"""Columns of files: SQL types for Arrow types, and cells in the form that ArrowToRows reads. Pure.

A cell becomes exactly the value that the file has, or an error that names its row, column and a
remedy. Arrow's casts alone do not promise that: some wrap around, or read a text as another number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from akdl.wire.column_type import Kind, parse_type
from bridge.codec.first_wrong import first_wrong
from bridge.codec.types import arrow_type
from bridge.exceptions import RowError, SchemaError
from bridge.schema import Column, quoted


@dataclass(frozen=True)
class FileColumn:
    """Column of a table in files.

    Args:
        arrow: Type of its cells in Arrow, as Flink reads it.
        declared: Type that the user has declared; files may have other types, which are cast.
    """

    name: str
    sql: str
    arrow: pa.DataType
    declared: Column | None = None


# These are pyarrow's names of types, by the SQL type that holds all of their values. Unsigned
# integers need the next larger type.
_NAMES = {
    "BOOLEAN": ["bool"],
    "TINYINT": ["int8"],
    "SMALLINT": ["int16", "uint8"],
    "INT": ["int32", "uint16"],
    "BIGINT": ["int64", "uint32"],
    "DECIMAL(20, 0)": ["uint64"],
    "FLOAT": ["halffloat", "float"],
    "DOUBLE": ["double"],
    "STRING": ["string", "large_string", "string_view"],
    "BYTES": ["binary", "large_binary", "binary_view"],
    "DATE": ["date32[day]", "date64[ms]"],
    "TIME(0)": ["time32[s]"],
    "TIME(3)": ["time32[ms]", "time64[us]", "time64[ns]"],
}
_SQL = {name: sql for sql, names in _NAMES.items() for name in names}
# Each unit of a file has its number of digits in SQL, and the unit for Flink. Nanoseconds become
# microseconds, and the cast refuses a cell that would lose digits.
_TIMESTAMPS = {"s": (0, "s"), "ms": (3, "ms"), "us": (6, "us"), "ns": (6, "us")}
_MOST_DIGITS = 38
REMEDY = "declare another type in schemaStr, or leave it out with selectedCols"

_CAST_IT = (
    "declare TIMESTAMP for it in schemaStr, or TIMESTAMP_LTZ if it has a zone, and CAST it in"
    " select"
)
_REMEDIES = {
    "expected no zone offset": "declare TIMESTAMP_LTZ for it in schemaStr",
    "expected a zone offset": (
        "declare TIMESTAMP for it in schemaStr, and CAST it in select if its zone is the session's"
    ),
    "neither 0 nor 1": (
        "declare INT or DOUBLE for it in schemaStr, and compare it in select, as in x <> 0"
    ),
    "has a time of day": _CAST_IT,
    "has a date": _CAST_IT,
    "has no unit": (
        "declare BIGINT for it in schemaStr, and convert it in select, as in TO_TIMESTAMP_LTZ(x, 3)"
        " if it has milliseconds"
    ),
}


def column_of_field(field: pa.Field) -> FileColumn:
    """Column for a field of a file; SchemaError if Flink cannot store all of its cells exactly."""
    found = flink_type(field.type)
    if found is None:
        hint = ": all cells are null, or there are no rows" if pt.is_null(field.type) else ""
        raise SchemaError(
            f"the column {field.name!r} has the type {field.type}, which Flink does not have{hint}:"
            f" {REMEDY}"
        )
    column = FileColumn(field.name, *found)
    _check_cast(column, field.type)
    return column


def declared_column(column: Column) -> FileColumn:
    return FileColumn(column.name, column.type.sql, arrow_type(column.type), column)


def arrow_schema_of(columns: Iterable[FileColumn]) -> pa.Schema:
    return pa.schema([(column.name, column.arrow) for column in columns])


def check_type(column: FileColumn, found: pa.DataType) -> None:
    """Refuse a file whose column has another type; a column of nulls has any type."""
    if pt.is_null(found) or found == column.arrow:
        return
    if column.declared is not None:
        _check_cast(column, found)
        return
    sql = (flink_type(found) or (str(found),))[0]
    if sql != column.sql:
        raise SchemaError(
            f"the column {column.name!r} has the type {sql}, but {column.sql} in the first file:"
            " declare the type of this column, and of all others, in schemaStr"
        )


def cells_for_flink(column: FileColumn, cells: pa.Array, row: int = 1) -> pa.Array:
    """Cells in the type of their column; RowError if one does not fit.

    Args:
        cells: Cells of a batch, in a type of the file.
        row: Row of the first of them in the file, from 1, for the error.
    """
    convert = partial(cast_cells, column)
    try:
        return convert(cells)
    except pa.ArrowException as failure:
        place, error = first_wrong(lambda part: convert(_copied(part)), cells, failure)
    where = f"column {column.name!r}, row {row + place}"
    if "UTF8" in str(error):
        raise RowError(f"{where}: a cell is not UTF-8: declare BYTES for it in schemaStr")
    raise RowError(
        f"{where}: a cell of the type {cells.type} does not fit {column.sql}: {error}:"
        f" {remedy_of(error)}"
    )


def _copied(cells: pa.Array) -> pa.Array:
    """The same cells without those around them, which a slice of lists or of a dictionary keeps."""
    if pt.is_dictionary(cells.type):
        return cells.dictionary_decode()
    return cells.take(pa.array(range(len(cells)))) if pt.is_nested(cells.type) else cells


def remedy_of(error: Exception) -> str:
    """Advice where a cell does not fit."""
    return next((remedy for words, remedy in _REMEDIES.items() if words in str(error)), REMEDY)


def cast_cells(column: FileColumn, cells: pa.Array) -> pa.Array:
    """Cast cells to the type of their column, or raise pa.ArrowException without a position."""
    target = column.arrow
    is_text = _is_text(cells.type)
    if is_text and pt.is_binary(target):
        cells = cells.cast(target)
    # A damaged file may have offsets that point anywhere into the memory of this process.
    try:
        if not pt.is_primitive(cells.type):
            cells.validate(full=True)
    except pa.ArrowException as error:
        if "UTF8" in str(error):
            raise
        raise RowError(f"column {column.name!r}: the file is damaged: {error}") from None
    plain = _plain(cells.type)
    if plain != cells.type:
        cells = cells.cast(plain)
        is_text = _is_text(plain)
    if cells.type == target:
        result = cells
    elif is_text and pt.is_temporal(target):
        # Arrow before 17 cannot parse a time alone, nor Arrow 11 a date, so each gets the part that
        # it lacks. Seconds may have further digits, which are zeros.
        if pt.is_time(target):
            cells = pc.binary_join_element_wise("1970-01-01", cells, " ")
        elif pt.is_date(target):
            cells = pc.binary_join_element_wise(cells, "00:00:00", " ")
        zone = "UTC" if column.sql.startswith("TIMESTAMP_LTZ") else None
        result = cells.cast(pa.timestamp("us", zone)).cast(target)
    else:
        if is_text and (pt.is_integer(target) or pt.is_floating(target) or pt.is_decimal(target)):
            cells = pc.ascii_trim_whitespace(cells)
        # Arrow rounds a float to the digits of a decimal, but refuses a text with more digits.
        if pt.is_decimal(_element(target)) and pt.is_floating(_element(cells.type)):
            cells = cells.cast(pa.list_(pa.string()) if pt.is_list(target) else pa.string())
        # Two steps, because rescaling a decimal of 128 bits wraps around silently.
        result = cells.cast(with_room(target)).cast(target)
    check_exact(cells, result)
    return _fitted(column, result)


def is_inexact(digits: str) -> bool:
    """True for an integer that BIGINT cannot hold, or DOUBLE not exactly."""
    # A BIGINT has at most 19 digits, and Python's `int` refuses texts of more than 4,300.
    if len(digits.lstrip("+-")) > 19:
        return True
    number = int(digits)
    return not -(2**63) <= number < 2**63 or int(float(digits)) != number


def inexact(digits: str) -> str:
    """Words about such an integer."""
    return (
        f"{digits[:40]} needs more digits than DOUBLE has, or than BIGINT: declare DECIMAL(20, 0)"
        " for it in schemaStr, or DOUBLE if 15 digits suffice"
    )


def not_utf8(error: UnicodeDecodeError) -> str:
    return (
        f"the file is not UTF-8 ({error.reason}: {error.object[error.start]:#04x}): convert it with"
        " iconv"
    )


def _check_cast(column: FileColumn, found: pa.DataType) -> None:
    """Refuse a type that Arrow cannot cast, when the job is built and not at the first cell."""
    inner = _element(_plain(found))
    is_instant = pt.is_timestamp(inner) and inner.tz is not None
    if column.declared is not None and column.declared.type.kind is Kind.TIMESTAMP and is_instant:
        # PyFlink has no ARRAY of TIMESTAMP_LTZ.
        remedy = "ARRAY<STRING>" if column.declared.type.is_array else "TIMESTAMP_LTZ"
        raise SchemaError(
            f"the column {column.name!r} has instants, of the type {found}: declare {remedy} for it"
        )
    try:
        cast_cells(column, pa.nulls(0, found))
    except pa.ArrowException as error:
        raise SchemaError(
            f"the column {column.name!r} has the type {found}, which cannot become {column.sql}:"
            f" {error}: {remedy_of(error)}"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The same type without dictionaries, and with one kind of list."""
    if pt.is_dictionary(kind):
        return kind.value_type
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return pa.list_(_plain(kind.value_type)) if is_list else kind


def with_room(kind: pa.DataType) -> pa.DataType:
    """The same type with decimals of 256 bits: with 128, a number with too many digits may become
    another one.
    """
    if pt.is_list(kind):
        return pa.list_(with_room(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(with_room(field.type)) for field in kind])
    return pa.decimal256(76, kind.scale) if pt.is_decimal(kind) else kind


def _element(kind: pa.DataType) -> pa.DataType:
    return _element(kind.value_type) if pt.is_list(kind) else kind


def check_exact(cells: pa.Array, result: pa.Array) -> None:
    """Refuse cells that Arrow has changed in a cast without an error, such as texts with
    hexadecimal digits, and numbers that became infinite.
    """
    # The casts convert the elements of lists too, with the same faults.
    while pt.is_list(result.type) and pt.is_list(cells.type):
        cells = cells.flatten()
        result = result.flatten()
    found = cells.type
    target = result.type
    is_text = _is_text(found)
    # Arrow takes the unit of the declared type, so one number would be several times.
    if pt.is_integer(found) and (pt.is_timestamp(target) or pt.is_time(target)):
        raise pa.ArrowInvalid("a number has no unit of time")
    if pt.is_timestamp(found) and pt.is_time(target):
        raise pa.ArrowInvalid("it has a date")
    if pt.is_timestamp(found) and pt.is_date(target):
        # Both casts take the zone of the cells, so an instant is a date at midnight in its zone.
        times = cells.cast(pa.time64("ns")).cast(pa.int64())
        _refuse(pc.not_equal(times, 0), "it has a time of day")
    if pt.is_boolean(target) and (pt.is_integer(found) or pt.is_floating(found)):
        _refuse(pc.not_equal(result.cast(found), cells), "it is neither 0 nor 1")
    if is_text and pt.is_integer(target):
        _refuse(pc.match_substring_regex(cells, "(?i)^[+-]?0x"), "it has hexadecimal digits")
    may_be_beyond = is_text or found == pa.float64() or pt.is_decimal(found)
    if pt.is_floating(target) and may_be_beyond and pc.any(pc.is_inf(result)).as_py():
        is_finite = (
            pc.invert(pc.match_substring_regex(cells, "(?i)inf"))
            if is_text
            else pc.is_finite(cells)
        )
        _refuse(
            pc.and_(pc.is_inf(result), is_finite),
            f"it is beyond {'FLOAT' if target == pa.float32() else 'DOUBLE'}",
        )


def _refuse(is_wrong: pa.Array, reason: str) -> None:
    if pc.any(is_wrong).as_py():
        raise pa.ArrowInvalid(reason)


def _fitted(column: FileColumn, cells: pa.Array) -> pa.Array:
    """Refuse texts and bytes that are longer than declared; pad the texts of a CHAR, like Flink's
    CAST.
    """
    declared = column.declared
    if declared is None or declared.type.kind not in (Kind.STRING, Kind.BYTES):
        return cells
    inner = cells
    while pt.is_list(inner.type):
        inner = inner.flatten()
    if declared.type.arguments and not pt.is_fixed_size_binary(inner.type):
        most = declared.type.arguments[0]
        measure = pc.utf8_length if declared.type.kind is Kind.STRING else pc.binary_length
        longest = pc.max(measure(inner)).as_py()
        if longest is not None and longest > most:
            raise pa.ArrowInvalid(f"it has the length {longest}, which is too long")
        # The texts of a list are only measured, because Arrow has no function to pad them in place.
        if declared.type.name == "CHAR" and inner is cells:
            return pc.utf8_rpad(cells, most)
    return cells


def flink_type(found: pa.DataType, is_inner: bool = False) -> tuple[str, pa.DataType] | None:
    """SQL type for an Arrow type, and the Arrow type that Flink uses for it; None if there is no
    exact one.
    """
    sql = _SQL.get(str(found))
    if sql is not None:
        return sql, arrow_type(parse_type(sql))
    if pt.is_dictionary(found):
        return flink_type(found.value_type, is_inner)
    if pt.is_timestamp(found):
        digits, unit = _TIMESTAMPS[found.unit]
        if found.tz is None:
            return f"TIMESTAMP({digits})", pa.timestamp(unit)
        # PyFlink has no ARRAY of TIMESTAMP_LTZ.
        return None if is_inner else (f"TIMESTAMP_LTZ({digits})", pa.timestamp(unit))
    if pt.is_decimal(found):
        # A negative scale stands for zeros before the point, which a DECIMAL of SQL counts as
        # digits.
        digits = found.precision - min(found.scale, 0)
        scale = max(found.scale, 0)
        fits = digits <= _MOST_DIGITS and scale <= digits
        return (f"DECIMAL({digits}, {scale})", pa.decimal128(digits, scale)) if fits else None
    if pt.is_fixed_size_binary(found):
        return (f"BINARY({found.byte_width})", found) if found.byte_width else None
    return _nested_type(found) if pt.is_nested(found) else None


def _nested_type(found: pa.DataType) -> tuple[str, pa.DataType] | None:
    if pt.is_map(found):
        key = flink_type(found.key_type, True)
        item = flink_type(found.item_type, True)
        return (
            None
            if key is None or item is None
            # Keys of Arrow's maps are not null, and Flink's Arrow expects the same of its own.
            else (f"MAP<{key[0]} NOT NULL, {item[0]}>", pa.map_(key[1], item[1]))
        )
    if pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found):
        element = flink_type(found.value_type, True)
        return None if element is None else (f"ARRAY<{element[0]}>", pa.list_(element[1]))
    if not pt.is_struct(found) or not found.num_fields:
        return None
    fields = [found.field(place) for place in range(found.num_fields)]
    inner = [(field.name, flink_type(field.type, True)) for field in fields]
    known = [(name, type_) for name, type_ in inner if type_ is not None]
    # The fields of a ROW need different names.
    if len(known) < len(inner) or len({name for name, _ in known}) < len(inner):
        return None
    sql = ", ".join(f"{quoted(name)} {type_[0]}" for name, type_ in known)
    return f"ROW<{sql}>", pa.struct([(name, type_[1]) for name, type_ in known])
