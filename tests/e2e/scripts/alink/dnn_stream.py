"""An Estimator on a stream as people bring it from Alink: `train_and_evaluate` scans the rows
twice, and the model is rows.
"""

from __future__ import annotations

import json
import os

import tensorflow as tf

from akdl.engine.inputs import get_dataset_fn, get_feature_placeholders, parse_feature_specs
from akdl.engine.run_config import generate_run_config
from akdl.runner import io_helper
from akdl.runner.config import StreamTaskConfig


def main(task_config: StreamTaskConfig) -> None:
    params, v1 = task_config.user_params, tf.compat.v1
    names, label = json.loads(params["featureCols"]), params["labelCol"]
    features = [
        {"name": name, "dtype": "float", "shape": [1], "feature_type": tf.io.FixedLenFeature}
        for name in names
    ]
    example_config = [*features, {"name": label, "dtype": "long", "shape": [1]}]
    train_config = {
        "batch_size": int(params["batch_size"]),
        "num_epochs": int(params["num_epochs"]),
        "log_step_count_steps": 1,
    }
    estimator = v1.estimator.DNNClassifier(
        feature_columns=[v1.feature_column.numeric_column(name) for name in names],
        hidden_units=[30, 10],
        n_classes=2,
        config=generate_run_config(**train_config),
    )
    dataset_fn = get_dataset_fn(
        feature_specs=parse_feature_specs(example_config),
        raw_dataset_fn=task_config.dataset_fn,
        label_col=label,
        **train_config,
    )
    v1.estimator.train_and_evaluate(
        estimator, v1.estimator.TrainSpec(dataset_fn), v1.estimator.EvalSpec(dataset_fn)
    )
    # The name of the label stands where a flag is expected, as in Alink's sample.
    receiver_fn = v1.estimator.export.build_raw_serving_input_receiver_fn(
        get_feature_placeholders(example_config, label)
    )
    if (
        task_config.task_type == "chief" and task_config.task_index == 0
    ) or task_config.num_workers == 1:
        folder = os.path.join(task_config.work_dir, "saved_model_dir")
        estimator.export_saved_model(folder, serving_input_receiver_fn=receiver_fn)
        io_helper.output_model_to_flink(folder, task_config.output_writer)
