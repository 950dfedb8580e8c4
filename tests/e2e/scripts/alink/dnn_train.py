"""An Estimator as people bring it from Alink: it opens the file of its rows itself, and compares
parameters with text.
"""

from __future__ import annotations

import json

import tensorflow as tf

from akdl.engine.run_config import generate_run_config
from akdl.engine.train import train_estimator
from akdl.runner.config import TrainTaskConfig


def main(task_config: TrainTaskConfig) -> None:
    params = task_config.user_params
    assert params["flag"] == "true" and params["batch_size"] == "16"
    names = json.loads(params["featureCols"])
    features = [{"name": name, "dtype": "float", "shape": [1]} for name in names]
    train_config = {
        "filenames": task_config.dataset_file,
        "raw_dataset_fn": lambda: tf.data.TFRecordDataset(task_config.dataset_file),
        "batch_size": int(params["batch_size"]),
        "num_epochs": int(params["num_epochs"]),
        "log_step_count_steps": 1,
    }
    v1 = tf.compat.v1
    classifier = v1.estimator.DNNClassifier(
        feature_columns=[v1.feature_column.numeric_column(name) for name in names],
        hidden_units=[30, 10],
        n_classes=2,
        config=generate_run_config(**train_config),
    )
    label = {"name": params["labelCol"], "dtype": "long", "shape": [1]}
    input_config = {"example_config": [*features, label], "label_col": params["labelCol"]}
    train_estimator(
        classifier, input_config, train_config, {"placeholders_config": features}, task_config
    )
