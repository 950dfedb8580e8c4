from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.storage.model_archive import find_saved_model, unpack

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]

FEATURES = ["a", "b c", "größe"]
PARAMS = {"featureCols": FEATURES, "labelCol": "label", "batch_size": 32, "num_epochs": 15}
TEXT_PARAMS = {"featureCols": json.dumps(FEATURES), "labelCol": "label", "batch_size": "32", "num_epochs": "15"}


def made_rows(rows: int = 400) -> tuple[dict[str, Any], dict[str, str]]:
    """Rows whose label says whether a + b exceeds g; a gap of 0.2 lies between the classes."""
    values = np.random.default_rng(7).uniform(-1, 1, [rows * 2, 3])
    values = values[abs(values @ [1, 1, -1]) > 0.2][:rows]
    cells = {"a": values[:, 0], "b c": values[:, 1], "größe": values[:, 2], "label": values @ [1, 1, -1] > 0}
    types = {"a": "DOUBLE", "b c": "FLOAT NOT NULL", "größe": "DOUBLE", "id": "STRING", "label": "DOUBLE"}
    return {**cells, "id": ["x"] * len(values)}, types


def accuracy(tf: Any, folder: str, cells: dict[str, Any], key: str) -> float:
    signature = tf.saved_model.load(folder).signatures[key]
    feeds = {name: tf.constant(cells[name], tf.float32, [len(cells[name]), 1]) for name in FEATURES}
    _, keywords = signature.structured_input_signature
    # A signature's own argument names are made fit for Python; they are in the order of the sorted inputs.
    result = signature(**dict(zip(sorted(keywords), [feeds[name] for name in sorted(feeds)])))
    assert result["logits"].shape == (len(cells["label"]), 1)
    return float(np.mean((result["logits"].numpy()[:, 0] > 0) == cells["label"]))


@pytest.mark.parametrize(
    ("label_type", "exact_doubles", "params"),
    [("DOUBLE", False, TEXT_PARAMS), ("BIGINT", True, PARAMS), ("DECIMAL(2, 1)", False, PARAMS)],
)
def test_dnn_train_learns_and_exports(tmp_path: Path, label_type: str, exact_doubles: bool, params: dict[str, Any]) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_train

    cells, types = made_rows()
    types["label"] = label_type
    if label_type.startswith("DECIMAL"):
        cells["label"] = ["1.0" if label else "0.0" for label in cells["label"]]
    task_config = testing.train_task_config(cells, types, str(tmp_path), params, exact_doubles=exact_doubles)
    dnn_train.main(task_config)
    model = find_saved_model(task_config.saved_model_dir)
    for key in ("predict", "serving_default"):
        assert accuracy(tf, model, made_rows(300)[0], key) > 0.9
    assert tf.executing_eagerly()
    assert {path.name for path in tmp_path.iterdir()} == {"dataset.tfrecords", "model_dir", "savedmodel"}


def run_dnn_batch(tmp_path: Path, rows: int = 400, **task: Any) -> Any:
    from akdl.models.tf.dnn import dnn_batch

    cells, types = made_rows(rows)
    outputs = {"model_id": "BIGINT", "model_info": "STRING"}
    task_config = testing.batch_task_config(cells, types, str(tmp_path), TEXT_PARAMS, outputs, **task)
    dnn_batch.main(task_config)
    return task_config


def test_dnn_batch_model_rows(tmp_path: Path) -> None:
    import tensorflow as tf

    task_config = run_dnn_batch(tmp_path)
    rows = [(row["model_id"], row["model_info"]) for row in task_config.output_writer.rows]
    assert [number for number, _ in rows] == list(range(len(rows)))
    exported = Path(find_saved_model(str(tmp_path / "saved_model_dir")))
    assert rows[0][1] == f"{exported.name}.zip"
    loaded = Path(unpack(rows, str(tmp_path / "loaded")))
    assert contents(loaded) == contents(exported)
    assert accuracy(tf, str(loaded), made_rows(300)[0], "predict") > 0.9


def test_dnn_batch_only_the_chief_writes(tmp_path: Path) -> None:
    task_config = run_dnn_batch(tmp_path, rows=40, task_type="worker", num_workers=2)
    assert task_config.output_writer.rows == []
    assert not (tmp_path / "saved_model_dir").exists()


def test_dnn_stream_model_rows(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_stream

    outputs = {"model_id": "BIGINT", "model_info": "STRING"}
    task_config = testing.stream_task_config(*made_rows(), str(tmp_path), TEXT_PARAMS, outputs)
    dnn_stream.main(task_config)
    rows = [(row["model_id"], row["model_info"]) for row in task_config.output_writer.rows]  # type: ignore[attr-defined]
    assert accuracy(tf, unpack(rows, str(tmp_path / "loaded")), made_rows(300)[0], "predict") > 0.9


DNN_TENSOR_PARAMS = {"tensorCol": "t", "labelCol": "label", "batch_size": 50, "num_epochs": 80}


def test_dnn_tensor_learns_and_exports(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_tensor

    values = np.random.default_rng(7).uniform(-1, 1, [300, 4])
    labels = (values.sum(axis=1) > 0).astype(int)
    cells = {"t": values.tolist(), "label": labels.tolist()}
    task_config = testing.train_task_config(cells, {"t": "ARRAY<DOUBLE>", "label": "BIGINT"}, str(tmp_path), DNN_TENSOR_PARAMS)
    dnn_tensor.main(task_config)
    signature = tf.saved_model.load(find_saved_model(task_config.saved_model_dir)).signatures["serving_default"]
    logits = signature(t=tf.constant(values, tf.float32))["logits"].numpy()[:, 0]
    assert np.mean((logits > 0) == labels) > 0.8


def test_dnn_tensor_no_array(tmp_path: Path) -> None:
    from akdl.models.tf.dnn import dnn_tensor

    rows = {"t": [1.0], "label": [1]}
    task_config = testing.train_task_config(rows, {"t": "DOUBLE", "label": "BIGINT"}, str(tmp_path), DNN_TENSOR_PARAMS)
    with pytest.raises(ValueError, match="tensorCol: expected an ARRAY column .* got 't' of t DOUBLE, label BIGINT"):
        dnn_tensor.main(task_config)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"labelCol": None}, "missing are 'labelCol'. The columns are 'a' .DOUBLE., 'b c' .FLOAT NOT NULL."),
        ({"labelCol": "lable"}, "featureCols, labelCol: expected some of 'a' .DOUBLE., .*, got 'lable'"),
        ({"featureCols": '["a", "z"]'}, "expected some of 'a' .*, got 'z'"),
        ({"featureCols": "a, z"}, "list of column names or its JSON text, got 'a, z'"),
        ({"featureCols": []}, "list of column names"),
        ({"featureCols": ["id"]}, r"expected numbers .*, got 'id' \(STRING\): CAST"),
        ({"batch_size": "many"}, "batch_size: expected a whole number of at least 1, got 'many'"),
        ({"num_epochs": 0}, "num_epochs: expected a whole number of at least 1, got 0"),
    ],
)
def test_wrong_tasks_parameters(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    from akdl.models.tf.dnn import dnn_train

    params = {name: value for name, value in {**PARAMS, **changes}.items() if value is not None}
    cells, types = made_rows(10)
    with pytest.raises(ValueError, match=match):
        dnn_train.main(testing.train_task_config(cells, types, str(tmp_path), params))


def test_wrong_tasks_no_rows(tmp_path: Path) -> None:
    from akdl.models.tf.dnn import dnn_train

    task_config = testing.train_task_config([], made_rows()[1], str(tmp_path), PARAMS)
    with pytest.raises(ValueError, match="chief 0 got no rows to train on"):
        dnn_train.main(task_config)


def test_it_does_not_wait_for_the_last_row_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from akdl.models.tf.dnn import dnn_train

    task_config = testing.train_task_config(*made_rows(), str(tmp_path), PARAMS)

    def wait(rows: testing.StoredRows) -> int:
        raise AssertionError("the last row is waited for")

    monkeypatch.setattr(testing.StoredRows, "length", wait)
    monkeypatch.setattr(testing.StoredRows, "file", wait)
    dnn_train.main(task_config)
    assert task_config.saved_model_dir and any(Path(task_config.saved_model_dir).iterdir())


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("label", 0.5, "is not 0 or 1"),
        ("label", 2.0, "n_classes|[Ll]abels must"),
        ("a", None, "column 'a': expected a value, got null"),
    ],
)
def test_wrong_tasks_cells(tmp_path: Path, name: str, value: Any, match: str) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_train

    cells, types = made_rows(10)
    cells[name] = [value, *cells[name][1:]]
    task_config = testing.train_task_config(cells, types, str(tmp_path), PARAMS)
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        dnn_train.main(task_config)
