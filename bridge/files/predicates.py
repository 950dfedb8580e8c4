"""SQL predicates over single rows as expressions of pyarrow, such as "price > 1.5 AND city IN
('Rome', 'Oslo')". Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from akdl.near_names import did_you_mean, listed
from bridge.exceptions import ConfigurationError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)|'(?P<text>(?:[^']|'')*)'|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|<>|!=|[=<>(),-]))"
)
_KEYWORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"}
_COMPARE = {"=": eq, "<>": ne, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_EXAMPLE = (
    "expected comparisons with AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL; filter the source's"
    " table for all of SQL"
)


def expression_of(
    text: str, types: Mapping[str, pa.DataType], zone: datetime.tzinfo = datetime.timezone.utc
) -> pc.Expression:
    """Expression for a predicate over columns of these types; ConfigurationError if it cannot be
    one.

    Args:
        types: Type of each column. That of instants has a zone, though their cells are in UTC.
        zone: Time zone of literals for instants, unless they have an offset.
    """
    return _Parser(text, types, zone).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class _Parser:
    """Reader of one predicate, by descent: a method for each level, from OR down to a literal.

    It becomes an expression of pyarrow, with which whole row groups and folders can be left out.
    """

    def __init__(self, text: str, types: Mapping[str, pa.DataType], zone: datetime.tzinfo) -> None:
        self._text = text
        self._types = types
        self._zone = zone
        self._tokens: list[_Token] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                self._refuse(at + len(text[at:]) - len(text[at:].lstrip()))
            kind = str(found.lastgroup)
            # A text may have ``, which is one sign in back-quotes only.
            mark = "`" if kind == "quoted" else "'"
            token = _Token(kind, found[kind].replace(mark * 2, mark), found.start(kind))
            # A column in back-quotes may have the name of a keyword.
            is_key = kind == "word" and token.text.upper() in _KEYWORDS
            self._tokens.append(_Token("key", token.text.upper(), token.place) if is_key else token)
            at = found.end()
        self._tokens.append(_Token("end", "", len(text)))
        self._at = 0

    def whole(self) -> pc.Expression:
        result = self._either()
        if self._peek().kind != "end":
            self._refuse()
        return result

    def _either(self) -> pc.Expression:
        result = self._all()
        while self._takes("OR"):
            result |= self._all()
        return result

    def _all(self) -> pc.Expression:
        result = self._one()
        while self._takes("AND"):
            result &= self._one()
        return result

    def _one(self) -> pc.Expression:
        if self._takes("NOT"):
            return ~self._one()
        if self._takes("("):
            result = self._either()
            self._needs(")")
            return result
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        operand = self._operand()
        type_ = self._types.get(operand.text) if operand.kind == "column" else None
        left = self._expression(operand, type_)
        if self._takes("IS"):
            is_not = self._takes("NOT")
            self._needs("NULL")
            return left.is_valid() if is_not else left.is_null()
        is_not = self._takes("NOT")
        if self._takes("IN"):
            self._needs("(")
            result = left == self._value(type_)
            while self._takes(","):
                # pyarrow's `isin` is false for a null, while IN is null, so that NOT IN leaves rows
                # with a null out.
                result |= left == self._value(type_)
            self._needs(")")
        elif self._takes("BETWEEN"):
            low = self._value(type_)
            self._needs("AND")
            result = (left >= low) & (left <= self._value(type_))
        elif self._takes("LIKE"):
            pattern = self._operand()
            if pattern.kind != "text":
                self._refuse(pattern.place)
            result = pc.match_like(left, pattern.text)
        elif is_not:
            self._refuse()
        else:
            return self._compared(operand, type_)
        return ~result if is_not else result

    def _compared(self, left: _Token, type_: pa.DataType | None) -> pc.Expression:
        sign = self._peek()
        if sign.kind == "sign" and sign.text in _COMPARE:
            self._at += 1
            right = self._operand()
            type_ = type_ or self._types.get(right.text) if right.kind == "column" else type_
            return _COMPARE[sign.text](
                self._expression(left, type_), self._expression(right, type_)
            )
        if type_ is None or not pt.is_boolean(type_):
            self._refuse(sign.place)
        return self._expression(left, None)

    def _value(self, type_: pa.DataType | None) -> pc.Expression:
        return self._expression(self._operand(), type_)

    def _operand(self) -> _Token:
        """Column or literal."""
        token = self._next()
        kind, text, place = token
        # DATE and TIMESTAMP are not keywords, since columns have such names. A text behind them
        # makes them a literal.
        if kind == "word" and self._peek().kind == "text" and text.upper() in ("DATE", "TIMESTAMP"):
            return _Token(text.upper(), self._next().text, place)
        if kind in ("quoted", "word"):
            if text not in self._types:
                raise _unknown(text, self._types)
            return _Token("column", text, place)
        if text == "-" and self._peek().kind == "number":
            return _Token("number", f"-{self._next().text}", place)
        if kind not in ("number", "text") and text not in ("TRUE", "FALSE"):
            self._refuse(place)
        return token

    def _expression(self, operand: _Token, wanted: pa.DataType | None) -> pc.Expression:
        """Expression of a column, or of a literal in the type `wanted`.

        pyarrow does not compare a text with a date, so a literal takes the type of its column.
        """
        kind, text, place = operand
        if kind == "column":
            # SQL compares instants with local times by the rules of the session's zone.
            if getattr(self._types[text], "tz", None) != getattr(wanted, "tz", None):
                self._refuse(place)
            return pc.field(text)
        if kind == "key":
            return pc.scalar(text == "TRUE")
        types = {"DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us")}
        try:
            if kind == "number":
                return pc.scalar(_number(text, wanted))
            if getattr(wanted, "tz", None):
                return pc.scalar(_instant(text, self._zone))
            return pc.scalar(_text(text, types.get(kind, wanted)))
        except (ValueError, OverflowError, pa.ArrowException):
            self._refuse(place)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        found = self._peek()
        self._at += 1
        return found

    def _takes(self, token: str) -> bool:
        found = self._peek()
        if found.kind in ("key", "sign") and found.text == token:
            self._at += 1
            return True
        return False

    def _needs(self, token: str) -> None:
        if not self._takes(token):
            self._refuse()

    def _refuse(self, place: int | None = None) -> NoReturn:
        place = self._peek().place if place is None else place
        rest = self._text[place:].strip()
        found = f"found {rest[:40]!r} at character {place + 1}" if rest else "it ends too early"
        raise ConfigurationError(
            f"the predicate {self._text!r} cannot be read: {found}; {_EXAMPLE}"
        )


def _number(text: str, wanted: pa.DataType | None) -> Any:
    if wanted is not None and pt.is_decimal(wanted):
        # A literal with more digits than its column is compared as a plain number.
        with suppress(pa.ArrowException):
            return pa.scalar(Decimal(text), wanted)
    is_whole = text.lstrip("-").isdecimal()
    if wanted is not None and pt.is_integer(wanted) and not is_whole:
        # pyarrow would compare a float with a column as FLOAT, and refuse integers beyond 2**24.
        number = pa.scalar(Decimal(text))
        with suppress(pa.ArrowException):
            return number.cast(pa.int64())
        return number
    is_float = wanted is not None and pt.is_floating(wanted)
    return int(text) if is_whole and not is_float else float(text)


def _text(text: str, wanted: pa.DataType | None) -> Any:
    if wanted is not None and pt.is_date(wanted):
        return datetime.date.fromisoformat(text)
    if wanted is not None and pt.is_temporal(wanted):
        return pa.array([text]).cast(pa.timestamp("us") if pt.is_timestamp(wanted) else wanted)[0]
    return text


def _instant(text: str, zone: datetime.tzinfo) -> pa.Scalar:
    """Instant of a text in UTC, as the cells of files have it."""
    # Arrow 11 has fewer checks for a scalar.
    texts = pa.array([text])
    try:
        return texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))[0]
    except pa.ArrowException:
        local = texts.cast(pa.timestamp("us"))[0]
    offset = local.as_py().replace(tzinfo=zone).utcoffset()
    return pc.subtract(local, pa.scalar(offset, pa.duration("us")))


def columns_in(expression: pc.Expression, types: Mapping[str, pa.DataType]) -> list[str]:
    """Columns that an expression reads, perhaps more; ConfigurationError if it does not fit their
    types.
    """
    # An expression of pyarrow has no list of its columns, but its text names them. A name that is
    # part of another one is taken too, which only costs the reading of a column.
    text = str(expression)
    used = [name for name in types if name in text]
    # A filter of a table without rows checks names and types all the same.
    table = pa.table({name: pa.nulls(0, types[name]) for name in used or types})
    try:
        table.filter(expression)
    except (pa.ArrowException, TypeError) as error:
        unknown = re.search(r"FieldRef\.Name\((.*?)\)", str(error))
        if unknown is not None:
            raise _unknown(unknown[1], types) from None
        columns = ", ".join(f"{name} {types[name]}" for name in used)
        raise ConfigurationError(
            f"{text} does not fit the columns ({columns}): compare each column with values of its"
            " type, or declare another type in schemaStr"
        ) from None
    return used


def _unknown(name: str, types: Mapping[str, pa.DataType]) -> ConfigurationError:
    return ConfigurationError(
        f"there is no column {name!r}{did_you_mean(name, types)}; the files have {listed(types)}"
    )
