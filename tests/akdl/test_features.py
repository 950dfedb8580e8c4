from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from akdl import features
from akdl.testing import encode_rows, table_columns

pytestmark = pytest.mark.tf

SCALARS = {
    "flag": "BOOLEAN NOT NULL",
    "tiny": "TINYINT",
    "large": "BIGINT",
    "single": "FLOAT",
    "number": "DOUBLE NOT NULL",
    "text": "VARCHAR(10)",
    "money": "DECIMAL(10, 2)",
    "day": "DATE",
    "clock": "TIME(3)",
    "moment": "TIMESTAMP(6)",
    "instant": "TIMESTAMP_LTZ(3)",
    "raw": "BYTES",
}
CELLS: dict[str, list[Any]] = {
    "flag": [True, False],
    "tiny": [-128, 127],
    "large": [2**63 - 1, -(2**63)],
    "single": [0.5, -1.5],
    "number": [0.1, -3e38],
    "text": ["Größe", ""],
    "money": ["12.50", "-0.01"],
    "day": [19000, -1],
    "clock": [1, 86399999],
    "moment": [1700000000000000, 0],
    "instant": [5, 6],
    "raw": [b"\x00\xff", b""],
}


def parse(
    cells: dict[str, list[Any]], types: dict[str, str], exact: bool = False, **options: Any
) -> dict[str, Any]:
    records = encode_rows(cells, types, exact)
    return features.parse_examples(records, table_columns(types), exact, **options)


def dense(sparse: Any) -> list[list[Any]]:
    return [
        row[:n]
        for row, n in zip(tensors().sparse.to_dense(sparse).numpy().tolist(), row_lengths(sparse))
    ]


def row_lengths(sparse: Any) -> list[int]:
    return np.bincount(sparse.indices.numpy()[:, 0], minlength=int(sparse.dense_shape[0])).tolist()


def tensors() -> Any:
    import tensorflow as tf

    return tf


def test_feature_spec_has_the_dtypes_of_the_columns() -> None:
    tf = tensors()
    spec = features.feature_spec(table_columns(SCALARS))
    assert all(
        isinstance(feature, tf.io.FixedLenFeature) and feature.shape == []
        for feature in spec.values()
    )
    strings = {"text", "money", "raw"}
    floats = {"single", "number"}
    for name, feature in spec.items():
        assert feature.dtype == (
            tf.string if name in strings else tf.float32 if name in floats else tf.int64
        ), name


@pytest.mark.parametrize("text", ["ARRAY<INT>", "ARRAY<INT NOT NULL> NOT NULL", "array< int >"])
def test_feature_spec_of_an_array_has_any_length(text: str) -> None:
    tf = tensors()
    assert features.feature_spec(table_columns({"a": text})) == {"a": tf.io.VarLenFeature(tf.int64)}


def test_feature_spec_of_exact_doubles_is_of_strings() -> None:
    tf = tensors()
    spec = features.feature_spec(
        table_columns({"a": "DOUBLE", "b": "FLOAT", "c": "ARRAY<DOUBLE>"}), exact_doubles=True
    )
    assert spec["a"] == tf.io.FixedLenFeature([], tf.string)
    assert spec["b"].dtype == tf.float32
    assert spec["c"] == tf.io.FixedLenFeature([], tf.string, b"")


def test_feature_spec_refuses_a_default_of_an_unknown_column() -> None:
    with pytest.raises(ValueError, match="unknown columns 'y'; the columns are 'x'"):
        features.feature_spec(table_columns({"x": "INT"}), defaults={"y": 0})


def test_feature_spec_refuses_a_default_of_an_array() -> None:
    with pytest.raises(ValueError, match="ARRAY column 'x'"):
        features.feature_spec(table_columns({"x": "ARRAY<INT>"}), defaults={"x": 0})


@pytest.mark.parametrize(("type_", "default"), [("STRING", None), ("INT", 0.5), ("DATE", None)])
def test_a_default_that_would_become_another_value_is_refused(type_: str, default: Any) -> None:
    with pytest.raises(ValueError, match=rf"'x' \({type_}\): expected a value, got {default}"):
        features.checked_defaults(table_columns({"x": type_}), {"x": default})


@pytest.mark.parametrize("exact", [False, True])
def test_parse_examples_returns_scalars_of_every_type(exact: bool) -> None:
    parsed = parse(CELLS, SCALARS, exact)
    for name, cells in CELLS.items():
        expected = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
        if name == "number" and not exact:
            expected = np.array(cells).astype(np.float32).tolist()
        assert parsed[name].shape == (2,)
        assert parsed[name].numpy().tolist() == expected, name


def test_parse_examples_exact_doubles_are_exact() -> None:
    cells = [0.1, float("inf"), -0.0, 5e-324, 1.7976931348623157e308]
    parsed = parse({"x": cells}, {"x": "DOUBLE"}, exact=True)["x"]
    assert parsed.dtype == tensors().float64
    assert parsed.numpy().tobytes() == struct.pack("<5d", *cells)


def test_parse_examples_returns_arrays_and_empty_ones_for_null() -> None:
    types = {"i": "ARRAY<INT>", "f": "ARRAY<FLOAT>", "s": "ARRAY<STRING>"}
    parsed = parse({"i": [[1, 2], []], "f": [[], [0.5]], "s": [["a"], None]}, types)
    assert dense(parsed["i"]) == [[1, 2], []]
    assert dense(parsed["f"]) == [[], [0.5]]
    assert dense(parsed["s"]) == [[b"a"], []]


def test_parse_examples_returns_exact_arrays_of_different_lengths() -> None:
    parsed = parse({"d": [[0.1, 0.2], None, [], [0.3]]}, {"d": "ARRAY<DOUBLE>"}, exact=True)["d"]
    assert dense(parsed) == [[0.1, 0.2], [], [], [0.3]]


def test_parse_examples_accepts_no_rows() -> None:
    tf = tensors()
    types = {"d": "DOUBLE", "a": "ARRAY<DOUBLE>"}
    parsed = features.parse_examples(
        tf.zeros([0], tf.string), table_columns(types), exact_doubles=True
    )
    assert parsed["d"].shape == (0,)
    assert parsed["a"].dense_shape.numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("sql_type", "exact"), [("INT", False), ("FLOAT", False), ("STRING", False), ("DOUBLE", True)]
)
def test_parse_examples_refuses_null_without_a_default(sql_type: str, exact: bool) -> None:
    with pytest.raises(
        tensors().errors.InvalidArgumentError,
        match="Feature: x .*is required but could not be found",
    ):
        parse({"x": [None]}, {"x": sql_type}, exact)


@pytest.mark.parametrize(
    ("sql_type", "exact", "default", "expected"),
    [
        ("INT", False, -1, -1),
        ("BOOLEAN", False, True, 1),
        ("FLOAT", False, 2, 2.0),
        ("DOUBLE", True, 0.1, 0.1),
        ("STRING", False, "ä", "ä".encode()),
        ("BYTES", False, b"\xff", b"\xff"),
        ("DECIMAL(4, 2)", False, "0.00", b"0.00"),
    ],
)
def test_parse_examples_replaces_null_by_the_default(
    sql_type: str, exact: bool, default: Any, expected: Any
) -> None:
    parsed = parse({"x": [None]}, {"x": sql_type}, exact, defaults={"x": default})
    assert parsed["x"].numpy().tolist() == [expected]


@pytest.mark.parametrize(("drop", "sizes"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_have_the_rows_in_order(drop: bool, sizes: list[int]) -> None:
    types = {"x": "BIGINT", "d": "DOUBLE"}
    records = encode_rows({"x": range(10), "d": [0.1] * 10}, types, True)
    dataset = tensors().data.Dataset.from_tensor_slices(records)
    found = list(
        features.batches(
            dataset, 4, table_columns(types), True, drop_remainder=drop
        ).as_numpy_iterator()
    )
    assert [len(batch["x"]) for batch in found] == sizes
    assert np.concatenate([batch["x"] for batch in found]).tolist() == list(range(sum(sizes)))
    assert found[0]["d"].dtype == np.float64
