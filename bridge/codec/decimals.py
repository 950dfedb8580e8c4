"""Decimal numbers as plain text and back. Pure.

On the channels a DECIMAL is text, because no number of an Example or a tensor holds all of its
digits. The functions work on whole columns; Python's `decimal` would take a call for each cell.
"""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.codec.values import UnfitError, Values

# An int64 holds all numbers of so many digits, but not all of 19.
_DIGITS_OF_INT64 = 18
_MOST_DIGITS = 38  # of a decimal128


def plain_text(numbers: pa.Array) -> pa.Array:
    """Decimal numbers as text with all digits of the scale, in Flink's form, never "1E-7"."""
    scale = numbers.type.scale
    text = _without_point(numbers)
    if scale == 0:
        return text
    # The integer of a small number lacks the zeros behind the point: -0.05 is "-5". The limit
    # counts a sign. A text of this length without a sign has all its digits, and the padding leaves
    # it unchanged.
    short = pc.less_equal(pc.binary_length(text), scale + 1).fill_null(False)
    if pc.any(short).as_py():
        some = text.filter(short)
        digits = pc.ascii_lpad(pc.replace_substring(some, "-", ""), scale + 1, "0")
        signed = pc.if_else(
            pc.starts_with(some, "-"), pc.binary_join_element_wise("-", digits, ""), digits
        )
        text = pc.replace_with_mask(text, short, signed)
    return pc.binary_replace_slice(text, -scale, -scale, ".")


def from_text(values: Values, decimal_type: pa.DataType) -> pa.Array:
    """Numbers from text; UnfitError if it is not a number, or not exactly one of the type.

    Arrow parses columns that it reads correctly. Others are read cell by cell, which is slow but
    finds the first value that does not fit.
    """
    text = values.binary()
    try:
        digits = text.cast(pa.string())
        if _cannot_overflow(values, digits, decimal_type.scale):
            return digits.cast(decimal_type)
    except pa.ArrowInvalid:
        pass
    return pa.array(
        [_number(*each, decimal_type) for each in enumerate(text.to_pylist())], decimal_type
    )


def _cannot_overflow(values: Values, text: pa.Array, scale: int) -> bool:
    """True if Arrow's parser can be trusted: it overflows silently at exponents, and where it
    appends zeros.
    """
    if b"e" in values.data or b"E" in values.data:
        return False
    # Arrow appends zeros up to the scale, so a number with more digits than this before its point
    # would get more than 38 in all. A text that is short enough need not be searched for its point.
    before_point = _MOST_DIGITS - scale
    if values.lengths.max(initial=0) <= before_point:
        return True
    form = rf"^[-+]?\d{{0,{before_point}}}(\.\d{{0,{scale}}})?$"
    # Without `min_count`, the result for a column without values would be null.
    return pc.all(pc.match_substring_regex(text, form), min_count=0).as_py()  # type: ignore[no-any-return]


def _without_point(numbers: pa.Array) -> pa.Array:
    """Digits of the numbers as text, without the point: Arrow stores a decimal as an integer."""
    size = len(numbers)
    buffers = numbers.buffers()
    offset = numbers.offset
    if numbers.type.precision > _DIGITS_OF_INT64:
        # With scale 0, Arrow writes the integer without a point and without an exponent.
        return pa.Array.from_buffers(
            pa.decimal128(_MOST_DIGITS, 0), size, buffers, offset=offset
        ).cast(pa.string())
    # Numbers of up to 18 digits are the lower half of their 128 bits.
    low = np.frombuffer(buffers[1], "<i8", 2 * size, 16 * offset)[::2]
    return pa.array(
        low, mask=None if numbers.null_count == 0 else np.asarray(numbers.is_null())
    ).cast(pa.string())


def _number(position: int, text: bytes | None, decimal_type: pa.DataType) -> decimal.Decimal | None:
    if text is None:
        return None
    precision = decimal_type.precision
    scale = decimal_type.scale
    try:
        number = decimal.Decimal(text.decode("ascii").strip())
        # Python's default context has 28 digits, and a DECIMAL up to 38.
        exact = number.quantize(
            decimal.Decimal(1).scaleb(-scale), context=decimal.Context(prec=100)
        )
    except (UnicodeDecodeError, decimal.InvalidOperation):
        raise UnfitError(position, "a decimal number as text", repr(text)) from None
    if exact != number or len(exact.as_tuple().digits) > precision or not number.is_finite():
        raise UnfitError(
            position,
            f"a number of at most {precision} digits, {scale} of them behind the point",
            repr(text),
        )
    return exact
