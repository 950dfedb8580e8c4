"""The stream script of Alink: the model as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from akdl import testing
from akdl.storage.model_archive import unpack
from tests.akdl.models.tf.dnn.dnn_rows import TEXT_PARAMS, accuracy, made_rows

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_dnn_stream_writes_its_model_as_rows(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_stream

    outputs = {"model_id": "BIGINT", "model_info": "STRING"}
    task_config = testing.stream_task_config(*made_rows(), str(tmp_path), TEXT_PARAMS, outputs)
    dnn_stream.main(task_config)
    rows = [(row["model_id"], row["model_info"]) for row in task_config.output_writer.rows]  # type: ignore[attr-defined]
    assert accuracy(tf, unpack(rows, str(tmp_path / "loaded")), made_rows(300)[0], "predict") > 0.9
