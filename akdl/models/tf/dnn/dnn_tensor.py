"""A DNN classifier of two classes whose features are one ARRAY column, with five hidden layers."""

import os
from typing import Any, Dict

import tensorflow as tf

from akdl.engine.run_config import generate_run_config
from akdl.engine.train import train_estimator
from akdl.models.tf.dnn.classifier import adagrad, check_rows, whole_number
from akdl.runner.config import TrainTaskConfig
from akdl.runner.tensor_shapes import first_shape
from akdl.tf_version import require_estimator

HIDDEN_UNITS = [1024, 1024, 512, 256, 128]


def dnn_tensor(task_config: TrainTaskConfig) -> None:
    """Train on the rows of this worker; the chief exports into `saved_model_dir`.

    The user parameters are `tensorCol`, the name of an ARRAY<FLOAT> or ARRAY<DOUBLE> column whose cells have one length k;
    `labelCol`, an integer column of 0 and 1; `batch_size` and `num_epochs`. The export's signatures "predict" and
    "serving_default" take one float tensor of shape [n, k].
    """
    estimator_module = require_estimator("the DNN classifier")
    params = task_config.user_params
    missing = [name for name in ("tensorCol", "labelCol", "batch_size", "num_epochs") if name not in params]
    if missing:
        raise ValueError(
            f"userParams: expected tensorCol, labelCol, batch_size and num_epochs; missing are {', '.join(missing)}"
        )
    check_rows(task_config)
    tensor = params["tensorCol"]
    shape = first_shape(task_config.tf_context.rows, tensor)
    if shape is None:
        columns = ", ".join(f"{column.name} {column.type}" for column in task_config.tf_context.columns)
        raise ValueError(f"tensorCol: expected an ARRAY column with a value in the first rows, got {tensor!r} of {columns}")
    label = params["labelCol"]
    inputs = [{"name": tensor, "dtype": "float", "shape": shape}]
    train_config: Dict[str, Any] = {"save_checkpoints_steps": 1000, "log_step_count_steps": 100}
    numbers = {name: whole_number(name, params[name]) for name in ("batch_size", "num_epochs")}
    train_estimator(
        estimator_module.DNNClassifier(
            HIDDEN_UNITS,
            [tf.feature_column.numeric_column(tensor, shape=shape)],
            model_dir=os.path.join(task_config.work_dir, "model_dir"),
            n_classes=2,
            optimizer=adagrad(),
            config=generate_run_config(**train_config),
        ),
        {"example_config": [*inputs, {"name": label, "dtype": "long", "shape": [1]}], "label_col": label},
        dict(train_config, **numbers),
        {"placeholders_config": inputs, "export_batch_dim": True},
        task_config,
    )


main = dnn_tensor
