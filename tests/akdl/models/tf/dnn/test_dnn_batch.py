"""The batch script of Alink: the model as rows. Several processes need an Estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl import testing
from akdl.storage.model_archive import unpack
from akdl.storage.model_forms import find_saved_model
from tests.akdl.models.tf.dnn.dnn_rows import TEXT_PARAMS, accuracy, made_rows

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def run_dnn_batch(tmp_path: Path, rows: int = 400, **task: Any) -> Any:
    from akdl.models.tf.dnn import dnn_batch

    cells, types = made_rows(rows)
    outputs = {"model_id": "BIGINT", "model_info": "STRING"}
    task_config = testing.batch_task_config(
        cells, types, str(tmp_path), TEXT_PARAMS, outputs, **task
    )
    dnn_batch.main(task_config)
    return task_config


@pytest.mark.long
def test_dnn_batch_writes_its_model_as_rows(tmp_path: Path) -> None:
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


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
