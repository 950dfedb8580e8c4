"""Schema texts, and schemas of tables."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pyflink.table import DataTypes

from bridge.exceptions import SchemaError
from bridge.schema import Schema, quoted, schema_text, split_watermark


def test_columns_as_text_can_be_read_again() -> None:
    names = ["id", "start time", "a`b", "größe", "t", "p", "r"]
    types = [
        "BIGINT NOT NULL", "STRING", "ARRAY<INT NOT NULL> NOT NULL", "DECIMAL(4, 1)", "TIMESTAMP(3) *ROWTIME*",
        "TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*", "ROW<`a NOT NULL` INT NOT NULL, `b` CHAR(1)>",
    ]  # fmt: skip
    text = schema_text(names, types)
    assert text == (
        "id BIGINT, `start time` STRING, `a``b` ARRAY<INT>, größe DECIMAL(4, 1), t TIMESTAMP(3), p TIMESTAMP_LTZ(3), "
        "r ROW<`a NOT NULL` INT, `b` CHAR(1)>"
    )
    assert Schema.parse(text.partition(", r ")[0]).names == names[:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model_id long, model_info string", [("model_id", "BIGINT"), ("model_info", "STRING")]),
        ("a BYTE, b Short, c integer, d bool", [("a", "TINYINT"), ("b", "SMALLINT"), ("c", "INT"), ("d", "BOOLEAN")]),
        ("v ARRAY<FLOAT>", [("v", "ARRAY<FLOAT>")]),
        ("v array < decimal(5,2) not null > not null", [("v", "ARRAY<DECIMAL(5, 2) NOT NULL> NOT NULL")]),
        ("d DECIMAL(10,2), e DECIMAL(3), f DECIMAL", [("d", "DECIMAL(10, 2)"), ("e", "DECIMAL(3, 0)"), ("f", "DECIMAL(38, 18)")]),
        ("`odd, name` VARCHAR(20), `a``b` INT", [("odd, name", "VARCHAR(20)"), ("a`b", "INT")]),
        ("t TIMESTAMP(3), u TIMESTAMP, w TIMESTAMP_LTZ(3)", [("t", "TIMESTAMP(3)"), ("u", "TIMESTAMP(6)"), ("w", "TIMESTAMP_LTZ(3)")]),
        ("v ARRAY<DECIMAL(3, 2)>, `a``,` INT", [("v", "ARRAY<DECIMAL(3, 2)>"), ("a`,", "INT")]),
        ("größe double", [("größe", "DOUBLE")]),
    ],
)  # fmt: skip
def test_parse_reads_names_and_types(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(column.name, column.type.sql) for column in Schema.parse(text)] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  ", "the schema is empty"),
        ("a", "expected \"name type\" for column 1, got 'a' in the schema 'a'"),
        ("a int, b", "expected \"name type\" for column 2, got 'b'"),
        ("a int,, b int", "expected \"name type\" for column 2, got ''"),
        (
            "id INT, order date TIMESTAMP(3)",
            "of them. A column name with spaces needs back-quotes",
        ),
        ("a foo", "column 'a' has the unknown type 'FOO'; known types are BIGDECIMAL, BIGINT"),
        ("a int, a long", "column 'a' occurs twice"),
        ("a ARRAY<int, b int", "column 'a' has the unknown type 'ARRAY<INT'"),
        ("a int>", "the unknown type 'INT>' (did you mean 'INT'?)"),
        ("b int, `a int", "expected \"name type\" for column 2, got '`a int' in the schema"),
        ("a int(3)", "does not accept these arguments"),
        ("a DECIMAL(39, 1)", "DECIMAL takes 1 to 38 digits"),
        ("a TIMESTAMP(9)", "CAST it to TIMESTAMP(6)"),
        ("a VARCHAR(0)", "expected a length of at least 1"),
        ("a ARRAY<ARRAY<INT>>", "unknown type 'ARRAY<INT>'"),
        (
            "t TIMESTAMP(3), watermark for t AS t",
            "WATERMARK FOR has to be the last entry of the schema, and belongs to",
        ),
        (
            "a ARRAY<TIMESTAMP_LTZ(3)>",
            "column 'a' is an ARRAY of TIMESTAMP_LTZ, which PyFlink does not support. CAST it",
        ),
    ],
)
def test_parse_refuses_malformed_schemas(text: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert words in str(caught.value)


def test_a_watermark_is_the_last_entry() -> None:
    text = "`a t` TIMESTAMP(3), x INT NOT NULL, WATERMARK FOR `a t` AS CAST(COALESCE(`a t`, `a,b`) AS TIMESTAMP(3)) - INTERVAL '5' SECOND"
    columns, watermark = split_watermark(text)
    assert columns == "`a t` TIMESTAMP(3), x INT NOT NULL"
    assert watermark == (
        "a t",
        "CAST(COALESCE(`a t`, `a,b`) AS TIMESTAMP(3)) - INTERVAL '5' SECOND",
    )
    with pytest.raises(
        SchemaError,
        match="WATERMARK FOR t has to be the last entry of the schema, behind all columns",
    ):
        split_watermark("t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND, x INT")
    with pytest.raises(
        SchemaError, match="WATERMARK FOR x: expected a column of type TIMESTAMP.3. or"
    ):
        split_watermark("t TIMESTAMP(3), x INT, WATERMARK FOR x AS x")


def test_cells_of_files_may_be_null() -> None:
    schema = Schema.parse("a INT NOT NULL, v ARRAY<INT NOT NULL> NOT NULL, s STRING")
    assert [column.type.sql for column in schema.all_nullable] == ["INT", "ARRAY<INT>", "STRING"]


def test_schema_of_a_table_has_its_sql_types() -> None:
    types = [
        DataTypes.STRING(), DataTypes.VARCHAR(3), DataTypes.BYTES(), DataTypes.DECIMAL(5, 2), DataTypes.TIMESTAMP(3),
        DataTypes.ARRAY(DataTypes.FLOAT().not_null()), DataTypes.BIGINT().not_null(), DataTypes.TIME(),
        DataTypes.BINARY(2**31 - 1), DataTypes.BINARY(2), DataTypes.CHAR(0).not_null(),
    ]  # fmt: skip
    assert [column.type.sql for column in Schema.of_table(list("abcdefghijk"), types)] == [
        "STRING", "VARCHAR(3)", "BYTES", "DECIMAL(5, 2)", "TIMESTAMP(3)", "ARRAY<FLOAT NOT NULL>", "BIGINT NOT NULL", "TIME(0)",
        "BYTES", "BINARY(2)", "CHAR(0) NOT NULL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data_type", "words"),
    [
        (DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), "Leave it out with selectedCols"),
        (DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT())]), "CAST it in SQL"),
        (DataTypes.ARRAY(DataTypes.ARRAY(DataTypes.INT())), "Flatten it"),
        (DataTypes.MULTISET(DataTypes.INT()), "Leave it out with selectedCols"),
        (DataTypes.INTERVAL(DataTypes.DAY()), "Leave it out with selectedCols"),
        (DataTypes.TIMESTAMP(9), "CAST it to TIMESTAMP(6)"),
        (DataTypes.TIMESTAMP_LTZ(9), "CAST it to TIMESTAMP_LTZ(6)"),
        (DataTypes.TIME(6), "CAST it to TIME(3)"),
        (DataTypes.ARRAY(DataTypes.TIMESTAMP_LTZ(3)), "CAST it to ARRAY<TIMESTAMP(6)>"),
    ],
)
def test_unsupported_types_of_a_table_are_refused(data_type: Any, words: str) -> None:
    with pytest.raises(SchemaError, match="column 'odd'") as caught:
        Schema.of_table(["odd"], [data_type])
    assert words in str(caught.value)


def test_a_schema_loads_no_pyflink() -> None:
    code = "import sys, bridge.schema; sys.exit('pyflink' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_quoted_escapes_back_quotes() -> None:
    assert quoted("a`b") == "`a``b`"
