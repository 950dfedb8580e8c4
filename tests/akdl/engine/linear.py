"""A linear classifier that separates x > 0 from the rest, and its rows."""

from __future__ import annotations

from typing import Any

TYPES = {"x": "FLOAT", "label": "BIGINT"}
INPUT = {
    "example_config": [
        {"name": "x", "dtype": "float", "shape": [1]},
        {"name": "label", "dtype": "int", "shape": [1]},
    ],
    "label_col": "label",
}
TRAIN: dict[str, Any] = {
    "batch_size": 20,
    "num_epochs": 10,
    "save_checkpoints_steps": 20,
    "log_step_count_steps": 100,
}


def classifier(tf: Any, task_config: Any, **options: Any) -> Any:
    """A linear classifier that separates x > 0 from the rest."""
    from akdl.engine.run_config import generate_run_config

    config = generate_run_config(**{**TRAIN, **options})
    column = tf.feature_column.numeric_column("x", shape=[1])
    return tf.estimator.LinearClassifier(
        [column], f"{task_config.work_dir}/model_dir", optimizer="SGD", config=config
    )
