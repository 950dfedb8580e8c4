"""Rows as lines of CSV and JSON, made column by column. Pure.

Texts of a column are made by operations of Arrow, and Python rewrites only the few cells in which
Arrow's text differs from the one that Python or Java writes, such as NaN.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from bridge.codec.decimals import plain_text
from bridge.formats.csv_text import CsvForm

# Java spells special floats in this way.
_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# All cells that are not text consist of these characters, so such cells can need quotes only if a
# delimiter is one of them.
_IN_NUMBERS = set("+-.:0123456789 EINaefilnrstuy")
_ESCAPED = r'["\\\x00-\x1f]'


class CsvWriter:
    """Writer of rows as CSV without a line of names."""

    def __init__(self, file: pa.NativeFile, _: object, form: CsvForm) -> None:
        self._file = file
        self._form = form

    def write_table(self, table: pa.Table) -> None:
        for batch in table.to_batches():
            self._file.write(_bytes_of(self._lines(batch)))

    def close(self) -> None:
        """Write nothing: the text has no end."""

    def _lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Text of each row: null as an empty cell, an empty string as a quoted one."""
        form = self._form
        marks = form.field_delimiter + form.quote_char + form.row_delimiter
        # Readers of UTF-8 drop a byte order mark at the beginning of a file, but not inside quotes.
        special = f"[\r\n\ufeff{re.escape(marks)}]"
        quote = form.quote_char
        columns = list[pa.Array]()
        for column in batch.columns:
            texts = plain_texts(column)
            is_text = pt.is_string(column.type)
            if is_text or _IN_NUMBERS & set(marks):
                quoted = pc.match_substring_regex(texts, special)
                if is_text:
                    odd = pc.or_(
                        pc.equal(texts, ""), pc.not_equal(pc.utf8_trim_whitespace(texts), texts)
                    )
                    quoted = pc.or_(quoted, odd)
                if pc.any(quoted).as_py():
                    whole = pc.binary_join_element_wise(
                        quote, pc.replace_substring(texts, quote, quote * 2), quote, ""
                    )
                    texts = pc.if_else(quoted, whole, texts)
            # A single null is quoted too: an empty line would be a blank line and not a row.
            columns.append(pc.fill_null(texts, quote * 2 if batch.num_columns == 1 else ""))
        last = pc.binary_join_element_wise(columns.pop(), form.row_delimiter, "")
        return pc.binary_join_element_wise(*columns, last, form.field_delimiter)


class JsonWriter(CsvWriter):
    """Writer of rows as objects of JSON, one per line.

    Times are strings, of instants in UTC with a Z; bytes are strings in base64, and NaN and
    infinity strings too.
    """

    def _lines(self, batch: pa.RecordBatch) -> pa.Array:
        return _objects(batch.schema.names, batch.columns, "}\n")


def plain_texts(cells: pa.Array) -> pa.Array:
    """Texts of cells as Python's `str` writes them, of BOOLEAN and of special floats as Java does;
    nulls stay.
    """
    kind = cells.type
    if pt.is_string(kind):
        return cells
    if pt.is_floating(kind):
        return _float_texts(cells.cast(pa.float64()), as_python=True)
    if pt.is_time(kind) and kind != pa.time32("s"):
        return _without_zeros(cells.cast(pa.time64("us")).cast(pa.string()))
    if pt.is_timestamp(kind) and kind.unit != "s":
        if kind.unit == "ns":
            texts = cells.cast(pa.string())
            return _without_zeros(pc.replace_substring_regex(texts, r"(\.\d{6})000$", r"\1"))
        return _without_zeros(cells.cast(pa.timestamp("us")).cast(pa.string()))
    return plain_text(cells) if pt.is_decimal(kind) else cells.cast(pa.string())


def json_texts(cells: pa.Array) -> pa.Array:
    """JSON of cells, as an array without nulls: a null is the text null."""
    kind = cells.type
    if pt.is_nested(kind):
        texts = _nested(cells)
    elif pt.is_string(kind):
        texts = pc.binary_join_element_wise('"', cells, '"', "")
        odd = np.flatnonzero(pc.match_substring_regex(cells, _ESCAPED).fill_null(False))
        texts = _rewritten(texts, odd, cells, lambda cell: json.dumps(cell, ensure_ascii=False))
    elif pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        coded = [
            None if cell is None else f'"{base64.b64encode(cell).decode()}"'
            for cell in cells.to_pylist()
        ]
        texts = pa.array(coded, pa.string())
    elif pt.is_floating(kind):
        plain = _float_texts(cells, as_python=False)
        special = pc.invert(pc.is_finite(cells))
        texts = pc.if_else(special, pc.binary_join_element_wise('"', plain, '"', ""), plain)
    elif pt.is_temporal(kind):
        is_instant = pt.is_timestamp(kind) and kind.tz is not None
        plain = plain_texts(cells.view(pa.timestamp(kind.unit)) if is_instant else cells)
        texts = pc.binary_join_element_wise('"', plain, 'Z"' if is_instant else '"', "")
    else:
        texts = plain_texts(cells)
    return pc.if_else(pc.is_valid(cells), texts, "null")


def _nested(cells: pa.Array) -> pa.Array:
    kind = cells.type
    if pt.is_struct(kind):
        return _objects([field.name for field in kind], cells.flatten(), "}")
    if pt.is_map(kind):
        opening = "{"
        closing = "}"
        # `plain_texts` leaves texts as they are.
        names = json_texts(plain_texts(cells.keys))
        inner = pc.binary_join_element_wise(names, json_texts(cells.items), ":")
    else:
        inner = json_texts(cells.values)
        opening = "["
        closing = "]"
    lists = pa.ListArray.from_arrays(cells.offsets, inner)
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")


def _objects(names: Iterable[str], columns: Iterable[pa.Array], end: str) -> pa.Array:
    parts: list[Any] = []
    for name, column in zip(names, columns):
        parts += [
            f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:",
            json_texts(column),
        ]
    return pc.binary_join_element_wise(*parts, end, "")


def _float_texts(cells: pa.Array, as_python: bool) -> pa.Array:
    """Shortest texts of floats; `as_python` in Python's choice and form of exponents, which Arrow
    shares for most numbers.
    """
    numbers = cells.fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    # Arrow writes whole numbers below 1e10 without a point, and larger ones with an exponent.
    whole = (np.rint(numbers) == numbers) & (size < 1e10)
    texts = cells.cast(pa.string())
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    places = np.flatnonzero(~((size >= 1e-4) & (size < 1e10)))
    few = size[places]
    odd = ~np.isfinite(few)
    if as_python:
        # Below 1e-4 and from 1e10 on, Arrow and Python write different forms up to these bounds,
        # and the same form beyond them.
        odd |= (few > 1e-11) & (few < 1e16)
    return _rewritten(
        texts, places[odd], cells, lambda number: _FLOATS.get(str(number), str(number))
    )


def _without_zeros(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"\.000000$", "")


def _rewritten(
    texts: pa.Array, places: NDArray[np.intp], cells: pa.Array, text_of: Callable[[Any], str]
) -> pa.Array:
    """Replace the texts of a few cells, at some places, by texts that Python makes of the cells."""
    if not len(places):
        return texts
    written = pa.array(
        [text_of(cell) for cell in cells.take(pa.array(places)).to_pylist()], pa.string()
    )
    mask = np.zeros(len(texts), bool)
    mask[places] = True
    return pc.replace_with_mask(texts, pa.array(mask), written)


def _bytes_of(lines: pa.Array) -> pa.Buffer:
    """Concatenated texts of a new array, not of a slice."""
    _, offsets, data = lines.buffers()
    if data is None:
        return pa.py_buffer(b"")
    return data.slice(0, int(np.frombuffer(offsets, np.int32)[len(lines)]))
