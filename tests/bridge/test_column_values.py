"""Columns on their way to a served model: what goes out is what the other side's reader of columns gets."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from akdl.wire import Rows
from bridge.column_values import ColumnEncoder
from bridge.decoder import RowDecoder
from bridge.exceptions import RowError
from bridge.schema import Schema

ZERO = pd.Series([0, 0, 0])


def sent(schema, *columns, mask=ZERO):
    """Encode and decode; the decoder of script output reads the same messages."""
    schema = Schema.parse(schema)
    size, messages = ColumnEncoder(schema).encode([*columns, mask])
    return list(zip(*RowDecoder(schema).decode(Rows(rows=size, columns=messages))))


def test_numbers_keep_all_their_bits():
    columns = [pd.Series([2**53 + 1, -1, 0]), pd.Series([0.1, np.nan, -0.0]), pd.Series(np.array([0.5, np.inf, 1], "f4"))]
    rows = sent("a BIGINT NOT NULL, b DOUBLE NOT NULL, c FLOAT NOT NULL", *columns)
    assert [row[0] for row in rows] == [2**53 + 1, -1, 0]
    assert rows[0][1] == 0.1 and np.isnan(rows[1][1]) and rows[1][2] == np.inf


def test_nulls_come_in_the_mask():
    rows = sent("a INT, b BOOLEAN", pd.Series([1, 0, 3]), pd.Series([True, False, False]), mask=pd.Series([0, 1, 2]))
    assert rows == [(1, True), (None, False), (3, None)]


def test_text_and_bytes():
    rows = sent("a STRING, b BYTES", pd.Series(["ä", None, ""]), pd.Series([b"\x00", b"", None]))
    assert rows == [("ä", b"\x00"), (None, b""), ("", None)]


def test_dates_are_days():
    _, (message,) = ColumnEncoder(Schema.parse("a DATE")).encode([pd.Series([datetime.date(1970, 1, 3), None]), ZERO[:2]])
    assert (message.values, message.valid) == (np.array([2], "<i8").tobytes(), b"\x01\x00")


def test_arrays():
    cells = [np.array([1.5, 2.5]), None, np.array([])]
    rows = sent("a ARRAY<DOUBLE>, b ARRAY<STRING>", pd.Series(cells), pd.Series([["x"], ["", "yz"], None]))
    assert rows == [([1.5, 2.5], ["x"]), (None, ["", "yz"]), ([], None)]


def test_a_null_inside_an_array_is_refused():
    with pytest.raises(RowError, match=r"column 'a' \(ARRAY<DOUBLE>\): the array in row 1 of a batch holds a null"):
        sent("a ARRAY<DOUBLE>", pd.Series([[1.0], [2.0], [3.0]]), mask=pd.Series([0, 1, 0]))


def test_a_constant_column_comes_as_one_value():
    assert sent("a BIGINT NOT NULL", 7) == [(7,), (7,), (7,)]
