"""Task configs that are made by scripts, from the one that they got."""

from __future__ import annotations

import pathlib

from akdl import testing
from akdl.runner.config import BatchTaskConfig, StreamTaskConfig, TaskConfig, TrainTaskConfig


def configs(tmp_path: pathlib.Path) -> tuple[str, list[TaskConfig]]:
    """One of each class, on two rows."""
    columns = testing.table_columns({"n": "BIGINT"})
    rows = testing.arrived_rows(
        testing.encode_rows({"n": [1, 2]}, {"n": "BIGINT"}), columns, str(tmp_path)
    )
    common = {
        "tf_context": testing.TFContext(rows, columns),
        "num_workers": 1, "cluster": {}, "task_type": "chief", "task_index": 0, "work_dir": "w", "user_params": {"n": 1},
    }  # fmt: skip
    return str(tmp_path / "dataset.tfrecords"), [
        BatchTaskConfig(output_writer="writer", **common),
        TrainTaskConfig(saved_model_dir="model", latest_ckpt_dir="ckpt", **common),
        StreamTaskConfig(output_writer="writer", **common),
    ]


def test_config_can_be_made_from_another_kind(tmp_path: pathlib.Path) -> None:
    path, (batch, train, stream) = configs(tmp_path)
    made = TrainTaskConfig(saved_model_dir="elsewhere", **batch.__dict__)
    assert (made.saved_model_dir, made.latest_ckpt_dir, made.user_params) == (
        "elsewhere",
        None,
        {"n": 1},
    )
    assert (made.dataset_file, made.dataset_length) == (path, 2)
    assert TrainTaskConfig(saved_model_dir="elsewhere", **stream.__dict__).work_dir == "w"
    back = BatchTaskConfig(output_writer="other", **vars(train))
    assert (
        back.output_writer == "other"
        and back.dataset_length == 2
        and not hasattr(back, "saved_model_dir")
    )
    assert StreamTaskConfig(**vars(batch)).output_writer == "writer"


def test_dataset_file_of_a_config_may_be_replaced(tmp_path: pathlib.Path) -> None:
    _path, (batch, _, _) = configs(tmp_path)
    made = TrainTaskConfig(
        saved_model_dir="m", dataset_file="other", dataset_length=7, **vars(batch)
    )
    again = BatchTaskConfig(output_writer=None, **vars(made))
    assert (again.dataset_file, again.dataset_length) == ("other", 7)
    batch.dataset_file = "third"
    assert (batch.dataset_file, batch.dataset_length) == ("third", 2)
