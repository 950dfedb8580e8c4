"""Columnar batches as scripts give them; what they decode to is tested with the decoder."""

import datetime

import numpy as np
import pytest

from akdl.columns import encode_columns
from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, TableColumn


def encode(sql, cells):
    message = encode_columns({"x": cells}, [TableColumn(name="x", type=sql)])
    return message.rows, message.columns[0]


@pytest.mark.parametrize(
    ("sql", "cells", "value_type", "values"),
    [
        ("BIGINT", [1, 2], INT64, np.array([1, 2], "<i8").tobytes()),
        ("INT", np.array([1, 2], "u1"), INT64, np.array([1, 2], "<i8").tobytes()),
        ("FLOAT", np.array([0.5], "f4"), FLOAT32, np.array([0.5], "<f4").tobytes()),
        ("DOUBLE", [0.1], FLOAT64, np.array([0.1], "<f8").tobytes()),
        ("DOUBLE", np.array([3]), FLOAT64, np.array([3.0], "<f8").tobytes()),
        ("BOOLEAN", [True, False], INT64, np.array([1, 0], "<i8").tobytes()),
        ("STRING", ["é", b"x"], BYTES, "éx".encode()),
        ("STRING", np.array(["ab", "c"]), BYTES, b"abc"),
        ("DECIMAL(5, 2)", [1, "2.5"], BYTES, b"12.5"),
        ("DATE", np.array(["1970-01-03"], "M8[D]"), INT64, np.array([2], "<i8").tobytes()),
        ("DATE", [datetime.date(1970, 1, 3)], BYTES, b"1970-01-03"),
        ("TIMESTAMP(6)", np.array(["1970-01-01T00:00:01"], "M8[s]"), INT64, np.array([10**6], "<i8").tobytes()),
    ],
)
def test_values_of_every_kind(sql, cells, value_type, values):
    rows, column = encode(sql, cells)
    assert (rows, column.type, column.values, column.valid) == (len(cells), value_type, values, b"")


@pytest.mark.parametrize(
    "cells", [[1, None, 3], np.array([1, None, 3], object), np.ma.masked_array([1, 2, 3], [False, True, False])]
)
def test_nulls(cells):
    rows, column = encode("INT", cells)
    assert (rows, column.valid, column.values) == (3, b"\1\0\1", np.array([1, 3], "<i8").tobytes())


@pytest.mark.parametrize("cells", [np.array([[1.0, 2.0], [3.0, 4.0]], "f4"), [[1.0, 2.0], [3.0, 4.0]]])
def test_arrays(cells):
    rows, column = encode("ARRAY<FLOAT>", cells)
    assert (rows, column.cell_lengths) == (2, np.array([2, 2], "<u4").tobytes())


def test_ragged_arrays_with_nulls():
    rows, column = encode("ARRAY<STRING>", [["a", "bc"], None, []])
    assert (rows, column.valid, column.values) == (3, b"\1\0\1", b"abc")
    assert column.cell_lengths == np.array([2, 0], "<u4").tobytes()
    assert column.value_lengths == np.array([1, 2], "<u4").tobytes()


def test_no_rows():
    assert encode("BIGINT", [])[0] == 0


@pytest.mark.parametrize(
    ("sql", "cells", "error", "words"),
    [
        ("BIGINT", [0.5], TypeError, "expected integers, got float64 such as 0.5"),
        ("BIGINT", [True], TypeError, "expected integers, got bool"),
        ("BIGINT", np.array([2**63], "u8"), TypeError, "expected integers below 2**63"),
        ("BOOLEAN", [1], TypeError, "expected booleans, got int64"),
        ("STRING", [7], TypeError, "expected text or bytes, got 7"),
        ("DOUBLE", ["1.5"], TypeError, "expected numbers, got str"),
        ("INT", np.array([[1]]), ValueError, "expected cells of shape [rows], got [1, 1]"),
        ("INT", np.array(1), ValueError, "expected one value per row, got the single value 1"),
        ("ARRAY<INT>", [1], ValueError, "expected an array of shape [rows, n] or a list of lists"),
    ],
)
def test_cells_that_do_not_fit(sql, cells, error, words):
    with pytest.raises(error, match="column 'x'") as caught:
        encode(sql, cells)
    assert words in str(caught.value)


def test_columns_that_do_not_fit_together():
    columns = [TableColumn(name="x", type="INT"), TableColumn(name="y", type="INT")]
    with pytest.raises(ValueError, match="different numbers of rows: {'x': 1, 'y': 2}"):
        encode_columns({"x": [1], "y": [1, 2]}, columns)
    with pytest.raises(ValueError, match="unknown column 'z'; outputSchemaStr has 'x', 'y'"):
        encode_columns({"z": [1]}, columns)
    with pytest.raises(ValueError, match="no column was given"):
        encode_columns({}, columns)
