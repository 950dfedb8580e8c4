"""What a type text means, and that all who read it make the same of it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from akdl.features import FLOAT32, INT64, STRING, feature_spec
from akdl.serving.loaded_model import SignatureError, TensorDescription
from akdl.serving.output_cells import OutputConverter
from akdl.testing import encode_rows
from akdl.wire import Example, Rows, TableColumn
from akdl.wire.column_type import (
    FLOATS,
    INTEGERS,
    MEANINGS,
    POINTS_IN_TIME,
    ColumnType,
    Kind,
    parse_type,
    type_of,
)
from akdl.wire.columns import decode_columns, encode_columns, is_utf8
from bridge.codec.ipc import arrow_schema
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.schema import Schema, table_columns

# The text, the type as Flink's SQL has it, its feature.
TEXTS = [
    ("BOOLEAN", "BOOLEAN", INT64),
    ("bool", "BOOLEAN", INT64),
    ("TINYINT", "TINYINT", INT64),
    ("BYTE", "TINYINT", INT64),
    ("Short", "SMALLINT", INT64),
    ("integer", "INT", INT64),
    ("INT NOT NULL", "INT NOT NULL", INT64),
    ("LONG", "BIGINT", INT64),
    ("bigint  not\nnull", "BIGINT NOT NULL", INT64),
    (" BIGINT ", "BIGINT", INT64),
    ("real", "FLOAT", FLOAT32),
    ("double", "DOUBLE", FLOAT32),
    ("STRING", "STRING", STRING),
    ("varchar ( 3 )", "VARCHAR(3)", STRING),
    ("VARCHAR", "STRING", STRING),
    ("char", "CHAR(1)", STRING),
    ("bytes", "BYTES", STRING),
    ("VARBINARY(3)", "VARBINARY(3)", STRING),
    ("BINARY", "BINARY(1)", STRING),
    ("decimal(5 ,2) NOT NULL", "DECIMAL(5, 2) NOT NULL", STRING),
    ("NUMERIC", "DECIMAL(38, 18)", STRING),
    ("BIG_DEC", "DECIMAL(38, 18)", STRING),
    ("date", "DATE", INT64),
    ("TIME", "TIME", INT64),
    ("time(3)", "TIME(3)", INT64),
    ("TIMESTAMP", "TIMESTAMP(6)", INT64),
    ("timestamp (3)", "TIMESTAMP(3)", INT64),
    ("SQL_TIMESTAMP", "TIMESTAMP(3)", INT64),
    ("timestamp_ltz(3)", "TIMESTAMP_LTZ(3)", INT64),
    ("ARRAY<FLOAT>", "ARRAY<FLOAT>", FLOAT32),
    ("array <long>", "ARRAY<BIGINT>", INT64),
    ("ARRAY < Bool NOT NULL > not null", "ARRAY<BOOLEAN NOT NULL> NOT NULL", INT64),
    ("ARRAY<\n decimal(5,2)>", "ARRAY<DECIMAL(5, 2)>", STRING),
    ("array<VARBINARY>", "ARRAY<BYTES>", STRING),
    ("ARRAY <date>", "ARRAY<DATE>", INT64),
    ("float_tensor", "ARRAY<FLOAT>", FLOAT32),
    ("UBYTE_TENSOR NOT NULL", "ARRAY<SMALLINT> NOT NULL", INT64),
    ("STRING_TENSOR", "ARRAY<STRING>", STRING),
    ("DENSE_VECTOR", "STRING", STRING),
]
BY_SQL = pytest.mark.parametrize(("text", "sql", "feature"), TEXTS)
CELLS = {
    Kind.BOOLEAN: True, Kind.STRING: "a", Kind.BYTES: b"a", Kind.DECIMAL: "1", **dict.fromkeys(FLOATS, 0.5),
    **dict.fromkeys(INTEGERS, 7), Kind.DATE: 1, Kind.TIME: 1000, Kind.TIMESTAMP: 1_000_000, Kind.TIMESTAMP_LTZ: 1_000_000,
}  # fmt: skip


def column_and_cell(text: str) -> tuple[TableColumn, Any]:
    column_type = parse_type(text)
    cell = CELLS[column_type.kind]
    return TableColumn(name="x", type=text), [cell, cell] if column_type.is_array else cell


def in_utf8(cell: Any) -> Any:
    return (
        list(map(in_utf8, cell))
        if isinstance(cell, list)
        else cell.encode()
        if isinstance(cell, str)
        else cell
    )


def plain(cells: Any) -> Any:
    """Return the first cell; numbers as numbers, DECIMAL without the digits that its scale adds."""
    cell = cells[0].tolist() if isinstance(cells[0], (np.ndarray, np.generic)) else cells[0]
    each = cell if isinstance(cell, list) else [cell]
    each = [
        value.rstrip(b"0").rstrip(b".") if isinstance(value, bytes) else value for value in each
    ]
    return each if isinstance(cell, list) else each[0]


@BY_SQL
def test_text_of_a_type_is_parsed(text: str, sql: str, feature: str) -> None:
    column_type = parse_type(text)
    assert (column_type.sql, column_type.feature) == (sql, feature)
    assert parse_type(sql) == column_type == type_of(TableColumn(name="x", type=text))
    assert pickle.loads(pickle.dumps(column_type)) == column_type


@BY_SQL
def test_schema_parses_the_same_type(text: str, sql: str, feature: str) -> None:
    schema = Schema.parse(f"x {text}")
    assert [column.type for column in schema] == [parse_type(text)]
    assert [(column.name, column.type) for column in table_columns(schema)] == [("x", sql)]


@BY_SQL
def test_cells_go_from_a_script_to_arrow_and_back(text: str, sql: str, feature: str) -> None:
    column, cell = column_and_cell(text)
    schema = Schema.parse(f"x {text}")
    written = encode_columns({"x": [cell]}, [column])
    assert plain(decode_columns(written, [column])["x"]) == in_utf8(cell)
    (array,) = ColumnDecoder(schema).decode(written)
    batch = pa.RecordBatch.from_arrays([array], schema=arrow_schema(schema))
    message = Rows.FromString(to_columns(batch, schema))
    assert message.columns[0].type == MEANINGS[parse_type(text).kind].sent
    assert bool(message.columns[0].cell_offsets) is parse_type(text).is_array
    assert plain(decode_columns(message, [column])["x"]) == in_utf8(cell)


@BY_SQL
def test_is_utf8_is_true_for_texts_only(text: str, sql: str, feature: str) -> None:
    column, cell = column_and_cell(text)
    assert is_utf8(column) is isinstance(cell[0] if isinstance(cell, list) else cell, str)


@BY_SQL
def test_encoded_example_has_the_feature_of_the_type(text: str, sql: str, feature: str) -> None:
    _column, cell = column_and_cell(text)
    (record,) = encode_rows({"x": [cell]}, {"x": text})
    lists = {INT64: "int64_list", FLOAT32: "float_list", STRING: "bytes_list"}
    assert Example.FromString(record).features.feature["x"].WhichOneof("kind") == lists[feature]


@pytest.mark.tf
@BY_SQL
def test_feature_spec_has_the_feature_of_the_type(text: str, sql: str, feature: str) -> None:
    spec = feature_spec([TableColumn(name="x", type=text)])["x"]
    assert (spec.dtype.name, type(spec).__name__) == (
        feature, "VarLenFeature" if parse_type(text).is_array else "FixedLenFeature",
    )  # fmt: skip


@BY_SQL
def test_outputs_of_models_become_numbers_and_texts(text: str, sql: str, feature: str) -> None:
    column_type = parse_type(text)
    tensor = TensorDescription("y", "int64", (-1, 1), "y:0")
    if column_type.kind in {Kind.DECIMAL, *POINTS_IN_TIME}:
        with pytest.raises(
            SignatureError,
            match="supported types are BIGINT, BOOLEAN, BYTES, DOUBLE, FLOAT, INT, SMALLINT, STRING",
        ):
            OutputConverter(TableColumn(name="x", type=text), tensor)
    elif column_type.kind is Kind.BOOLEAN:
        with pytest.raises(SignatureError, match="cannot hold the output"):
            OutputConverter(TableColumn(name="x", type=text), tensor)
    else:
        cells, errors = OutputConverter(TableColumn(name="x", type=text), tensor).convert(
            np.array([[7]], "i8")
        )
        encoded = encode_columns({"x": cells}, [TableColumn(name="x", type=sql)])
        assert (encoded.rows, errors) == (1, {})
        if column_type.kind in INTEGERS | FLOATS:
            assert encoded.columns[0].type == MEANINGS[column_type.kind].sent


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the unknown type ''; known types are BIGDECIMAL, BIGINT, BIG_DEC, BINARY"),
        ("flot", "the unknown type 'FLOT' (did you mean 'FLOAT'?); known types are BIGDECIMAL"),
        ("map<int, int>", "the unknown type 'MAP<INT, INT>'"),
        ("ARRAY<ARRAY<INT>>", "the unknown type 'ARRAY<INT>'"),
        ("INTNOT NULL", "the unknown type 'INTNOT NULL'"),
        ("INT(3)", "the type 'INT(3)', which does not accept these arguments"),
        ("VARCHAR(3, 4)", "which does not accept these arguments"),
        (
            "DECIMAL(39)",
            "the type 'DECIMAL(39)'; DECIMAL takes 1 to 38 digits, and at most as many behind the point",
        ),
        ("DECIMAL(2, 3)", "DECIMAL takes 1 to 38 digits"),
        ("TIME(6)", "the type TIME(6); at most TIME(3) is supported: CAST it to TIME(3)"),
    ],
)
def test_texts_without_a_type_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        type_of(TableColumn(name="odd", type=text))
    assert str(caught.value).startswith("the column 'odd' has the ")
    assert words in str(caught.value)
    with pytest.raises(ValueError, match="the column 'odd' has the "):
        encode_columns({"odd": [1]}, [TableColumn(name="odd", type=text)])


def test_an_empty_literal_of_a_table_can_travel() -> None:
    assert parse_type("CHAR(0) NOT NULL") == ColumnType(Kind.STRING, (0,), "CHAR", nullable=False)


def test_names_of_types_are_unique_and_each_kind_has_its_own() -> None:
    names = [name for meaning in MEANINGS.values() for name in meaning.names]
    assert len(names) == len(set(names))
    assert set(MEANINGS) == set(Kind)
    assert all(kind.value in meaning.names for kind, meaning in MEANINGS.items())
