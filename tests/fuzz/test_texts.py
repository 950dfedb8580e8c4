"""Damaged schemas, types, layers and records: an error of ours, or what reads back as it is."""

from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError

from akdl.models.tf.keras_sequential.layer_text import LayerTextError, parse_call
from akdl.wire.column_type import parse_type
from akdl.wire.status_pb2 import MemberStatus
from bridge.exceptions import SchemaError
from bridge.member.status import DATA, TRAINING, WORK
from bridge.schema import Schema, quoted
from operators.progress.record import read_record
from operators.tools.report import page_of
from tests.bridge.codec.random_cells import PLAIN
from tests.support.fuzzing import cases, damaged, damaged_json, outcomes
from tests.support.statuses import status_of


@pytest.mark.fault("data", "A malformed schema is an error that says where")
def test_malformed_schemas_are_refused_and_good_ones_come_back() -> None:
    found = outcomes()
    for rng in cases():
        names = rng.sample(["a", "B c", "`", "ż", "select", "x.y", "1"], 3)
        types = [rng.choice(PLAIN) + rng.choice(["", " NOT NULL"]) for _ in names]
        types = [
            f"ARRAY<{sql}>" if rng.random() < 0.2 and "LTZ" not in sql else sql for sql in types
        ]
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


def test_malformed_types_are_refused_and_good_ones_come_back() -> None:
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


LAYERS = [
    "Conv2D(32, (3, 3), activation='relu')", "Bidirectional(LSTM(8, return_sequences=True))", "tf.keras.layers.Reshape([3, -1])",
    "Dense(1" + " + 1" * 5000 + ")", "Dense(" + "[" * 500 + "]" * 500 + ")", "Dense(" + "-" * 5000 + "1)", "A(" * 900 + ")" * 900,
    "Dense" + ".a" * 4000 + "()", "Dense(" + "9" * 8000 + ")",
]  # fmt: skip


@pytest.mark.fault(
    "security", "A layer as text that is nested thousands of levels deep is an error"
)
def test_malformed_layers_are_refused_in_short_errors() -> None:
    found = outcomes()
    for rng in cases():
        text = rng.choice(LAYERS)
        text = (
            damaged(rng, text.encode()).decode("utf-8", "replace") if rng.random() < 0.8 else text
        )
        try:
            parse_call(text)
        except LayerTextError as error:
            assert len(str(error)) < 1000
            found["refused"] += 1
            continue
        found["layers"] += 1
    assert min(found["refused"], found["layers"]) > found.total() / 20, found


def lines_of_a_record() -> list[dict[str, object]]:
    """Return the lines of a run of two workers."""
    lines: list[dict[str, object]] = [
        {"kind": "run", "version": 1, "name": "a.py", "size": 2, "started": "2026-01-01T00:00:00"}
    ]
    for second in range(1, 12):
        for index in range(2):
            status = status_of(
                "g", index, f"worker {index}", phase=TRAINING, rows_in=100 * second, age_s=float(second), memory_bytes=second << 28,
                metrics={"loss": 1 / second, "total_steps": 9.0}, time_s={DATA: 2.0, WORK: float(second)}, cpu_s=1.0,
            )  # fmt: skip
            fields = MessageToDict(status, preserving_proto_field_name=True)
            lines.append(
                {
                    "kind": "sample",
                    "t": float(second),
                    **{name: fields[name] for name in fields if name != "group"},
                }
            )
    return [*lines, {"kind": "end", "t": 12.0, "failed": False}]


@pytest.mark.fault("security", "A malformed record of a run is an error with line and entry")
def test_malformed_records_are_refused_with_their_line() -> None:
    found = outcomes()
    for rng in cases():
        lines = lines_of_a_record()
        for _ in range(rng.choice([1, 1, 3])):
            place = rng.randrange(len(lines))
            lines[place] = damaged_json(rng, lines[place])
        text = "\n".join(map(json.dumps, lines))
        text = (
            damaged(rng, text.encode()).decode("utf-8", "replace") if rng.random() < 0.2 else text
        )
        try:
            record = read_record(text)
        except ValueError as error:
            assert "line" in str(error) or "no record" in str(error), error
            found["refused"] += 1
            continue
        assert page_of(record).endswith("</html>\n")
        found["page"] += 1
    assert min(found["refused"], found["page"]) > found.total() / 20, found


@pytest.mark.fault("security", "A malformed status of a member is left out")
def test_damaged_statuses_are_refused_or_read() -> None:
    found = outcomes()
    whole = ParseDict(
        lines_of_a_record()[1], MemberStatus(), ignore_unknown_fields=True
    ).SerializeToString()
    for rng in cases():
        try:
            read = MemberStatus.FromString(damaged(rng, whole))
        except DecodeError:
            found["refused"] += 1
            continue
        assert MemberStatus.FromString(read.SerializeToString()).label == read.label
        found["status"] += 1
    assert min(found["refused"], found["status"]) > found.total() / 20, found
