"""Columnar batches as scripts give them; what they decode to is tested with the decoder."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from akdl.columns import decode_columns, encode_columns
from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, Rows, TableColumn

EAST = datetime.timezone(datetime.timedelta(hours=1))


class Tensor:
    """As much of an eager tensor as there is to see."""

    def __init__(self, values):
        self._values = values

    def __len__(self):
        return len(self._values)

    def numpy(self):
        return np.array(self._values)


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
        ("DECIMAL(5, 2)", [decimal.Decimal("1.50"), b"2"], BYTES, b"1.502"),
        ("DECIMAL(5, 2)", np.array([1, 2]), BYTES, b"12"),
        ("FLOAT", [0.5], FLOAT32, np.array([0.5], "<f4").tobytes()),
        ("FLOAT", [1, 2], FLOAT32, np.array([1, 2], "<f4").tobytes()),
        ("FLOAT", [np.inf, -np.inf], FLOAT32, np.array([np.inf, -np.inf], "<f4").tobytes()),
        ("BIGINT NOT NULL", pd.Series([1, 2], dtype="i2"), INT64, np.array([1, 2], "<i8").tobytes()),
        ("BIGINT", Tensor([1, 2]), INT64, np.array([1, 2], "<i8").tobytes()),
        ("BYTES", [b"\xff", b""], BYTES, b"\xff"),
        ("TIME", [datetime.time(1, 2, 3)], BYTES, b"01:02:03"),
        ("TIME", [1000], INT64, np.array([1000], "<i8").tobytes()),
        ("TIMESTAMP(3)", [datetime.datetime(1970, 1, 1, 1)], BYTES, b"1970-01-01T01:00:00"),
        ("TIMESTAMP_LTZ(3)", [datetime.datetime(1970, 1, 1, 1, tzinfo=EAST)], BYTES, b"1970-01-01T00:00:00"),
        ("TIMESTAMP_LTZ(3)", pd.Series(pd.to_datetime([1500], unit="ns").floor("us")), INT64, np.array([1], "<i8").tobytes()),
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


def test_nan_is_a_number_and_nat_a_null():
    _, column = encode("DOUBLE", [np.nan, 1.0])
    assert (column.valid, column.values) == (b"", np.array([np.nan, 1.0]).tobytes())
    _, column = encode("TIMESTAMP(3)", np.array(["NaT", "1970-01-01"], "M8[ms]"))
    assert (column.valid, column.values) == (b"\0\1", bytes(8))


@pytest.mark.parametrize(
    ("cells", "valid", "lengths", "values"),
    [
        (np.ma.masked_array([[1, 2], [3, 4]], [[True, True], [False, False]]), b"\0\1", [2], [3, 4]),
        (np.ma.masked_array(np.zeros((0, 2), "i8")), b"", [], []),
        (np.zeros((2, 0), "i8"), b"", [0, 0], []),
        ([np.array([1, 2]), None, np.array([3])], b"\1\0\1", [2, 1], [1, 2, 3]),
        ([np.array([1, 2]), [3]], b"", [2, 1], [1, 2, 3]),
        ([None, None], b"\0\0", [], []),
        ([[], []], b"", [0, 0], []),
    ],
)
def test_arrays_of_numpy(cells, valid, lengths, values):
    _, column = encode("ARRAY<BIGINT>", cells)
    assert (column.valid, column.values) == (valid, np.array(values, "<i8").tobytes())
    assert column.cell_lengths == np.array(lengths, "<u4").tobytes()


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
        ("STRING", [7], TypeError, "expected text or bytes, got 7 of type int"),
        ("STRING", "text", ValueError, "expected one value per row, got the single value 'text'"),
        ("INT", 7, ValueError, "expected one value per row, got the single value 7"),
        ("BIGINT", [1, True], TypeError, "expected integers, got bool, int such as 1"),
        ("FLOAT", [0.5, 1e39], TypeError, "expected numbers within its range, got float64 such as 1e+39"),
        ("DECIMAL(5, 2)", [0.5], TypeError, "expected decimal.Decimal, int or text, got 0.5 of type float"),
        ("DECIMAL(5, 2)", [True], TypeError, "expected decimal.Decimal, int or text, got True"),
        ("DATE", np.array(["1970-01-01T01"], "M8[h]"), TypeError, "expected days, got datetime64[h] such as"),
        ("DATE", [datetime.datetime(1970, 1, 1)], TypeError, "expected datetime64, datetime.date, days or text"),
        ("TIME", np.array([1], "M8[ms]"), TypeError, "expected integers (milliseconds of the day) or text"),
        ("TIMESTAMP(6)", np.array([1], "M8[ns]"), TypeError, "expected at most microseconds"),
        ("TIMESTAMP(6)", [datetime.datetime(1970, 1, 1, tzinfo=EAST)], TypeError, "without time zone"),
        ("TIMESTAMP(6)", [datetime.date(1970, 1, 1)], TypeError, "expected datetime64, datetime.datetime without"),
        ("ARRAY<INT>", [[1, None]], TypeError, "expected integers, got NoneType, int such as 1"),
        ("ARRAY<STRING>", [["a", None]], TypeError, "expected text or bytes, got None"),
        ("ARRAY<INT>", [np.array([1]), np.array([0.5])], TypeError, "expected integers, got float64"),
        ("ARRAY<INT>", np.zeros((1, 1, 1), int), ValueError, "expected an array of shape [rows, n]"),
        ("ARRAY<INT>", np.ma.masked_array([[1, 2]], [[True, False]]), ValueError, "got null elements in row 0"),
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


@pytest.mark.parametrize(
    ("type_", "cells"),
    [
        ("BIGINT", [1, None, -(2**63)]),
        ("BOOLEAN", [True, False, None]),
        ("DOUBLE", [0.5, float("inf"), None]),
        ("STRING", ["é", "", None]),
        ("BYTES", [b"\xff", b"", None]),
        ("ARRAY<INT>", [[1, 2], [], None]),
        ("ARRAY<FLOAT>", [[1.0, 2.0], [3.0, 4.0]]),
        ("ARRAY<STRING>", [["a", "b"], []]),
        ("ARRAY<BOOLEAN>", [[], []]),
        ("DOUBLE", []),
        ("DOUBLE", [None]),
        ("STRING", [None]),
        ("ARRAY<FLOAT>", []),
        ("ARRAY<FLOAT>", [None, None]),
    ],
)
def test_columns_there_and_back(type_, cells):
    column = [TableColumn(name="c", type=type_)]
    decoded = decode_columns(Rows.FromString(encode_columns({"c": cells}, column).SerializeToString()), column)["c"]
    assert [cell.tolist() if isinstance(cell, (np.ndarray, np.generic)) else cell for cell in decoded] == cells


def test_what_cannot_be_decoded():
    rows = encode_columns({"x": [1, 2]}, [TableColumn(name="x", type="BIGINT")])
    with pytest.raises(ValueError, match="unknown column 'x'; expected 'y'"):
        decode_columns(rows, [TableColumn(name="y", type="BIGINT")])
    with pytest.raises(ValueError, match="expected 3 rows, got 3, of them 3 not null, and 2 cells"):
        decode_columns(Rows(rows=3, columns=rows.columns), [TableColumn(name="x", type="BIGINT")])
