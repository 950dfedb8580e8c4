"""Lines of CSV and JSON, compared with those that Python writes row by row."""

from __future__ import annotations

import base64
import decimal
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridge.formats.texts import CsvForm, CsvWriter, JsonWriter
from tests.bridge.files.random_rows import KINDS, NESTED, random_batch

SEPARATORS = [
    (",", '"', "\n"), (";", "'", "\r\n"), ("-", '"', "\n"), ("\t", '"', "|"), (".", '"', "\n"), ("e", "^", "\n"), (" ", '"', "\n"),
    ("]", "\\", "\n"), ("é", "1", "x"),
]  # fmt: skip


def text_of(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(cell), str(cell))
    return f"{cell:f}" if isinstance(cell, decimal.Decimal) else str(cell)


def csv_lines(batch: pa.RecordBatch, *separators: str) -> bytes:
    return lines_of(CsvWriter, batch, *separators)


def json_lines(batch: pa.RecordBatch) -> bytes:
    return lines_of(JsonWriter, batch)


def lines_of(writer: type[CsvWriter], batch: pa.RecordBatch, *separators: str) -> bytes:
    with pa.BufferOutputStream() as file:
        table = pa.Table.from_batches([batch])
        writer(file, batch.schema, CsvForm(*separators)).write_table(table)
        return bytes(file.getvalue())


def csv_line(cells: Sequence[Any], field: str, quote: str, row: str) -> str:
    """A row cell by cell, in the form that the sink has always written."""
    texts = ["" if cell is None else text_of(cell) for cell in cells]
    special = re.compile(f"[\r\n\ufeff{re.escape(field + quote + row)}]")
    for place, (cell, text) in enumerate(zip(cells, texts)):
        if (
            (text == "" and (cell is not None or len(cells) == 1))
            or special.search(text)
            or text != text.strip()
        ):
            texts[place] = f"{quote}{text.replace(quote, quote * 2)}{quote}"
    return field.join(texts) + row


def test_csv_is_the_text_of_each_cell() -> None:
    draw = random.Random(1)
    for _ in range(400):
        batch, separators = (
            random_batch(draw, KINDS),
            draw.choice((SEPARATORS[0], draw.choice(SEPARATORS))),
        )
        rows = zip(*(column.to_pylist() for column in batch.columns))
        expected = "".join(csv_line(row, *separators) for row in rows)
        assert csv_lines(batch, *separators).decode() == expected, (separators, batch.to_pylist())


@pytest.mark.fault("data", "A first cell of CSV that begins with a byte order mark keeps it")
def test_a_byte_order_mark_of_a_cell_is_in_quotes() -> None:
    assert (
        csv_lines(pa.record_batch([["\ufeffx"]], ["a"]), *SEPARATORS[0]) == '"\ufeffx"\n'.encode()
    )


def test_json_holds_each_cell() -> None:
    draw = random.Random(2)
    for _ in range(400):
        batch = random_batch(draw, {**KINDS, **NESTED})
        lines = json_lines(batch).decode().split("\n")
        assert lines.pop() == "" and len(lines) == batch.num_rows
        for line, row in zip(lines, batch.to_pylist()):
            found = json.loads(line, parse_float=decimal.Decimal)
            assert list(found) == list(row)
            for cell, value, field in zip(found.values(), row.values(), batch.schema):
                assert is_same(cell, value, field.type), (field, line, value)


def is_same(found: Any, expected: Any, kind: pa.DataType) -> bool:
    if expected is None:
        return found is None
    if pa.types.is_list(kind):
        return all(is_same(*pair, kind.value_type) for pair in zip(found, expected)) and len(
            found
        ) == len(expected)
    if pa.types.is_map(kind):
        return list(found.items()) == expected
    if pa.types.is_struct(kind):
        return all(is_same(found[field.name], expected[field.name], field.type) for field in kind)
    if pa.types.is_floating(kind):
        assert isinstance(found, str) == (not np.isfinite(expected))
        number = np.dtype(kind.to_pandas_dtype()).type(str(found))
        return bool(number == expected or (number != number and expected != expected))
    if pa.types.is_binary(kind):
        return base64.b64decode(found) == expected
    if kind == pa.timestamp("us", "UTC"):
        return bool(found == f"{expected.replace(tzinfo=None)}Z")
    return bool(found == (str(expected) if pa.types.is_temporal(kind) else expected))


@pytest.mark.parametrize("lines", [csv_lines, json_lines])
def test_batch_without_rows_is_written_as_no_lines(lines: Any) -> None:
    assert lines(pa.record_batch([pa.array([], pa.string())], ["a"])) == b""
