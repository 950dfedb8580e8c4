"""Rows written one by one, to columns; and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from akdl.rows.example_rows import ExampleRows
from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, Example, Rows, TableColumn
from akdl.wire.cells import offsets_of
from akdl.wire.columns import decode_columns


def columns(**types: Any) -> list[Any]:
    return [TableColumn(name=name, type=sql) for name, sql in types.items()]


def example(**features: Any) -> Example:
    made = Example()
    for name, (kind, *values) in features.items():
        getattr(made.features.feature[name], f"{kind}_list").value.extend(values)
    return made


def taken(schema: list[Any], *examples: Example) -> Rows:
    rows = ExampleRows(schema)
    for row, each in enumerate(examples):
        cells = rows.read(each, row)
        assert rows.fits(cells)
        rows.append(cells)
    message = Rows()
    rows.take(message)
    assert (len(rows), rows.size) == (0, 0)
    return Rows.FromString(message.SerializeToString())


def plain(cells: Any) -> list[Any]:
    return [cell.tolist() if hasattr(cell, "tolist") else cell for cell in cells]


@pytest.mark.parametrize(
    ("sql", "feature", "value_type", "cell"),
    [
        ("BOOLEAN", ("int64", 1), INT64, True),
        ("TINYINT", ("int64", -1), INT64, -1),
        ("BIGINT NOT NULL", ("int64", -(2**63)), INT64, -(2**63)),
        ("FLOAT", ("float", 0.5), FLOAT32, 0.5),
        ("DOUBLE", ("float", 0.5), FLOAT64, 0.5),
        ("DOUBLE", ("bytes", np.float64(0.1).tobytes()), FLOAT64, 0.1),
        ("STRING", ("bytes", "é".encode()), BYTES, "é".encode()),
        ("VARCHAR(3)", ("bytes", b"abc"), BYTES, b"abc"),
        ("BYTES", ("bytes", b"\xff"), BYTES, b"\xff"),
        ("DECIMAL(5, 2)", ("bytes", b"1.5"), BYTES, b"1.5"),
        ("DATE", ("int64", 1), INT64, 1),
        ("DATE", ("bytes", b"2024-02-29"), BYTES, b"2024-02-29"),
        ("TIME(3)", ("int64", 1005), INT64, 1005),
        ("TIMESTAMP(6)", ("bytes", b"2024-02-29 12:00:00"), BYTES, b"2024-02-29 12:00:00"),
        ("TIMESTAMP_LTZ(3)", ("int64", -1000), INT64, -1000),
        ("ARRAY<BIGINT>", ("int64", 1, 2, 3), INT64, [1, 2, 3]),
        ("ARRAY<BIGINT>", ("int64",), INT64, None),
        ("ARRAY<FLOAT> NOT NULL", ("float", 0.5, 1.5), FLOAT32, [0.5, 1.5]),
        ("ARRAY<DOUBLE>", ("bytes", np.array([0.1, 1e300]).tobytes()), FLOAT64, [0.1, 1e300]),
        (
            "ARRAY<DOUBLE>",
            ("bytes", np.float64(0.1).tobytes(), np.float64(0.2).tobytes()),
            FLOAT64,
            [0.1, 0.2],
        ),
        ("ARRAY<STRING>", ("bytes", b"a", b""), BYTES, [b"a", b""]),
        ("ARRAY<DATE>", ("bytes", b"2024-02-29"), BYTES, [b"2024-02-29"]),
    ],
)
def test_example_rows_decode_every_type_with_and_without_nulls(
    sql: str, feature: tuple[Any, ...], value_type: Any, cell: Any
) -> None:
    schema, wanted = columns(x=sql, n="INT"), [] if cell is None else cell
    made = example(x=feature)
    made.features.feature["x"].SetInParent()
    # an empty list, where it has no values
    getattr(made.features.feature["x"], f"{feature[0]}_list").SetInParent()
    message = taken(schema, made, made)
    assert [(column.name, column.type) for column in message.columns] == [("x", value_type)]
    assert plain(decode_columns(message, schema)["x"]) == [wanted, wanted]
    if "NOT NULL" not in sql:
        message = taken(schema, example(), made, Example(), made)
        assert plain(decode_columns(message, schema)["x"]) == [None, wanted, None, wanted]


def test_example_rows_decode_arrays_of_any_length() -> None:
    schema = columns(a="ARRAY<BIGINT>", s="ARRAY<STRING>")
    message = taken(
        schema,
        example(a=("int64", 1, 2), s=("bytes", b"a")),
        example(s=("bytes", b"b", b"cd")),
        example(a=("int64", 3)),
    )
    decoded = decode_columns(message, schema)
    assert plain(decoded["a"]) == [[1, 2], None, [3]]
    assert decoded["s"] == [[b"a"], [b"b", b"cd"], None]


def test_a_feature_without_a_kind_is_null() -> None:
    made = Example()
    made.features.feature["x"].SetInParent()
    assert ExampleRows(columns(x="INT")).read(made, 0) == [None]


def test_reading_leaves_the_example_as_it_is() -> None:
    made = example(x=("int64", 1))
    before = made.SerializeToString()
    ExampleRows(columns(x="INT", y="DOUBLE", z="ARRAY<INT>")).read(made, 0)
    assert made.SerializeToString() == before


def test_example_may_be_changed_after_it_was_read() -> None:
    rows, made = ExampleRows(columns(a="ARRAY<BIGINT>")), example(a=("int64", 1, 2))
    cells = rows.read(made, 0)
    made.features.feature["a"].int64_list.value[0] = 7
    assert cells == [(1, 2)]


def test_example_rows_decode_doubles_of_both_forms_in_one_message() -> None:
    schema = columns(x="DOUBLE")
    message = taken(
        schema,
        example(x=("float", 0.5)),
        example(x=("bytes", np.float64(0.1).tobytes())),
        example(),
    )
    assert decode_columns(message, schema)["x"] == [0.5, 0.1, None]


@pytest.mark.parametrize("sql", ["DATE", "ARRAY<DATE>"])
def test_numbers_and_strings_need_messages_of_their_own(sql: str) -> None:
    rows = ExampleRows(columns(d=sql))
    number, text, empty = example(d=("int64", 1)), example(d=("bytes", b"2024-02-29")), example()
    steps = [(empty, True), (number, True), (empty, True), (number, True), (text, False)]
    for made, fits in steps:
        cells = rows.read(made, 0)
        assert rows.fits(cells) is fits
        if fits:
            rows.append(cells)
    rows.take(Rows())
    assert rows.fits(rows.read(text, 0))


def test_size_of_rows_is_near_that_of_the_message() -> None:
    schema = columns(n="BIGINT", s="STRING", a="ARRAY<DOUBLE>", t="ARRAY<STRING>")
    rows = ExampleRows(schema)
    row = example(
        n=("int64", 1),
        s=("bytes", b"x" * 100),
        a=("float", *[0.5] * 10),
        t=("bytes", b"y" * 50, b"z" * 50),
    )
    for number in range(100):
        rows.append(rows.read(row, number))
    size, message = rows.size, Rows()
    rows.take(message)
    assert size == pytest.approx(message.ByteSize(), rel=0.1)


@pytest.mark.parametrize(
    ("sql", "feature", "error", "words"),
    [
        (
            "BIGINT",
            ("float", 1.0, 2.0),
            TypeError,
            "expected an int64_list with 1 value, got a float_list with 2 values",
        ),
        (
            "BIGINT",
            ("int64", 1, 2),
            ValueError,
            "expected an int64_list with 1 value, got an int64_list with 2 values",
        ),
        (
            "INT NOT NULL",
            ("bytes", b"1"),
            TypeError,
            "expected an int64_list with 1 value, got a bytes_list with 1 value",
        ),
        (
            "FLOAT",
            ("int64", 1),
            TypeError,
            "expected a float_list with 1 value, got an int64_list with 1 value",
        ),
        (
            "FLOAT",
            ("bytes", bytes(8)),
            TypeError,
            "expected a float_list with 1 value, got a bytes_list with 1 value",
        ),
        (
            "DOUBLE",
            ("int64", 1),
            TypeError,
            "expected a float_list (or a bytes_list of 8 bytes) with 1 value, got an int64_list",
        ),
        ("DOUBLE", ("bytes", b"1234"), ValueError, "expected 8 bytes for each value, got 4 bytes"),
        (
            "DOUBLE",
            ("bytes", bytes(16)),
            ValueError,
            "expected 8 bytes for each value, got 16 bytes",
        ),
        (
            "ARRAY<DOUBLE>",
            ("bytes", bytes(12)),
            ValueError,
            "expected 8 bytes for each value, got 12 bytes",
        ),
        (
            "STRING",
            ("int64", 1),
            TypeError,
            "expected a bytes_list with 1 value, got an int64_list with 1 value",
        ),
        (
            "STRING",
            ("bytes", b"a", b"b"),
            ValueError,
            "expected a bytes_list with 1 value, got a bytes_list with 2 values",
        ),
        (
            "DATE",
            ("float", 1.0),
            TypeError,
            "expected an int64_list (or a bytes_list of strings) with 1 value, got a float_list",
        ),
        (
            "ARRAY<INT>",
            ("float", 1.0),
            TypeError,
            "expected an int64_list, got a float_list with 1 value",
        ),
        (
            "INT NOT NULL",
            None,
            ValueError,
            "expected a value, since the column is NOT NULL, got none",
        ),
        (
            "ARRAY<INT> NOT NULL",
            None,
            ValueError,
            "expected a value, since the column is NOT NULL, got none",
        ),
    ],
)
@pytest.mark.fault("scripts", "A written cell of a wrong type is an error with row and column")
def test_cells_that_do_not_fit_are_refused_by_row_and_column(
    sql: str, feature: tuple[Any, ...] | None, error: type[Exception], words: str
) -> None:
    made = example() if feature is None else example(x=feature)
    with pytest.raises(error) as caught:
        ExampleRows(columns(x=sql)).read(made, 3)
    assert str(caught.value).startswith(f"output_writer.write: row 3: column 'x' ({sql}): {words}")


def test_empty_list_is_refused_as_a_scalar() -> None:
    made = Example()
    made.features.feature["x"].int64_list.SetInParent()
    with pytest.raises(ValueError, match="got an int64_list with 0 values"):
        ExampleRows(columns(x="BIGINT")).read(made, 0)


def test_unknown_columns_of_an_example_are_refused() -> None:
    with pytest.raises(
        ValueError,
        match="output_writer.write: row 2: unknown column 'y', 'z'; outputSchemaStr has 'x', 'w'",
    ):
        ExampleRows(columns(x="INT", w="INT")).read(
            example(x=("int64", 1), z=("int64", 1), y=("int64", 1)), 2
        )


def test_column_of_2_gb_in_one_batch_is_refused() -> None:
    with pytest.raises(
        ValueError, match="column 'x': expected less than 2 GB in one batch, got 2147483648 bytes"
    ):
        offsets_of(np.array([2**31 - 1, 1]), "column 'x'")
