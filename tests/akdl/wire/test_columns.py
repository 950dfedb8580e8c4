"""Columnar batches as scripts give them; what they decode to is tested with the decoder."""

from __future__ import annotations

import datetime
import decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl.wire import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    Column,
    Output,
    Rows,
    TableColumn,
)
from akdl.wire.cells import read_cells
from akdl.wire.columns import decode_columns, encode_columns, fill_rows, is_utf8

EAST = datetime.timezone(datetime.timedelta(hours=1))


class Tensor:
    """As much of an eager tensor as there is to see."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self._values)


def encode(sql: str, cells: Any) -> tuple[int, Column]:
    message = encode_columns({"x": cells}, [TableColumn(name="x", type=sql)])
    return message.rows, message.columns[0]


@pytest.mark.parametrize(
    ("sql", "cells", "value_type", "values"),
    [
        ("BIGINT", [1, 2], INT64, np.array([1, 2], "<i8").tobytes()),
        ("INT", np.array([1, 200], "u1"), INT16, np.array([1, 200], "<i2").tobytes()),
        (
            "BIGINT",
            np.array([1, 2**32 - 1], "u4"),
            INT64,
            np.array([1, 2**32 - 1], "<i8").tobytes(),
        ),
        (
            "BIGINT",
            np.array([1, 2**63 - 1], "u8"),
            INT64,
            np.array([1, 2**63 - 1], "<i8").tobytes(),
        ),
        ("BIGINT", np.array([1, 2], ">i4"), INT32, np.array([1, 2], "<i4").tobytes()),
        ("FLOAT", np.array([0.5], "f4"), FLOAT32, np.array([0.5], "<f4").tobytes()),
        ("DOUBLE", [0.1], FLOAT64, np.array([0.1], "<f8").tobytes()),
        ("DOUBLE", np.array([3]), FLOAT64, np.array([3.0], "<f8").tobytes()),
        ("BOOLEAN", [True, False], BOOL, b"\1"),
        ("BOOLEAN", np.array([False] * 8 + [True]), BOOL, b"\0\1"),
        ("STRING", ["é", b"x"], BYTES, "éx".encode()),
        ("STRING", np.array(["ab", "c"]), BYTES, b"abc"),
        ("STRING", ["a", "é"], BYTES, "aé".encode()),
        ("STRING", np.array([b"ab", b"c"], object), BYTES, b"abc"),
        ("DECIMAL(5, 2)", [1, "2.5"], BYTES, b"12.5"),
        ("DATE", np.array(["1970-01-03"], "M8[D]"), INT64, np.array([2], "<i8").tobytes()),
        ("DECIMAL(5, 2)", [decimal.Decimal("1.50"), b"2"], BYTES, b"1.502"),
        ("DECIMAL(5, 2)", np.array([1, 2]), BYTES, b"12"),
        ("FLOAT", [0.5], FLOAT32, np.array([0.5], "<f4").tobytes()),
        ("FLOAT", [1, 2], FLOAT32, np.array([1, 2], "<f4").tobytes()),
        ("FLOAT", [np.inf, -np.inf], FLOAT32, np.array([np.inf, -np.inf], "<f4").tobytes()),
        (
            "BIGINT NOT NULL",
            pd.Series([1, 2], dtype="i2"),
            INT16,
            np.array([1, 2], "<i2").tobytes(),
        ),
        ("BIGINT", Tensor([1, 2]), INT64, np.array([1, 2], "<i8").tobytes()),
        ("BYTES", [b"\xff", b""], BYTES, b"\xff"),
        ("TIME", [datetime.time(1, 2, 3)], BYTES, b"01:02:03"),
        ("TIME", [1000], INT64, np.array([1000], "<i8").tobytes()),
        ("TIMESTAMP(3)", [datetime.datetime(1970, 1, 1, 1)], BYTES, b"1970-01-01T01:00:00"),
        (
            "TIMESTAMP_LTZ(3)",
            [datetime.datetime(1970, 1, 1, 1, tzinfo=EAST)],
            BYTES,
            b"1970-01-01T00:00:00",
        ),
        (
            "TIMESTAMP_LTZ(3)",
            pd.Series(pd.to_datetime([1500], unit="ns").floor("us")),
            INT64,
            np.array([1], "<i8").tobytes(),
        ),
        ("DATE", [datetime.date(1970, 1, 3)], BYTES, b"1970-01-03"),
        (
            "TIMESTAMP(6)",
            np.array(["1970-01-01T00:00:01"], "M8[s]"),
            INT64,
            np.array([10**6], "<i8").tobytes(),
        ),
    ],
)
def test_values_of_every_kind_are_encoded(
    sql: str, cells: Any, value_type: Any, values: bytes
) -> None:
    rows, column = encode(sql, cells)
    assert (rows, column.type, column.values, column.valid) == (len(cells), value_type, values, b"")


@pytest.mark.parametrize(
    "cells",
    [
        [1, None, 3],
        np.array([1, None, 3], object),
        np.ma.masked_array([1, 2, 3], [False, True, False]),
        np.ma.masked_array(np.array([1, "x", 3], object), [False, True, False]),
        pd.array([1, None, 3], "Int64"),
        pd.Series([1, None, 3], [3, 2, 1], "int64[pyarrow]"),
    ],
)
def test_nulls_are_encoded_as_cleared_bits(cells: Any) -> None:
    rows, column = encode("INT", cells)
    assert (rows, column.valid, column.values) == (3, b"\5", np.array([1, 0, 3], "<i8").tobytes())


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_null_strings_take_no_bytes(dtype: Any) -> None:
    rows, column = encode("STRING", pd.Series(["a", None, "bc"], dtype=dtype))
    assert (rows, column.valid, column.values) == (3, b"\5", b"abc")
    assert column.value_offsets == np.array([0, 1, 1, 3], "<i4").tobytes()


def test_masked_values_need_not_fit_the_type() -> None:
    _, column = encode("FLOAT", np.ma.masked_array([1e300, 0.5], [True, False]))
    assert (column.valid, column.values) == (b"\2", np.array([0.0, 0.5], "<f4").tobytes())


@pytest.mark.parametrize(
    "cells", [np.array([[1.0, 2.0], [3.0, 4.0]], "f4"), [[1.0, 2.0], [3.0, 4.0]]]
)
def test_arrays_of_one_length_are_encoded_with_offsets(cells: Any) -> None:
    rows, column = encode("ARRAY<FLOAT>", cells)
    assert (rows, column.cell_offsets) == (2, np.array([0, 2, 4], "<i4").tobytes())
    assert column.values == np.array([1.0, 2.0, 3.0, 4.0], "<f4").tobytes()


def test_nan_is_a_number_and_nat_a_null() -> None:
    _, column = encode("DOUBLE", [np.nan, 1.0])
    assert (column.valid, column.values) == (b"", np.array([np.nan, 1.0]).tobytes())
    for times in (
        np.array(["NaT", "1970-01-01"], "M8[ms]"),
        [np.datetime64("NaT"), np.datetime64("1970-01-01", "ms")],
    ):
        _, column = encode("TIMESTAMP(3)", times)
        assert (column.valid, column.values) == (b"\2", bytes(16))


@pytest.mark.parametrize(
    ("cells", "valid", "offsets", "values"),
    [
        (
            np.ma.masked_array([[1, 2], [3, 4]], [[True, True], [False, False]]),
            b"\2",
            [0, 0, 2],
            [3, 4],
        ),
        (np.ma.masked_array(np.zeros((0, 2), "i8")), b"", [0], []),
        (np.zeros((2, 0), "i8"), b"", [0, 0, 0], []),
        ([np.array([1, 2]), None, np.array([3])], b"\5", [0, 2, 2, 3], [1, 2, 3]),
        ([np.array([1, 2]), [3]], b"", [0, 2, 3], [1, 2, 3]),
        ([None, None], b"\0", [0, 0, 0], []),
        ([[], []], b"", [0, 0, 0], []),
    ],
)
def test_masked_arrays_of_numpy_are_encoded(
    cells: Any, valid: bytes, offsets: list[int], values: list[int]
) -> None:
    _, column = encode("ARRAY<BIGINT>", cells)
    assert (column.valid, column.values) == (valid, np.array(values, "<i8").tobytes())
    assert column.cell_offsets == np.array(offsets, "<i4").tobytes()


@pytest.mark.parametrize("second", [None, []])
def test_ragged_arrays_of_strings_are_encoded(second: list[Any] | None) -> None:
    rows, column = encode("ARRAY<STRING>", [["a", "bc"], second, []])
    assert (rows, column.valid, column.values) == (3, b"\5" if second is None else b"", b"abc")
    assert column.cell_offsets == np.array([0, 2, 2, 2], "<i4").tobytes()
    assert column.value_offsets == np.array([0, 1, 3], "<i4").tobytes()


def test_string_tensor_of_two_dimensions_is_encoded() -> None:
    _, column = encode("ARRAY<STRING>", np.array([[b"a", b"b"], [b"c", b"d"]], object))
    assert (column.values, column.cell_offsets) == (b"abcd", np.array([0, 2, 4], "<i4").tobytes())


def sparse(indices: list[list[int]], values: list[Any]) -> Any:
    """The attributes of a `tf.SparseTensor` of three rows."""
    return SimpleNamespace(
        indices=Tensor(indices), values=Tensor(values), dense_shape=np.array([3, 2])
    )


def test_sparse_tensor_is_encoded_and_one_with_gaps_refused() -> None:
    rows, column = encode("ARRAY<BIGINT>", sparse([[0, 0], [0, 1], [2, 0]], [1, 2, 3]))
    assert (rows, column.valid, column.values) == (3, b"", np.array([1, 2, 3], "<i8").tobytes())
    assert column.cell_offsets == np.array([0, 2, 2, 3], "<i4").tobytes()
    for indices in ([[0, 1]], [[2, 0], [0, 0]]):
        with pytest.raises(ValueError, match="column 'x'.*without gaps"):
            encode("ARRAY<BIGINT>", sparse(indices, [1, 2][: len(indices)]))


def test_column_without_rows_is_encoded() -> None:
    assert encode("BIGINT", [])[0] == 0


@pytest.mark.parametrize(
    ("sql", "cells", "error", "words"),
    [
        ("BIGINT", [0.5], TypeError, "expected integers, got float64 such as 0.5"),
        ("BIGINT", [True], TypeError, "expected integers, got bool"),
        ("BIGINT", np.array([2**63], "u8"), TypeError, "expected integers below 2**63"),
        ("BIGINT", [2**64], TypeError, "expected integers, got int such as 18446744073709551616"),
        ("DATE", np.array([2**63], "u8"), TypeError, "expected integers below 2**63"),
        ("BOOLEAN", [1], TypeError, "expected booleans, got int64"),
        ("STRING", ["é", "\ud800"], ValueError, "surrogates not allowed"),
        ("STRING", [7], TypeError, "expected a string or bytes, got 7 of type int"),
        ("STRING", "text", ValueError, "expected one value per row, got the single value 'text'"),
        ("INT", 7, ValueError, "expected one value per row, got the single value 7"),
        ("BIGINT", [1, True], TypeError, "expected integers, got bool, int such as 1"),
        (
            "FLOAT",
            [0.5, 1e39],
            TypeError,
            "expected numbers within its range, got float64 such as 1e+39",
        ),
        (
            "DECIMAL(5, 2)",
            [0.5],
            TypeError,
            "expected decimal.Decimal, int or a string, got 0.5 of type float",
        ),
        ("DECIMAL(5, 2)", [True], TypeError, "expected decimal.Decimal, int or a string, got True"),
        (
            "DATE",
            np.array(["1970-01-01T01"], "M8[h]"),
            TypeError,
            "expected days, got datetime64[h] such as",
        ),
        (
            "DATE",
            [datetime.datetime(1970, 1, 1)],
            TypeError,
            "expected datetime64, datetime.date, days or a string",
        ),
        (
            "TIME",
            np.array([1], "M8[ms]"),
            TypeError,
            "expected integers (milliseconds of the day) or strings",
        ),
        ("TIMESTAMP(6)", np.array([1], "M8[ns]"), TypeError, "expected at most microseconds"),
        ("TIMESTAMP(6)", np.array([2**63 - 1], "M8[s]"), TypeError, "that fit into 64 bits"),
        ("TIMESTAMP(6)", np.array([0, 10**15], "M8[Y]"), TypeError, "that fit into 64 bits"),
        (
            "TIMESTAMP(6)",
            [datetime.datetime(1970, 1, 1, tzinfo=EAST)],
            TypeError,
            "without time zone",
        ),
        (
            "TIMESTAMP(6)",
            [datetime.date(1970, 1, 1)],
            TypeError,
            "expected datetime64, datetime.datetime without",
        ),
        ("ARRAY<INT>", [[1, None]], TypeError, "expected integers, got NoneType, int such as 1"),
        ("ARRAY<STRING>", [["a", None]], TypeError, "expected a string or bytes, got None"),
        (
            "ARRAY<INT>",
            [np.array([1]), np.array([0.5])],
            TypeError,
            "expected integers, got float64",
        ),
        (
            "ARRAY<INT>",
            np.zeros((1, 1, 1), int),
            ValueError,
            "expected an array of shape [rows, n]",
        ),
        (
            "ARRAY<INT>",
            np.ma.masked_array([[1, 2]], [[True, False]]),
            ValueError,
            "got null elements in row 0",
        ),
        ("DOUBLE", ["1.5"], TypeError, "expected numbers, got str"),
        (
            "BYTES",
            np.array([b"a"]),
            TypeError,
            "expected bytes in a list or an array of objects, since numpy cuts NUL",
        ),
        (
            "BYTES",
            [np.bytes_(b"a"), None],
            TypeError,
            "in its other arrays, got bytes_ such as b'a'",
        ),
        (
            "ARRAY<BYTES>",
            np.array([[b"a"]]),
            TypeError,
            "in its other arrays, got |S1 such as b'a'",
        ),
        (
            "ARRAY<BYTES>",
            [[b"a"], np.array([b"b"])],
            TypeError,
            "in its other arrays, got bytes, bytes_ such as b'a'",
        ),
        ("INT", np.array([[1]]), ValueError, "expected cells of shape [rows], got [1, 1]"),
        ("INT", np.array(1), ValueError, "expected one value per row, got the single value 1"),
        ("ARRAY<INT>", [1], ValueError, "expected an array of shape [rows, n] or a list of lists"),
    ],
)
def test_cells_that_do_not_fit_are_refused(
    sql: str, cells: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match="column 'x'") as caught:
        encode(sql, cells)
    assert words in str(caught.value)


def test_columns_that_do_not_fit_together_are_refused() -> None:
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
        ("BOOLEAN", [True, False]),
        ("TINYINT", [1, -128]),
        ("SMALLINT", [1, -(2**15)]),
        ("INT", [1, -(2**31)]),
        ("BIGINT", [1, -(2**63)]),
        ("FLOAT", [0.5, float("inf")]),
        ("DOUBLE", [0.1, 1e300]),
        ("STRING", ["ab", ""]),
        ("VARCHAR(3)", ["é", "ab"]),
        ("BYTES", [b"\xff", b""]),
        ("BINARY(2)", [b"ab", b"cd"]),
        ("DECIMAL(5, 2)", ["1.50", "-2"]),
        ("DATE", [0, -1]),
        ("TIME", [0, 86_399_999]),
        ("TIMESTAMP(6)", [0, -1]),
        ("TIMESTAMP_LTZ(6)", [0, -1]),
    ],
)
@pytest.mark.parametrize("shape", ["scalars", "arrays of one length", "ragged arrays"])
@pytest.mark.parametrize("nulls", ["none", "one", "all", "no rows"])
def test_every_type_is_decoded_as_it_was_encoded(
    type_: str, cells: list[Any], shape: str, nulls: str
) -> None:
    if shape != "scalars":
        type_, cells = (
            f"ARRAY<{type_}>",
            [cells, cells[::-1]] if shape == "arrays of one length" else [cells[:1], [], cells],
        )
    cells = {
        "none": cells,
        "one": [cells[0], None, *cells[1:]],
        "all": [None, None],
        "no rows": [],
    }[nulls]
    column = [TableColumn(name="c", type=type_)]
    message = Rows.FromString(encode_columns({"c": cells}, column).SerializeToString())
    assert message.rows == len(cells)
    decoded = decode_columns(message, column)["c"]
    assert [
        cell.tolist() if isinstance(cell, (np.ndarray, np.generic)) else cell for cell in decoded
    ] == list(map(_in_utf8, cells))


def _in_utf8(cell: Any) -> Any:
    return (
        [_in_utf8(value) for value in cell]
        if isinstance(cell, list)
        else cell.encode()
        if isinstance(cell, str)
        else cell
    )


def test_numbers_are_views_of_the_message() -> None:
    columns = [TableColumn(name="x", type="BIGINT"), TableColumn(name="a", type="ARRAY<FLOAT>")]
    message = encode_columns({"x": np.arange(3), "a": np.ones((3, 2), "f4")}, columns)
    decoded = decode_columns(message, columns)
    assert (decoded["x"].dtype, decoded["a"].dtype, decoded["a"].shape) == (
        np.int64,
        np.float32,
        (3, 2),
    )
    assert decoded["x"].base is not None and decoded["a"].base is not None
    ragged = decode_columns(encode_columns({"a": [[1.0], [2.0, 3.0]]}, columns), columns)["a"]
    assert [cell.base is not None for cell in ragged] == [True, True]


def test_integers_of_any_size_are_decoded_as_booleans() -> None:
    message = encode_columns({"x": np.array([1, 0], "i1")}, [TableColumn(name="x", type="TINYINT")])
    decoded = decode_columns(message, [TableColumn(name="x", type="BOOLEAN")])["x"]
    assert (decoded.dtype, decoded.tolist()) == (bool, [True, False])


def test_columns_of_strings_are_known_by_their_type() -> None:
    types = [
        "STRING NOT NULL",
        "CHAR(3)",
        "DECIMAL(5, 2)",
        "ARRAY<STRING>",
        "BYTES",
        "BINARY(3)",
        "INT",
        "DATE",
    ]
    assert [is_utf8(TableColumn(type=sql)) for sql in types] == [True] * 4 + [False] * 4


def test_fill_rows_fills_a_field_of_a_message_in_place() -> None:
    output = Output()
    fill_rows(output.rows, {"x": np.arange(3)}, [TableColumn(name="x", type="INT")])
    assert (output.rows.rows, read_cells(output.rows.columns[0], 3).values.tolist()) == (
        3,
        [0, 1, 2],
    )


def test_unknown_columns_and_short_buffers_are_refused() -> None:
    rows = encode_columns({"x": [1, 2]}, [TableColumn(name="x", type="BIGINT")])
    with pytest.raises(ValueError, match="unknown column 'x'; expected 'y'"):
        decode_columns(rows, [TableColumn(name="y", type="BIGINT")])
    with pytest.raises(ValueError, match="the buffers of the column 'x' do not hold 3 rows"):
        decode_columns(Rows(rows=3, columns=rows.columns), [TableColumn(name="x", type="BIGINT")])
