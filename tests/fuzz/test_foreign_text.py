"""Damaged and odd files of JSON and CSV: an error that names the file, or the values that the text
has, in little memory.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from bridge.exceptions import BridgeError
from bridge.files.description import describe
from bridge.schema import Schema
from tests.bridge.files.test_reading import read
from tests.support.fuzzing import cases, damaged, damaged_json, outcomes

MOST_BYTES = 256 << 20  # of Arrow
NUMBERS = [
    "0",
    "7",
    "-5",
    "007",
    "0x1F",
    "1.5",
    "1e300",
    "1e400",
    str(2**53 + 1),
    str(2**63 - 1),
    str(2**63),
    str(-(2**64)),
    "9" * 400,
]
TEXTS = [
    "x",
    "",
    "ż",
    "00501",
    "null",
    "2024-04-29T12:38:00Z",
    "2024-04-29 12:38:00+04:00",
    "2024-04-29",
    "2024-02-30T00:00:00",
]
DECLARED = [
    None,
    None,
    "id BIGINT, s STRING",
    "id DOUBLE, t TIMESTAMP_LTZ(3)",
    "id DECIMAL(38, 2), t TIMESTAMP(3)",
    "s BYTES, x FLOAT",
]


@pytest.fixture(autouse=True)
def arrow_memory() -> Iterator[None]:
    """Count the memory of these tests alone, in a pool that no other test of the process uses:
    those may have taken more.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    yield
    pa.set_memory_pool(before)


def table_of(path: pathlib.Path, sql: str | None) -> tuple[pa.Table, set[str]] | None:
    """Read a file; return its rows, and the columns whose types come from the file, or None if it
    is refused by name.
    """
    try:
        schema = None if sql is None else Schema.parse(sql)
        found = read(str(path), schema=schema)
        return found, {
            column.name
            for column in describe("Source", [str(path)], schema=schema).columns
            if column.declared is None
        }
    except BridgeError as error:
        assert str(error).startswith(f"Source: {path}"), error
        return None
    finally:
        assert pa.default_memory_pool().max_memory() < MOST_BYTES


def is_same(cell: Any, value: Any) -> bool:
    """Compare a cell with a value of JSON; times and bytes are compared elsewhere."""
    if isinstance(cell, dict):
        return all(is_same(each, (value or {}).get(name)) for name, each in cell.items())
    if isinstance(cell, list):
        return len(cell) == len(value) and all(map(is_same, cell, value))
    if isinstance(cell, float) and isinstance(value, int):
        return int(cell) == value
    return cell == value or not isinstance(cell, (int, str, float)) or cell != cell


@pytest.mark.fault(
    "security",
    "Damaged files of JSON and CSV are errors that name the file, or read as they are written",
)
def test_damaged_json_is_refused_or_read_as_written(tmp_path: pathlib.Path) -> None:
    path, found = tmp_path / "a.json", outcomes()
    for rng in cases():
        kinds = rng.sample(NUMBERS, 2), rng.sample(TEXTS, 2)
        lines = []
        for number in range(rng.choice([1, 3, 40])):
            row: Any = {
                "s": rng.choice(kinds[1]),
                "t": rng.choice(TEXTS[5:7]),
                "x": 1.5,
                "deep": {"a": [number]},
            }
            if rng.random() < 0.1:
                row = damaged_json(rng, row)
            text = json.dumps(row)
            lines.append(
                text[:-1] + f', "id": {rng.choice(kinds[0])}}}'
                if isinstance(row, dict) and row
                else text
            )
        content = "\n".join(lines).encode()
        if rng.random() < 0.5:
            content = damaged(rng, content)
        path.write_bytes(content)
        got = table_of(path, rng.choice(DECLARED))
        found["refused" if got is None else "rows"] += 1
        if got is None:
            continue
        rows = [
            json.loads(line) for line in content.decode("utf-8-sig").split("\n") if line.strip()
        ]
        assert got[0].num_rows == len(rows)
        for cells, row in zip(got[0].to_pylist(), rows):
            assert all(is_same(cells[name], row.get(name)) for name in got[1]), (cells, row)
    assert min(found["refused"], found["rows"]) > found.total() / 20, found


def test_damaged_csv_is_refused_or_read_as_written(tmp_path: pathlib.Path) -> None:
    path, found = tmp_path / "a.csv", outcomes()
    for rng in cases():
        content = csv_of(rng).encode()
        if rng.random() < 0.5:
            content = damaged(rng, content)
        path.write_bytes(content)
        got = table_of(path, rng.choice(DECLARED))
        found["refused" if got is None else "rows"] += 1
        if got is None or b"\r" in content or b"\0" in content:
            continue
        names, *rows = [
            row
            for row in csv.reader(
                io.StringIO(content.decode("utf-8-sig", "surrogateescape"), newline="")
            )
            if row
        ]
        if got[0].num_rows != len(rows):
            continue  # an odd quote, of which each reader has its own idea
        for cells, row in zip(got[0].to_pylist(), rows):
            for name in got[1]:
                cell, text = cells[name], row[names.index(name)]
                if type(cell) is int:
                    assert str(cell) == text.strip().replace("-0", "0"), (cell, text)
                elif isinstance(cell, float) and text.strip().lstrip("+-").isdecimal():
                    assert int(cell) == int(text), (cell, text)
                elif isinstance(cell, str):
                    assert cell == text, (cell, text)
    assert min(found["refused"], found["rows"]) > found.total() / 20, found


def csv_of(rng: random.Random) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["id", "s", "t", "x"])
    kinds = rng.sample(NUMBERS, 2), rng.sample([*TEXTS, "a,b", 'a"b', "a\nb", " 7 "], 2)
    for _ in range(rng.choice([1, 3, 40])):
        writer.writerow([rng.choice(kinds[0]), rng.choice(kinds[1]), rng.choice(TEXTS[5:7]), 1.5])
    return file.getvalue()
