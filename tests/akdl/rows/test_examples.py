"""Frames made of columns hold what the protobuf API makes of the same cells, and TensorFlow reads
them.
"""

from __future__ import annotations

import io
import pathlib
import struct
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from akdl.features import FLOAT32, INT64
from akdl.rows.examples import HEAD, ExampleEncoder, records
from akdl.testing import table_columns
from akdl.wire import Example, Rows
from akdl.wire.cells import read_cells
from akdl.wire.column_type import Kind, type_of
from tests.support.random_rows import TYPES, random_cells, rows_of


def feature_of(cell: Any, sql_type: str, exact_doubles: bool) -> dict[str, Any]:
    """Return a cell as the protobuf API gives its feature."""
    (column,) = table_columns({"x": sql_type})
    column_type = type_of(column)
    values = cell if column_type.is_array else [cell]
    if column_type.kind is Kind.DOUBLE and exact_doubles:
        return {"bytes_list": [struct.pack(f"<{len(values)}d", *values)]}
    if column_type.feature == INT64:
        return {"int64_list": [int(value) for value in values]}
    if column_type.feature == FLOAT32:
        with np.errstate(over="ignore"):
            return {"float_list": np.array(values, "f4").tolist()}
    return {"bytes_list": values}


def parsed(record: bytes) -> dict[str, Any]:
    found = Example.FromString(record).features.feature
    return {
        name: {each.WhichOneof("kind"): list(getattr(each, each.WhichOneof("kind")).value)}
        for name, each in found.items()
    }


def wanted(
    cells: dict[str, list[Any]], types: dict[str, str], exact_doubles: bool
) -> list[dict[str, Any]]:
    size = len(next(iter(cells.values())))
    return [
        {
            name: feature_of(cells[name][row], types[name], exact_doubles)
            for name in cells
            if cells[name][row] is not None
        }
        for row in range(size)
    ]


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check(frames: memoryview) -> list[bytes]:
    """Return the records of frames whose checksums are right."""
    found, start = list(records(io.BytesIO(frames))), 0
    for record in found:
        head = struct.pack("<Q", len(record))
        frame = head + struct.pack("<I", masked(head)) + record + struct.pack("<I", masked(record))
        assert frames[start : start + len(frame)] == frame
        start += len(frame)
    assert start == len(frames)
    return found


def encoded(
    cells: dict[str, list[Any]], types: dict[str, str], exact_doubles: bool = False
) -> list[dict[str, Any]]:
    encoder, rows = ExampleEncoder(table_columns(types), exact_doubles), rows_of(cells, types)
    frames = encoder.frames(rows)
    for most in (1, 1000):
        assert b"".join(map(bytes, encoder.pieces(rows, most))) == frames
    return [parsed(record) for record in check(frames)]


@pytest.mark.parametrize("seed", range(40))
def test_random_rows_are_encoded_as_by_the_protobuf_api(seed: int) -> None:
    random = np.random.RandomState(seed)
    names = random.choice(sorted(TYPES), random.randint(1, len(TYPES) + 1), replace=False)
    types = {f"{name.lower()}{'ü' * random.randint(3)}": TYPES[name] for name in names}
    cells = random_cells(
        types, int(random.choice([0, 1, 7, 120])), float(random.choice([0, 0.2, 1])), random
    )
    exact_doubles = bool(seed % 2)
    assert encoded(cells, types, exact_doubles) == wanted(cells, types, exact_doubles)


@pytest.mark.parametrize("exact_doubles", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_thousand_rows_of_all_types_are_encoded_as_by_the_protobuf_api(
    exact_doubles: bool,
) -> None:
    cells = random_cells(TYPES, 1_100, 0.2, np.random.RandomState(8))
    assert encoded(cells, TYPES, exact_doubles) == wanted(cells, TYPES, exact_doubles)


@pytest.mark.tf
@pytest.mark.parametrize("null_share", [0, 0.3])
def test_tensorflow_reads_the_frames_and_finds_the_checksums_right(
    tmp_path: pathlib.Path, null_share: float
) -> None:
    import tensorflow as tf

    path = tmp_path / "rows.tfrecords"
    cells = random_cells(TYPES, 150, null_share, np.random.RandomState(1))
    path.write_bytes(ExampleEncoder(table_columns(TYPES)).frames(rows_of(cells, TYPES)))
    found = [
        tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))
    ]
    assert [parsed(each.SerializeToString()) for each in found] == wanted(cells, TYPES, False)


def test_texts_of_very_different_lengths_are_encoded_as_by_the_protobuf_api() -> None:
    lengths = [0, 1, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000, 300_000, 2, 0, 70_000, 3]
    cells = {
        "s": [bytes([n % 256]) * length for n, length in enumerate(lengths)],
        "n": list(range(len(lengths))),
    }
    types = {"s": "BYTES", "n": "INT"}
    assert encoded(cells, types) == wanted(cells, types, False)


@pytest.mark.parametrize("length", [1, 40, 5000])
def test_cells_of_one_width_need_not_be_numbers(length: int) -> None:
    cells = {
        "s": [bytes([n]) * length for n in range(20)],
        "xs": [[float(n), 2.0] for n in range(20)],
    }
    types = {"s": "STRING", "xs": "ARRAY<FLOAT>"}
    assert encoded(cells, types) == wanted(cells, types, False)
    frames = ExampleEncoder(table_columns(types)).frames(rows_of(cells, types))
    assert len({len(record) for record in records(io.BytesIO(frames))}) == 1


def test_a_double_beyond_float32_is_infinity() -> None:
    assert encoded({"x": [1e300, -1e300, 0.1]}, {"x": "DOUBLE"}) == [
        {"x": {"float_list": [value]}}
        for value in (float("inf"), -float("inf"), float(np.float32(0.1)))
    ]


def test_columns_that_the_message_lacks_are_null() -> None:
    rows = rows_of({"a": [1, 2]}, {"a": "INT"})
    frames = ExampleEncoder(table_columns({"b": "STRING", "a": "INT"})).frames(rows)
    assert [parsed(record) for record in check(frames)] == [
        {"a": {"int64_list": [1]}},
        {"a": {"int64_list": [2]}},
    ]
    assert [parsed(record) for record in check(ExampleEncoder([]).frames(rows))] == [{}, {}]


def test_an_empty_array_is_not_null() -> None:
    cells = {"a": [[], None, [1]], "b": [[], None, [b"x"]], "c": [[], None, [1.0]]}
    types = {"a": "ARRAY<INT>", "b": "ARRAY<STRING>", "c": "ARRAY<DOUBLE>"}
    for exact_doubles in (False, True):
        assert encoded(cells, types, exact_doubles) == wanted(cells, types, exact_doubles)


def test_features_are_encoded_in_the_order_of_the_columns() -> None:
    cells = {"b": [b"1"], "a": [b"2"]}
    types = dict.fromkeys("ba", "STRING")
    (record,) = records(
        io.BytesIO(ExampleEncoder(table_columns(types)).frames(rows_of(cells, types)))
    )
    assert record.index(b"b") < record.index(b"a")


def test_rows_of_the_tests_hold_their_cells() -> None:
    """The other tests stand on this."""
    cells = random_cells({"a": "ARRAY<STRING>", "d": "DOUBLE"}, 50, 0.3, np.random.RandomState(0))
    rows = Rows.FromString(
        rows_of(cells, {"a": "ARRAY<STRING>", "d": "DOUBLE"}).SerializeToString()
    )
    words, doubles = (read_cells(column, 50) for column in rows.columns)
    assert doubles.valid.tolist() == [cell is not None for cell in cells["d"]]
    assert np.diff(words.cell_offsets).tolist() == [len(cell or []) for cell in cells["a"]]
    assert words.values.tobytes() == b"".join(word for cell in cells["a"] if cell for word in cell)
    assert HEAD == 12


def test_no_rows_make_no_frames() -> None:
    columns = table_columns({"id": "BIGINT", "v": "ARRAY<FLOAT>"})
    assert bytes(ExampleEncoder(columns, exact_doubles=False).frames(Rows())) == b""
