from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.testing import batch_task_config, encode_rows, table_columns

pytestmark = [pytest.mark.tf, pytest.mark.estimator]

CONFIG: list[dict[str, Any]] = [
    {"name": "x", "dtype": "float", "shape": [1]},
    {"name": "flag", "dtype": "boolean", "shape": []},
    {"name": "label", "dtype": "int", "shape": [1]},
]
TYPES = {"x": "FLOAT", "flag": "BOOLEAN", "label": "BIGINT"}


@pytest.fixture(scope="module")
def inputs() -> Any:
    from akdl.engine import inputs

    return inputs


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


def raw_dataset_fn(tf: Any, rows: int) -> Any:
    cells = {
        "x": [i / 2 for i in range(rows)],
        "flag": [i % 2 for i in range(rows)],
        "label": range(rows),
    }
    records = encode_rows(cells, TYPES)
    return lambda: tf.data.Dataset.from_tensor_slices(records)


def test_parse_feature_specs_makes_a_spec_for_each_type_of_feature(inputs: Any, tf: Any) -> None:
    entries = [
        {"name": "a", "dtype": "double", "shape": [2]},
        {"name": "b", "dtype": "long", "shape": [], "feature_type": "FixedLenSequenceFeature"},
        {"name": "c", "dtype": "string", "feature_type": "VarLenFeature"},
        {"name": "d", "dtype": tf.float32, "shape": []},
    ]
    assert inputs.parse_feature_specs(entries) == {
        "a": tf.io.FixedLenFeature([2], tf.float32),
        "b": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "c": tf.io.VarLenFeature(tf.string),
        "d": tf.io.FixedLenFeature([], tf.float32),
    }


def test_parse_feature_specs_accepts_feature_types_as_classes(inputs: Any, tf: Any) -> None:
    entry = {"name": "x", "dtype": "float", "shape": [2]}
    for kind in ("FixedLenFeature", "FixedLenSequenceFeature", "VarLenFeature"):
        named = inputs.parse_feature_specs([{**entry, "feature_type": kind}])
        assert (
            inputs.parse_feature_specs([{**entry, "feature_type": getattr(tf.io, kind)}]) == named
        )


def test_dtype_str_map_has_all_names_of_dtypes(inputs: Any) -> None:
    assert {name: dtype.name for name, dtype in inputs.dtype_str_map.items()} == {
        "byte": "int8",
        "ubyte": "uint8",
        "int": "int64",
        "long": "int64",
        "float": "float32",
        "double": "float32",
        "boolean": "bool",
        "string": "string",
    }


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        (
            {"name": "a", "dtype": "number", "shape": []},
            "feature 'a': unknown dtype 'number', expected one of byte,",
        ),
        ({"name": "a", "dtype": "int"}, "got .*: add 'shape'"),
        ({"dtype": "int", "shape": []}, "got .*: add 'name'"),
        (
            {"name": "a", "dtype": "int", "shape": [], "feature_type": "Odd"},
            "unknown feature_type 'Odd'",
        ),
    ],
)
def test_parse_feature_specs_refuses_a_wrong_entry(
    inputs: Any, entry: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        inputs.parse_feature_specs([entry])


def test_example_parser_parses_batches_and_single_rows(inputs: Any, tf: Any) -> None:
    parse = inputs.get_example_parser(inputs.parse_feature_specs(CONFIG), "label")
    records = list(raw_dataset_fn(tf, 3)().as_numpy_iterator())
    features, label = parse(tf.constant(records))
    assert features["x"].numpy().tolist() == [[0.0], [0.5], [1.0]]
    assert features["flag"].dtype == tf.bool
    assert features["flag"].numpy().tolist() == [False, True, False]
    assert label.numpy().tolist() == [[0], [1], [2]]
    features, label = parse(tf.constant(records[1]))
    assert (features["x"].numpy().tolist(), label.numpy().tolist()) == ([0.5], [1])


def test_example_parser_refuses_an_unknown_label(inputs: Any) -> None:
    with pytest.raises(ValueError, match="the label 'y' is not among the features x, flag, label"):
        inputs.get_example_parser(inputs.parse_feature_specs(CONFIG), "y")


@pytest.mark.parametrize("shape", [[], [1]])
def test_example_parser_returns_the_weight_as_float_apart_from_the_features(
    inputs: Any, tf: Any, shape: list[int]
) -> None:
    types = {"x": "FLOAT", "label": "BIGINT", "weight": "BIGINT"}
    records = encode_rows({"x": [1, 2], "label": [3, 4], "weight": [0, 1]}, types)
    specs = {name: tf.io.FixedLenFeature(shape, tf.int64) for name in ("label", "weight")}
    specs["x"] = tf.io.FixedLenFeature(shape, tf.float32)
    features, _, weight = inputs.get_example_parser(specs, "label", "weight")(tf.constant(records))
    assert list(features) == ["x"]
    assert weight.dtype == tf.float32
    assert weight.numpy().tolist() == [0, 1]
    assert (
        inputs.get_example_parser(specs, "label", "weight")(tf.constant(records[1]))[2].numpy() == 1
    )


def test_example_parser_refuses_an_unknown_weight(inputs: Any, tf: Any) -> None:
    with pytest.raises(ValueError, match="the weight 'w' is not among the features label"):
        inputs.get_example_parser({"label": tf.io.FixedLenFeature([], tf.int64)}, "label", "w")


COLUMNS = table_columns({**TYPES, "weight": "DOUBLE", "word": "STRING", "many": "ARRAY<FLOAT>"})


def feature_specs(inputs: Any, **more: Any) -> Any:
    return inputs.parse_feature_specs(
        [*CONFIG, *[{"name": name, **entry} for name, entry in more.items()]]
    )


def test_columns_parser_gives_what_the_parser_of_rows_gives(inputs: Any, tf: Any) -> None:
    specs = feature_specs(inputs, weight={"dtype": "double", "shape": [1, 1]})
    cells = {"x": [0.5, 1], "flag": [0, 1], "label": [2**40, -1], "weight": [0.25, 2]}
    records = encode_rows(cells, {**TYPES, "weight": "DOUBLE"})
    dtypes = {"x": tf.float32, "weight": tf.float32}
    columns = {
        name: tf.constant(values, dtypes.get(name, tf.int64)) for name, values in cells.items()
    }
    for weight_col in (None, "weight"):
        parse = inputs.get_columns_parser(specs, "label", weight_col, COLUMNS)
        found = tf.nest.flatten(parse(columns))
        wanted = tf.nest.flatten(
            inputs.get_example_parser(specs, "label", weight_col)(tf.constant(records))
        )
        assert len(found) == len(wanted) == 4
        for one, other in zip(found, wanted):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.numpy().tolist() == other.numpy().tolist()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("many", {"dtype": "int", "feature_type": "VarLenFeature"}),
        ("many", {"dtype": "float", "feature_type": "FixedLenSequenceFeature", "shape": []}),
        ("weight", {"dtype": "float", "feature_type": "VarLenFeature"}),
        ("weight", {"dtype": "int", "shape": []}),
        ("weight", {"dtype": "float", "shape": [2]}),
        ("nowhere", {"dtype": "float", "shape": []}),
    ],
)
def test_columns_parser_is_none_for_features_that_have_to_be_parsed(
    inputs: Any, name: str, entry: Any
) -> None:
    assert (
        inputs.get_columns_parser(feature_specs(inputs, **{name: entry}), "label", None, COLUMNS)
        is None
    )


@pytest.mark.parametrize(
    ("name", "entry", "cells"),
    [
        ("word", {"dtype": "string", "shape": []}, [b"a", b""]),
        ("many", {"dtype": "float", "feature_type": "VarLenFeature"}, [[1.0, 2.0], []]),
        ("many", {"dtype": "double", "shape": [2, 1]}, [[1.0, 2.0], [3.0, 4.0]]),
        ("many", {"dtype": "float", "shape": []}, [[1.0], [3.0]]),
    ],
)
def test_columns_parser_gives_strings_and_lists_as_the_parser_of_rows(
    inputs: Any, tf: Any, tmp_path: Path, name: str, entry: Any, cells: Any
) -> None:
    specs = feature_specs(inputs, **{name: entry})
    types = {**TYPES, name: {"word": "STRING", "many": "ARRAY<FLOAT>"}[name]}
    rows = {"x": [0.5, 1], "flag": [0, 1], "label": [2, 3], name: cells}
    context = batch_task_config(rows, types, str(tmp_path)).tf_context
    (found,) = context.batches(5).map(inputs.get_columns_parser(specs, "label", None, COLUMNS))
    wanted = inputs.get_example_parser(specs, "label")(tf.constant(encode_rows(rows, types)))
    for one, other in zip(tf.nest.flatten(found, True), tf.nest.flatten(wanted, True)):
        assert one.dtype == other.dtype and one.numpy().tolist() == other.numpy().tolist()


@pytest.mark.parametrize(
    "cells", [[[1.0, 2.0], []], [[1.0], [2.0]], [[1.0, 2.0, 3.0], [4.0]], [[1.0, 2.0], None]]
)
def test_columns_parser_refuses_lists_of_a_wrong_length(
    inputs: Any, tf: Any, tmp_path: Path, cells: Any
) -> None:
    specs = feature_specs(inputs, many={"dtype": "float", "shape": [2]})
    rows = {"x": [0.5, 1], "flag": [0, 1], "label": [2, 3], "many": cells}
    context = batch_task_config(rows, {**TYPES, "many": "ARRAY<FLOAT>"}, str(tmp_path)).tf_context
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(context.batches(5).map(inputs.get_columns_parser(specs, "label", None, COLUMNS)))


def test_columns_parser_is_none_for_defaults_and_exact_doubles(inputs: Any, tf: Any) -> None:
    specs = {**feature_specs(inputs), "weight": tf.io.FixedLenFeature([], tf.float32)}
    assert inputs.get_columns_parser(specs, "label", None, COLUMNS) is not None
    assert inputs.get_columns_parser(specs, "label", None, COLUMNS, True) is None
    specs["weight"] = tf.io.FixedLenFeature([], tf.float32, 1.0)
    assert inputs.get_columns_parser(specs, "label", None, COLUMNS) is None


def test_columns_parser_refuses_an_unknown_label(inputs: Any) -> None:
    with pytest.raises(ValueError, match="the label 'y' is not among the features"):
        inputs.get_columns_parser(feature_specs(inputs), "y", None, COLUMNS)


def test_feature_placeholders_have_shapes_and_names_of_the_config(inputs: Any, tf: Any) -> None:
    entries = [
        {"name": "x", "dtype": "float", "shape": [1]},
        {"name": "Ö l", "dtype": "int", "shape": [2]},
    ]
    found = inputs.get_feature_placeholders(entries, export_batch_dim=True)
    assert {name: tensor.shape.as_list() for name, tensor in found.items()} == {
        "x": [None, 1],
        "Ö l": [None, 2],
    }
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        "x": tf.float32,
        "Ö l": tf.int64,
    }
    assert found["x"].op.name == "x"
    found = inputs.get_feature_placeholders(entries)
    assert found["x"].shape.as_list() == [1]


def test_feature_placeholders_are_made_in_the_current_graph(inputs: Any, tf: Any) -> None:
    with tf.Graph().as_default() as graph:
        found = inputs.get_feature_placeholders([{"name": "x", "dtype": "float", "shape": [1]}])
    assert found["x"].graph is graph


# A whole train config or export config can be given.
def test_dataset_lists_ignored_keys_in_one_warning(
    inputs: Any, tf: Any, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = {
        "feature_specs": inputs.parse_feature_specs(CONFIG),
        "raw_dataset_fn": raw_dataset_fn(tf, 3),
        "label_col": "label",
    }
    input_fn = inputs.get_dataset_fn(
        batch_size=3, num_epochs=1, log_step_count_steps=1, filenames="x", **arguments
    )
    for _ in range(2):
        ((_, label),) = input_fn()
        assert len(label) == 3
    assert caplog.messages == ["get_dataset does not read the keys filenames, log_step_count_steps"]


def test_feature_placeholders_warn_of_keys_that_they_ignore(
    inputs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    found = inputs.get_feature_placeholders(
        placeholders_config=CONFIG[:1], export_batch_dim=True, exporter_type="best"
    )
    assert found["x"].shape.as_list() == [None, 1]
    assert caplog.messages == ["get_feature_placeholders does not read the keys exporter_type"]


def batches_of_dataset(inputs: Any, tf: Any, rows: int = 10, **options: Any) -> list[Any]:
    arguments = {"batch_size": 4, "num_epochs": 1, **options}
    specs = inputs.parse_feature_specs(CONFIG)
    make = inputs.get_dataset_fn(
        feature_specs=specs, raw_dataset_fn=raw_dataset_fn(tf, rows), label_col="label", **arguments
    )
    return list(make().as_numpy_iterator())


def test_dataset_has_each_row_once_per_epoch(inputs: Any, tf: Any) -> None:
    batches = batches_of_dataset(inputs, tf, num_epochs=3, prefetch_buffer_size=1)
    assert [len(label) for _, label in batches] == [4] * 7 + [2]
    labels = np.concatenate([label[:, 0] for _, label in batches])
    assert np.bincount(labels).tolist() == [3] * 10
    assert labels.tolist() != list(range(10)) * 3
    for features, label in batches:
        assert (features["x"] * 2 == label).all()


def test_dataset_keeps_the_order_of_rows_without_shuffling(inputs: Any, tf: Any) -> None:
    batches = batches_of_dataset(inputs, tf, shuffle_factor=0)
    assert np.concatenate([label[:, 0] for _, label in batches]).tolist() == list(range(10))


@pytest.mark.parametrize("shuffle_factor", [0, 10])
def test_dataset_post_processing_sees_single_rows(
    inputs: Any, tf: Any, shuffle_factor: int
) -> None:
    shapes = []

    def only_odd(dataset: Any) -> Any:
        shapes.append(dataset.element_spec[1].shape.as_list())
        return dataset.filter(lambda features, label: features["flag"])

    batches = batches_of_dataset(
        inputs, tf, shuffle_factor=shuffle_factor, post_process_dataset=only_odd, num_epochs=2
    )
    assert shapes == [[1]]
    assert [len(label) for _, label in batches] == [4, 4, 2]
    assert sorted(np.concatenate([label[:, 0] for _, label in batches]).tolist()) == sorted(
        [1, 3, 5, 7, 9] * 2
    )


def test_dataset_turns_off_sharding_by_strategies(inputs: Any, tf: Any) -> None:
    parser = inputs.get_example_parser({"x": tf.io.FixedLenFeature([1], tf.float32)}, "x")
    dataset = inputs.get_dataset(None, raw_dataset_fn(tf, 5), None, 2, 1, example_parser=parser)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_dataset_accepts_a_parser_of_the_user(inputs: Any, tf: Any) -> None:
    dataset = inputs.get_dataset(
        None, raw_dataset_fn(tf, 3), None, 2, 1, example_parser=lambda rows: (rows, tf.size(rows))
    )
    assert [size for _, size in dataset.as_numpy_iterator()] == [2, 1]


def test_dataset_refuses_to_go_without_specs_and_parser(inputs: Any, tf: Any) -> None:
    with pytest.raises(ValueError, match="feature_specs and label_col, or an example_parser"):
        inputs.get_dataset(None, raw_dataset_fn(tf, 3), "label", 2, 1)
