"""The classifier of one ARRAY column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from akdl import testing
from akdl.storage.model_forms import find_saved_model

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


DNN_TENSOR_PARAMS = {"tensorCol": "t", "labelCol": "label", "batch_size": 50, "num_epochs": 80}


@pytest.mark.long
def test_dnn_tensor_learns_and_exports(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_tensor

    values = np.random.default_rng(7).uniform(-1, 1, [300, 4])
    labels = (values.sum(axis=1) > 0).astype(int)
    cells = {"t": values.tolist(), "label": labels.tolist()}
    task_config = testing.train_task_config(
        cells, {"t": "ARRAY<DOUBLE>", "label": "BIGINT"}, str(tmp_path), DNN_TENSOR_PARAMS
    )
    dnn_tensor.main(task_config)
    signature = tf.saved_model.load(find_saved_model(task_config.saved_model_dir)).signatures[
        "serving_default"
    ]
    logits = signature(t=tf.constant(values, tf.float32))["logits"].numpy()[:, 0]
    assert np.mean((logits > 0) == labels) > 0.8


def test_dnn_tensor_refuses_a_column_without_arrays(tmp_path: Path) -> None:
    from akdl.models.tf.dnn import dnn_tensor

    rows = {"t": [1.0], "label": [1]}
    task_config = testing.train_task_config(
        rows, {"t": "DOUBLE", "label": "BIGINT"}, str(tmp_path), DNN_TENSOR_PARAMS
    )
    with pytest.raises(
        ValueError, match="tensorCol: expected an ARRAY column .* got 't' of t DOUBLE, label BIGINT"
    ):
        dnn_tensor.main(task_config)
