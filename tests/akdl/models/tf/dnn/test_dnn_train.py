"""The train script: a saved model that has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl import testing
from akdl.rows.file_rows import FileRows
from akdl.storage.model_forms import find_saved_model
from tests.akdl.models.tf.dnn.dnn_rows import PARAMS, TEXT_PARAMS, accuracy, made_rows

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize(
    ("label_type", "exact_doubles", "params"),
    [
        ("DOUBLE", False, TEXT_PARAMS),
        pytest.param("BIGINT", True, PARAMS, marks=pytest.mark.long),
        pytest.param("DECIMAL(2, 1)", False, PARAMS, marks=pytest.mark.long),
        pytest.param("DECIMAL(2, 1)", True, PARAMS, marks=pytest.mark.long),
    ],
)
def test_dnn_train_learns_and_exports_without_waiting_for_the_last_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    label_type: str,
    exact_doubles: bool,
    params: dict[str, Any],
) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_train

    cells, types = made_rows()
    types["label"] = label_type
    if label_type == "BIGINT":
        cells["label"] = cells["label"].astype(int)
    if label_type.startswith("DECIMAL"):
        cells["label"] = ["1.0" if label else "0.0" for label in cells["label"]]
    task_config = testing.train_task_config(
        cells, types, str(tmp_path), params, exact_doubles=exact_doubles
    )

    def wait(rows: FileRows) -> int:
        raise AssertionError("the last row is waited for")

    monkeypatch.setattr(FileRows, "length", wait)
    monkeypatch.setattr(FileRows, "file", wait)
    dnn_train.main(task_config)
    model = find_saved_model(task_config.saved_model_dir)
    for key in ("predict", "serving_default"):
        assert accuracy(tf, model, made_rows(300)[0], key) > 0.9
    assert tf.executing_eagerly()
    assert {path.name for path in tmp_path.iterdir()} - {"model_dir"} == {
        "dataset.columns",
        "savedmodel",
    }
