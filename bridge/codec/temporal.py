"""Dates, times and timestamps that a script has written, as numbers or as text. Pure.

Only exact values pass. More digits than the declared type has are an error and are not cut off, and
so is a year outside of 1 to 9999.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from akdl.wire import BYTES
from akdl.wire.column_type import ColumnType, Kind
from bridge.codec.first_wrong import first_wrong
from bridge.codec.types import precision_of
from bridge.codec.values import UnfitError, Values

# The ranges are in the units in which scripts write numbers: days since 1970, milliseconds of the
# day, and microseconds since 1970.
_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_RANGES = {
    Kind.DATE: (-719_162, 2_932_896),
    Kind.TIME: (0, 86_400_000 - 1),
    Kind.TIMESTAMP: _YEARS_1_TO_9999,
    Kind.TIMESTAMP_LTZ: _YEARS_1_TO_9999,
}
# Arrow's parsers accept more than this, such as "20240229" and other time zones, so the form is
# checked before a text is parsed.
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_FORMS = {
    Kind.DATE: r"^\d{4}-\d\d-\d\d$",
    Kind.TIME: f"^{_CLOCK}$",
    Kind.TIMESTAMP: rf"^\d{{4}}-\d\d-\d\d[ T]{_CLOCK}$",
    Kind.TIMESTAMP_LTZ: rf"^\d{{4}}-\d\d-\d\d[ T]{_CLOCK}(Z|\+00:00)?$",
}
_EXAMPLES = {
    Kind.DATE: "2020-01-31",
    Kind.TIME: "23:59:59.123",
    Kind.TIMESTAMP: "2020-01-31 23:59:59.123456",
    Kind.TIMESTAMP_LTZ: "2020-01-31 23:59:59.123456Z",
}
_DIGITS_OF_UNIT = {"s": 0, "ms": 3, "us": 6}


def points_in_time(values: Values, column_type: ColumnType, arrow_type: pa.DataType) -> pa.Array:
    """Cells of DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ from days, milliseconds of the day,
    microseconds since 1970, or text.
    """
    kind = column_type.kind
    numbers = _parsed(values, kind) if values.value_type == BYTES else values.numbers
    # The range comes first, because a cast to 32 bits would wrap a larger number around.
    values.check_range(numbers, *_RANGES[kind])
    if kind is Kind.DATE:
        return values.array(arrow_type, numbers.astype("<i4", copy=False))
    digits = 3 if kind is Kind.TIME else 6
    precision = precision_of(column_type)
    if precision < digits:
        step = 10 ** (digits - precision)
        numbers = numbers.astype(np.int64, copy=False)
        expected = f"{precision or 'no'} digits behind the second"
        values.refuse_where(
            numbers // step * step != numbers, expected, lambda position: str(numbers[position])
        )
    # The check above makes this division exact: a unit of Arrow has at least as many digits as the
    # precision for which it is used.
    numbers = numbers // 10 ** (digits - _DIGITS_OF_UNIT[arrow_type.unit])
    return values.array(
        arrow_type, numbers.astype("<i4" if kind is Kind.TIME else "<i8", copy=False)
    )


def _parsed(values: Values, kind: Kind) -> NDArray[np.int64]:
    text = values.binary()
    try:
        numbers = _parse(text, kind)
    except pa.ArrowInvalid as error:
        place, _ = first_wrong(lambda part: _parse(part, kind), text, error)
        expected = f"a {kind.value} as text such as {_EXAMPLES[kind]!r}"
        raise UnfitError(place, expected, repr(text[place].as_py())) from None
    if kind is not Kind.TIME:
        return numbers
    milliseconds = numbers // 1000
    values.refuse_where(
        milliseconds * 1000 != numbers,
        "at most 3 digits behind the second",
        lambda position: repr(text[position].as_py()),
    )
    return milliseconds


def _parse(text: pa.Array, kind: Kind) -> NDArray[np.int64]:
    trimmed = pc.utf8_trim_whitespace(text.cast(pa.string()))
    if not pc.all(pc.match_substring_regex(trimmed, _FORMS[kind]), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not all are a {kind.value}")
    # Arrow before 17 cannot parse a time alone.
    if kind is Kind.TIME:
        trimmed = pc.binary_join_element_wise("1970-01-01", trimmed, " ")
    if kind is Kind.TIMESTAMP_LTZ:
        trimmed = pc.replace_substring_regex(trimmed, r"(Z|\+00:00)$", "")
    # The pyarrow 11 of Flink 1.20 cannot parse a date alone, so it is read as a timestamp first.
    points = trimmed.cast(pa.timestamp("us"))
    points = (
        points.cast(pa.date32()).cast(pa.int32()) if kind is Kind.DATE else points.cast(pa.int64())
    )
    # An array of numpy has no null integers. `Values` has the bitmap of nulls, so any number may
    # stand there.
    numbers: NDArray[np.int64] = points.fill_null(0).to_numpy()
    return numbers
