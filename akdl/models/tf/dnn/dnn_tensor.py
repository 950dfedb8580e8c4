"""A DNN classifier of two classes whose features are one ARRAY column, with five hidden layers."""

from __future__ import annotations

from akdl.models.tf.dnn.classifier import check_rows, numbers_of, train_classifier
from akdl.runner.config import TrainTaskConfig
from akdl.runner.context import first_shape

HIDDEN_UNITS = [1024, 1024, 512, 256, 128]


def dnn_tensor(task_config: TrainTaskConfig) -> None:
    """Train on the rows of this worker; the chief exports into `saved_model_dir`.

    The user parameters are `tensorCol`, the name of an ARRAY<FLOAT> or ARRAY<DOUBLE> column whose
    cells have one length k; `labelCol`, an integer column of 0 and 1; `batch_size` and
    `num_epochs`. The export's signatures "predict" and "serving_default" take one float tensor of
    shape [n, k].
    """
    numbers = numbers_of(task_config, "tensorCol", "labelCol")
    check_rows(task_config)
    tensor = task_config.user_params["tensorCol"]
    # An ARRAY column has no declared length, so this waits for the first rows.
    shape = first_shape(task_config.tf_context.rows, tensor)
    if shape is None:
        columns = ", ".join(
            f"{column.name} {column.type}" for column in task_config.tf_context.columns
        )
        raise ValueError(
            f"tensorCol: expected an ARRAY column with a value in the first rows, got {tensor!r} of"
            f" {columns}"
        )
    label = task_config.user_params["labelCol"]
    inputs = [{"name": tensor, "dtype": "float", "shape": shape}]
    train_classifier(
        HIDDEN_UNITS,
        inputs,
        {
            "example_config": [*inputs, {"name": label, "dtype": "long", "shape": [1]}],
            "label_col": label,
        },
        numbers,
        task_config.saved_model_dir,
        task_config,
    )


main = dnn_tensor
