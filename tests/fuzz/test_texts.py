"""Damaged schemas and types: an error of ours, or columns that read back as they are."""

from __future__ import annotations

from akdl.wire.column_type import parse_type
from bridge.exceptions import SchemaError
from bridge.schema import Schema, quoted
from tests.bridge.codec.random_cells import PLAIN
from tests.support.fuzzing import cases, damaged, outcomes


def test_schemas() -> None:
    found = outcomes()
    for rng in cases():
        names = rng.sample(["a", "B c", "`", "ż", "select", "x.y", "1"], 3)
        types = [rng.choice(PLAIN) + rng.choice(["", " NOT NULL"]) for _ in names]
        types = [f"ARRAY<{sql}>" if rng.random() < 0.2 and "LTZ" not in sql else sql for sql in types]
        text = ", ".join(f"{quoted(name)} {sql}" for name, sql in zip(names, types))
        text = damaged(rng, text.encode()).decode("utf-8", "replace")
        try:
            schema = Schema.parse(text)
        except SchemaError:
            found["refused"] += 1
            continue
        again = ", ".join(f"{quoted(column.name)} {column.type.sql}" for column in schema)
        assert Schema.parse(again) == schema
        found["columns"] += 1
    assert min(found["refused"], found["columns"]) > found.total() / 20, found


def test_types() -> None:
    found = outcomes()
    for rng in cases():
        text = damaged(rng, rng.choice(PLAIN).encode()).decode("utf-8", "replace")
        try:
            known = parse_type(text)
        except ValueError:
            found["refused"] += 1
            continue
        assert parse_type(known.sql) == known
        found["type"] += 1
    assert found["refused"] > found["type"], found
