"""Cells of .ak files: Java objects as bytes of Flink's serializers, big-endian. Pure."""

from __future__ import annotations

import datetime
import decimal
import struct
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from akdl.storage.ak_records import Record, read_string
from akdl.wire.byte_arrays import varint
from akdl.wire.column_type import Kind
from operators.alink.java_times import JavaClock

Reader = Callable[[Record, int], tuple[Any, int]]

_EPOCH = datetime.datetime(1970, 1, 1)
_NUMBERS = {
    Kind.BOOLEAN: "?",
    Kind.TINYINT: "b",
    Kind.SMALLINT: "h",
    Kind.INT: "i",
    Kind.BIGINT: "q",
    Kind.FLOAT: "f",
    Kind.DOUBLE: "d",
}
# Flink's serializer writes these integers as a length alone, which is their place in this tuple.
# None stands for null.
_SMALL = (None, 0, 1, 10)
# A DECIMAL of Flink has at most this many digits.
MOST_DIGITS = 38
# Integers of more bytes are refused before they are read, because a damaged length could ask for
# any number of them. The 38 digits of a DECIMAL take 16 bytes.
_MOST_NUMBER_BYTES = 64
# A vector begins with Flink's flags for an object without a subclass and for a field that is not
# null. Its length follows.
_DENSE_VECTOR = struct.Struct(">bbi")
UNREADABLE = (struct.error, IndexError, ValueError, OverflowError)


def cell_reader(kind: Kind, clock: JavaClock) -> Reader:
    """Function from a record and an offset to a cell and the offset after it."""
    if kind in _NUMBERS:
        # The form is made once here, because the function below runs for each cell.
        form = struct.Struct(">" + _NUMBERS[kind])
        return lambda record, place: (form.unpack_from(record, place)[0], place + form.size)

    def of_form(form: struct.Struct, value: Callable[..., Any]) -> Reader:
        return lambda record, place: (value(*form.unpack_from(record, place)), place + form.size)

    readers: dict[Kind, Reader] = {
        Kind.STRING: read_string,
        Kind.BYTES: _read_bytes,
        Kind.DECIMAL: _read_decimal,
        Kind.DATE: of_form(_LONG, lambda milliseconds: clock.local(milliseconds).date()),
        Kind.TIME: of_form(_LONG, lambda milliseconds: clock.local(milliseconds).time()),
        Kind.TIMESTAMP: of_form(_TIMESTAMP, partial(_timestamp, clock)),
    }
    return readers[kind]


def read_dense_vector(record: Record, place: int) -> tuple[str | None, int]:
    # This is Flink's flag for null.
    if record[place] == 1:
        return None, place + 1
    flag, absent, length = _DENSE_VECTOR.unpack_from(record, place)
    # A vector cannot have more numbers than the record has room for, so a damaged length is refused
    # before memory is taken.
    if (flag, absent) != (2, 0) or not 0 <= length <= len(record) // 8:
        raise ValueError("the bytes are not a valid dense vector")
    numbers = struct.Struct(f">{length}d")
    place += _DENSE_VECTOR.size
    text = " ".join(map(repr, numbers.unpack_from(record, place)))
    # Java spells these numbers in full.
    return text.replace("nan", "NaN").replace("inf", "Infinity"), place + numbers.size


def cell_writer(kind: Kind, clock: JavaClock) -> Callable[[Any], bytes]:
    """Function from a cell to its bytes; it raises a ValueError for a time that the zone skips."""
    if kind in _NUMBERS:
        return struct.Struct(">" + _NUMBERS[kind]).pack

    def write_time(cell: datetime.time) -> bytes:
        if cell.microsecond % 1000:
            raise ValueError(f"{cell} has microseconds, but a TIME in an .ak file has milliseconds")
        return _LONG.pack(clock.milliseconds(datetime.datetime.combine(_EPOCH, cell)))

    def write_timestamp(cell: datetime.datetime) -> bytes:
        # The nanoseconds of java.sql.Timestamp contain its milliseconds too, so the part below a
        # second is written twice.
        whole = cell.replace(microsecond=cell.microsecond // 1000 * 1000)
        return _TIMESTAMP.pack(clock.milliseconds(whole), cell.microsecond * 1000)

    writers = {
        Kind.STRING: write_string,
        Kind.BYTES: lambda cell: _INT.pack(len(cell)) + bytes(cell),
        Kind.DECIMAL: _write_decimal,
        Kind.DATE: lambda cell: _LONG.pack(clock.milliseconds_of_date(cell)),
        Kind.TIME: write_time,
        Kind.TIMESTAMP: write_timestamp,
    }
    return writers[kind]


def digits_of(numbers: Iterable[decimal.Decimal]) -> tuple[int, int]:
    """Number of digits before and after the decimal point that all numbers need."""
    before = after = 0
    for number in numbers:
        if number:
            _, digits, exponent = number.as_tuple()
            # Zeros at the end need no digits after the point: 1.500 needs one.
            zeros = next(place for place, digit in enumerate(reversed(digits)) if digit)
            before = max(before, len(digits) + int(exponent))
            after = max(after, -zeros - int(exponent))
    return before, after


# Java writes integers in big-endian order: 4 bytes, 8 bytes, and for a timestamp 8 bytes of
# milliseconds and 4 of nanoseconds.
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TIMESTAMP = struct.Struct(">qi")


def _timestamp(clock: JavaClock, milliseconds: int, nanoseconds: int) -> datetime.datetime:
    # The milliseconds stand in both numbers, see `write_timestamp`, so damage shows where they
    # differ.
    if not 0 <= nanoseconds < 1_000_000_000 or nanoseconds // 1_000_000 != milliseconds % 1000:
        raise ValueError("the bytes are not a valid TIMESTAMP")
    if nanoseconds % 1000:
        raise ValueError(
            f"a TIMESTAMP has {nanoseconds} nanoseconds; akdl reads at most TIMESTAMP(6)"
        )
    return clock.local(milliseconds).replace(microsecond=nanoseconds // 1000)


def write_string(cell: object) -> bytes:
    text = str(cell)
    if text.isascii():
        return varint(len(text) + 1) + text.encode("ascii")
    # Java's strings consist of 16-bit units. They are made in this machine's byte order, because
    # `array` reads them so, and lone surrogates pass as they do in Java.
    units = array("H", text.encode(f"utf-16-{sys.byteorder[0]}e", "surrogatepass"))
    return varint(len(units) + 1) + b"".join(map(varint, units))


def _read_bytes(record: Record, place: int) -> tuple[bytes, int]:
    (length,) = _INT.unpack_from(record, place)
    end = place + 4 + length
    if length < 0 or end > len(record):
        raise ValueError("the record ends inside bytes")
    return bytes(record[place + 4 : end]), end


def _read_whole(record: Record, place: int) -> tuple[int | None, int]:
    """Read an integer of any size: its number of bytes plus four and the bytes, or one of the
    lengths that `_SMALL` maps.
    """
    (length,) = _INT.unpack_from(record, place)
    place += 4
    if 0 <= length < 4:
        return _SMALL[length], place
    end = place + length - 4
    if length < 0 or end > len(record):
        raise ValueError("the record ends inside a DECIMAL")
    if end - place > _MOST_NUMBER_BYTES:
        raise ValueError(f"a DECIMAL has {end - place} bytes; akdl reads at most 38 digits")
    return int.from_bytes(record[place:end], "big", signed=True), end


def _read_decimal(record: Record, place: int) -> tuple[decimal.Decimal | None, int]:
    number, place = _read_whole(record, place)
    if number is None:
        return None, place
    (scale,) = _INT.unpack_from(record, place)
    # From its digits: arithmetic would round to the 28 digits of the default context.
    return decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)), place + 4


def _write_decimal(cell: decimal.Decimal) -> bytes:
    sign, digits, exponent = cell.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    scale = _INT.pack(-int(exponent))
    if number in (0, 1, 10):
        return _INT.pack(_SMALL.index(number)) + scale
    # Java's BigInteger has one bit for the sign and no more bytes than needed. -128 needs one byte
    # and 128 needs two, which the sum with a negative number's sign accounts for.
    octets = number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)
    return _INT.pack(len(octets) + 4) + octets + scale
