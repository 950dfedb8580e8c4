from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl import testing
from akdl.runner.config import BatchTaskConfig, StreamTaskConfig, TrainTaskConfig
from akdl.runner.context import Share
from akdl.runner.output_writer import OutputWriter
from akdl.wire import Example

TYPES = {"x": "DOUBLE", "words": "ARRAY<STRING>", "n": "BIGINT"}
CELLS: dict[str, list[Any]] = {"x": [0.5, None], "words": [["a", "ä"], []], "n": [1, 2]}


def test_encode_rows_makes_examples_with_the_features_of_the_types() -> None:
    first, second = (Example.FromString(record) for record in testing.encode_rows(CELLS, TYPES))
    assert first.features.feature["x"].float_list.value == [0.5]
    assert first.features.feature["words"].bytes_list.value == [b"a", "ä".encode()]
    assert first.features.feature["n"].int64_list.value == [1]
    assert sorted(second.features.feature) == ["n", "words"]


def test_encode_rows_makes_bytes_of_exact_doubles() -> None:
    (record,) = testing.encode_rows({"x": [1.0]}, {"x": "DOUBLE"}, exact_doubles=True)
    assert Example.FromString(record).features.feature["x"].bytes_list.value == [
        b"\0\0\0\0\0\0\xf0\x3f"
    ]


def test_encode_rows_refuses_columns_without_types() -> None:
    with pytest.raises(ValueError, match=r"columns \['x'\] and the types \['y'\]"):
        testing.encode_rows({"x": [1]}, {"y": "INT"})


def test_encode_rows_refuses_columns_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="different numbers of rows: {'x': 1, 'y': 2}"):
        testing.encode_rows({"x": [1], "y": [1, 2]}, {"x": "INT", "y": "INT"})


def test_encode_rows_refuses_a_value_that_does_not_fit() -> None:
    with pytest.raises(TypeError):
        testing.encode_rows({"x": ["a"]}, {"x": "INT"})


EXAMPLE = Example()
EXAMPLE.features.feature["n"].int64_list.value.append(7)
EXAMPLE.features.feature["words"].bytes_list.value.append(b"a")


def test_collecting_writer_collects_a_row_without_types() -> None:
    writer = testing.CollectingWriter()
    writer.write(EXAMPLE)
    assert writer.rows == [{"n": 7, "words": b"a"}]


def test_collecting_writer_collects_a_row_of_the_given_types() -> None:
    writer = testing.CollectingWriter(TYPES)
    writer.write(EXAMPLE)
    assert writer.rows == [{"x": None, "words": [b"a"], "n": 7}]
    assert writer.rows_written == 1


def test_collecting_writer_refuses_an_unknown_column() -> None:
    with pytest.raises(ValueError, match="row 0: unknown column 'words'; outputSchemaStr has 'n'"):
        testing.CollectingWriter({"n": "INT"}).write(EXAMPLE)


@pytest.mark.fault("scripts", "A written row with a wrong number of values is an error")
def test_collecting_writer_refuses_a_wrong_number_of_values() -> None:
    example = Example()
    example.features.feature["n"].int64_list.value.extend([1, 2])
    with pytest.raises(
        ValueError,
        match=r"column 'n' \(INT\): expected an int64_list with 1 value, got .* with 2 values",
    ):
        testing.CollectingWriter({"n": "INT"}).write(example)


def test_collecting_writer_refuses_a_value_of_a_wrong_kind() -> None:
    writer = testing.CollectingWriter({"n": "STRING", "words": "ARRAY<STRING>"})
    with pytest.raises(
        TypeError,
        match=r"row 0: column 'n' \(STRING\): expected a bytes_list with 1 value, got an int64_list",
    ):
        writer.write(EXAMPLE)
    assert writer.rows == []


def test_collecting_writer_reads_exact_doubles() -> None:
    example = Example()
    example.features.feature["x"].bytes_list.value.append(np.float64(0.1).tobytes())
    writer = testing.CollectingWriter({"x": "DOUBLE"})
    writer.write(example)
    assert writer.rows == [{"x": 0.1}]


@pytest.mark.parametrize("writer", [testing.CollectingWriter(), OutputWriter(None, [])])  # type: ignore[arg-type]
def test_writers_refuse_objects_that_are_no_examples(writer: Any) -> None:
    with pytest.raises(
        TypeError,
        match="expected a tf.train.Example, got list; write lists and arrays with .*write_batch",
    ):
        writer.write([7])


@pytest.mark.parametrize("types", [None, {"n": "BIGINT", "s": "STRING"}])
def test_collecting_writer_collects_a_batch(types: dict[str, str] | None) -> None:
    writer = testing.CollectingWriter(types)
    writer.write_batch({"n": np.array([1, 2]), "s": ["a", None]})
    assert writer.rows == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
    assert type(writer.rows[0]["n"]) is int


def test_collecting_writer_collects_a_batch_of_a_sparse_tensor_of_bytes() -> None:
    tensor = types.SimpleNamespace(numpy=lambda: np.array([b"a\0", b"b"], object))
    places = types.SimpleNamespace(numpy=lambda: np.array([[0, 0], [1, 0]]))
    sparse = types.SimpleNamespace(indices=places, values=tensor, dense_shape=np.array([2, 1]))
    writer = testing.CollectingWriter({"a": "ARRAY<BYTES>"})
    writer.write_batch({"a": sparse})
    assert writer.rows == [{"a": [b"a\0"]}, {"a": [b"b"]}]


def test_collecting_writer_fills_a_left_out_column_with_null() -> None:
    writer = testing.CollectingWriter({"n": "BIGINT", "s": "STRING"})
    writer.write_batch({"n": np.ma.masked_array([1, 2], [False, True])})
    assert writer.rows == [{"n": 1, "s": None}, {"n": None, "s": None}]


def test_collecting_writer_takes_a_frame_of_pandas_with_nulls() -> None:
    writer = testing.CollectingWriter({"n": "BIGINT", "s": "STRING"})
    writer.write_batch(pd.DataFrame({"n": pd.array([1, None], "Int64"), "s": ["a", "b"]}))
    assert writer.rows == [{"n": 1, "s": "a"}, {"n": None, "s": "b"}]


def test_collecting_writer_collects_a_batch_of_arrays() -> None:
    writer = testing.CollectingWriter({"a": "ARRAY<FLOAT>"})
    writer.write_batch({"a": np.zeros([2, 3], np.float32)})
    assert writer.rows == [{"a": [0.0, 0.0, 0.0]}] * 2


def test_collecting_writer_refuses_columns_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="different numbers of rows"):
        testing.CollectingWriter().write_batch({"a": [1], "b": [1, 2]})


def test_collecting_writer_refuses_a_batch_that_does_not_fit() -> None:
    with pytest.raises(TypeError, match=r"column 'n' \(BIGINT\)"):
        testing.CollectingWriter({"n": "BIGINT"}).write_batch({"n": ["a"]})
    with pytest.raises(ValueError, match="unknown column 'm'"):
        testing.CollectingWriter({"n": "BIGINT"}).write_batch({"m": [1]})


@pytest.mark.tf
def test_batch_task_config_has_rows_task_and_writer(tmp_path: Path) -> None:
    import tensorflow as tf

    task_config = testing.batch_task_config(CELLS, TYPES, str(tmp_path), {"n": 3}, {"y": "INT"})
    assert isinstance(task_config, BatchTaskConfig)
    assert task_config.dataset_length == 2
    assert [column.name for column in task_config.tf_context.columns] == ["x", "words", "n"]
    records = testing.encode_rows(CELLS, TYPES)
    assert list(tf.data.TFRecordDataset(task_config.dataset_file).as_numpy_iterator()) == records
    assert list(task_config.tf_context.flink_stream_dataset().as_numpy_iterator()) == records
    assert (task_config.task_type, task_config.task_index, task_config.num_workers) == (
        "chief",
        0,
        1,
    )
    assert task_config.user_params == {"n": 3}
    task_config.output_writer.write_batch({"y": [1]})
    assert task_config.output_writer.rows == [{"y": 1}]  # type: ignore[attr-defined]


@pytest.mark.tf
def test_a_script_passes_its_arrays_on(tmp_path: Path) -> None:
    types = {"words": "ARRAY<STRING>", "ns": "ARRAY<BIGINT>"}
    cells: dict[str, list[Any]] = {"words": [["a", "ä"], [], ["b"]], "ns": [[1], [2, 3], []]}
    task_config = testing.batch_task_config(cells, types, str(tmp_path), output_types=types)
    for rows in task_config.tf_context.batches(2):
        task_config.output_writer.write_batch(rows)
    assert [row["ns"] for row in task_config.output_writer.rows] == cells["ns"]  # type: ignore[attr-defined]
    words = [[word.decode() for word in row["words"]] for row in task_config.output_writer.rows]  # type: ignore[attr-defined]
    assert words == cells["words"]


@pytest.mark.tf
def test_batch_task_config_accepts_serialized_rows(tmp_path: Path) -> None:
    records = testing.encode_rows(CELLS, TYPES)
    assert testing.batch_task_config(records, TYPES, str(tmp_path)).dataset_length == 2


@pytest.mark.tf
def test_train_task_config_has_task_and_model_dir(tmp_path: Path) -> None:
    task_config = testing.train_task_config(
        CELLS, TYPES, str(tmp_path), task_type="worker", num_workers=2
    )
    assert isinstance(task_config, TrainTaskConfig)
    assert task_config.saved_model_dir == str(tmp_path / "savedmodel")
    assert (task_config.task_type, task_config.num_workers) == ("worker", 2)


@pytest.mark.tf
def test_stream_task_config_has_a_dataset_of_the_rows(tmp_path: Path) -> None:
    task_config = testing.stream_task_config(CELLS, TYPES, str(tmp_path))
    assert isinstance(task_config, StreamTaskConfig)
    assert len(list(task_config.dataset_fn())) == 2


@pytest.mark.tf
def test_batch_task_config_refuses_an_unknown_argument(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'role'"):
        testing.batch_task_config(CELLS, TYPES, str(tmp_path), role="ps")


@pytest.mark.tf
def test_train_task_config_has_its_own_share_or_the_given_ones(tmp_path: Path) -> None:
    task_config = testing.train_task_config(CELLS, TYPES, str(tmp_path))
    assert task_config.tf_context.shares() == [Share(task_config.dataset_file, 2)]
    shares = [Share("a", 1), Share("b", 2)]
    assert (
        testing.train_task_config(CELLS, TYPES, str(tmp_path), shares=shares).tf_context.shares()
        == shares
    )
