"""Texts that are cells of a type, and their values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bridge.formats.csv_cells import csv_cells, remedy_for
from bridge.formats.file_columns import FileColumn, declared_column
from bridge.schema import Schema
from operators import USUAL_NULLS

# Good cells of each type with their values as Flink writes them, and text that is no cell.
CELLS: dict[str, tuple[dict[str, str], list[str]]] = {
    "BOOLEAN": (
        {"true": "TRUE", " t ": "TRUE", "1": "TRUE", "Yes": "TRUE", "y": "TRUE", "FALSE": "FALSE", "F": "FALSE", "0": "FALSE", "no": "FALSE"},
        ["on", "2", "-", "truee", "١", " "],
    ),
    "TINYINT": ({"127": "127", "-128": "-128"}, ["128", "-129", "1e1"]),
    "INT": (
        {"1": "1", " 1 ": "1", "+1": "1", "007": "7", "2147483647": "2147483647", "-2147483648": "-2147483648"},
        ["1.0", "3.7", "1.", "1e3", "1_000", "0x10", "2147483648", "1 2", "1L", "−1", "- 1", "\t1", "١", "NaN", " ", "9" * 2000],
    ),
    "BIGINT": ({"9223372036854775807": "9223372036854775807"}, ["9223372036854775808"]),
    "DOUBLE": (
        {"1.5": "1.5", " .5 ": "0.5", "5.": "5.0", "+.5e-3": "5.0E-4", "NaN": "NaN", "-Infinity": "-Infinity", "1d": "1.0", "0x1p3": "8.0"},
        ["nan", "inf", "1_0", "1,5", "1.2.3", "e5", ".", "١", " ", "\u00a01"],
    ),
    "FLOAT": ({"0.1": "0.1", "16777217": "1.6777216E7"}, ["x"]),
    "DECIMAL(4, 1)": (
        {"1.5": "1.5", "1.50": "1.5", " 123.4": "123.4", "1E-1": "0.1", "1e2": "100.0", "+1": "1.0", "-.5": "-0.5", "5.": "5.0", "0e-30": "0.0"},
        ["1.55", "1.45", "1234", "999.95", "-0.05", "1e-2", "1e9", "NaN", "Infinity", "1_0", "0x1", "1d", "1e999999999", "x", "١"],
    ),
    "DECIMAL(38, 18)": (
        {"1E-7": "0.000000100000000000", "12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678"},
        ["123456789012345678901", "1E-19", "0.1234567890123456789"],
    ),
    "DATE": (
        {"2024-02-29": "2024-02-29", "2024-2-9": "2024-02-09", " 0001-01-01 ": "0001-01-01", "2024-02-29 00:00:00.0": "2024-02-29"},
        ["2023-02-29", "20240229", "2024-02-29 01:02:03", "2024-02-29T00:00:00", "24-02-29", "2024-02", "2024", "2024-13-01", "0000-01-01"],
    ),
    "TIME(3)": (
        {"01:02:03": "01:02:03.0", "1:2:3": "01:02:03.0", "01:02": "01:02:00.0", "23:59:59.123000": "23:59:59.123"},
        ["24:00:00", "23:59:60", "01:02:03.1234", "01:02:03+01:00", "01:02:03Z", "010203", "01"],
    ),
    "TIME": ({"01:02:03.000": "01:02:03"}, ["01:02:03.5"]),
    "TIMESTAMP(3)": (
        {
            "2024-02-29 01:02:03.1230": "2024-02-29 01:02:03.123", "2024-02-29T01:02:03": "2024-02-29 01:02:03.000",
            "2024-02-29": "2024-02-29 00:00:00.000", " 2024-2-9 1:2:3": "2024-02-09 01:02:03.000",
            "1960-02-29 23:59:59.999": "1960-02-29 23:59:59.999", "2024-02-29 01:02": "2024-02-29 01:02:00.000",
        },
        ["2024-02-29 01:02:03.1239", "2024-02-29 01:02:03.123456789", "2024-02-29 01", "2024-02-29 24:00:00", "2024-02-29 01:02:03Z",
         "2024-02-29 01:02:03+01:00", "2023-02-29 01:02:03", "20240229 010203", "2024-02-29_01:02:03", "2024-W09-4 01:02:03"],
    ),
    "TIMESTAMP(6)": ({"2024-02-29 01:02:03.123456000": "2024-02-29 01:02:03.123456"}, ["2024-02-29 01:02:03.1234567"]),
    "TIMESTAMP_LTZ(3)": ({"2024-02-29 01:02:03.5": "2024-02-29 01:02:03.500"}, ["2024-02-29 01:02:03Z"]),
    "VARCHAR(3)": ({"abc": "abc", " ab": " ab", "日本語": "日本語"}, ["abcd", "日本語の"]),
    "STRING": ({" any thing ": " any thing "}, []),
}  # fmt: skip
TEXTS = sorted({text for good, bad in CELLS.values() for text in (*good, *bad)})


def column(kind: str) -> FileColumn:
    (found,) = Schema.parse(f"x {kind.replace('_LTZ', '')}")  # SQL makes instants of local times
    return declared_column(found)


def is_cell(kind: str, text: str) -> bool:
    try:
        return bool(csv_cells(column(kind), pa.array([text])).is_valid()[0].as_py())
    except pa.ArrowException:
        return False


@pytest.mark.parametrize("kind", CELLS)
def test_texts_are_read_as_cells_of_their_type(kind: str) -> None:
    good, bad = CELLS[kind]
    assert [text for text in good if not is_cell(kind, text)] == [] and [
        text for text in bad if is_cell(kind, text)
    ] == []


@pytest.mark.parametrize("kind", CELLS)
def test_lenient_cells_are_those_that_fit(kind: str) -> None:
    """Each type is tried with the texts of all types."""
    texts = [*TEXTS, None, *TEXTS]
    whole = csv_cells(column(kind), pa.array(texts), is_lenient=True)
    assert whole.type == column(kind).arrow
    alone = [
        csv_cells(column(kind), pa.array([text]))[0].as_py()
        if text and is_cell(kind, text)
        else None
        for text in texts
    ]
    assert str(whole.to_pylist()) == str(alone)


def told(kind: str, text: str) -> str:
    return remedy_for(column(kind), text)


def test_error_of_a_wrong_cell_names_the_remedy() -> None:
    assert "CAST(REPLACE(`x`, ',', '.') AS DOUBLE)" in told("DOUBLE", "1.234,5")
    assert told("INT", "NA") == "setNullLiteral('NA') reads all such cells as null; "
    assert "the format is 2024-05-31 18:00:00 or 2024-05-31T18:00:00" in told(
        "TIMESTAMP(3)", "2024-02-29 01:02:03+01:00"
    )
    assert "if this is the header line, setIgnoreFirstLine(True) skips it" in told("INT", "x")
    assert "it has too many digits: to round it, read the column as DECIMAL(38, 18)" in told(
        "DECIMAL(4, 1)", "1.55"
    )


def test_the_usual_nulls_are_those_of_pandas() -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    assert set(USUAL_NULLS) == STR_NA_VALUES - {""}


def test_the_largest_exponents_take_no_memory() -> None:
    assert not any(is_cell("DECIMAL(38, 18)", text) for text in ("1e99", "1e-99", "1E+99"))
