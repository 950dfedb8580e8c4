"""The DNN classifier behind `dnn_batch`, `dnn_stream` and `dnn_train`.

It has two hidden layers of 30 and 10 units and two classes, like Alink's sample. `tf.estimator`
trains it; where TensorFlow has no Estimator, Keras trains the same network.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

import tensorflow as tf

from akdl.engine.inputs import ColumnsParser
from akdl.engine.run_config import generate_run_config
from akdl.engine.train import train_estimator
from akdl.models.tf.dnn import keras_classifier
from akdl.near_names import listed
from akdl.runner.config import BatchTaskConfig, StreamTaskConfig, TaskConfig
from akdl.storage.model_archive import write_model
from akdl.tf_version import LAST_WITH_ESTIMATOR, is_tensorflow_2, require_estimator, tf_version
from akdl.user_code.config_file import Config
from akdl.wire import TableColumns
from akdl.wire.column_type import FLOATS, INTEGERS, Kind, type_of

HIDDEN_UNITS = [30, 10]
NUMERIC = [kind for kind in Kind if kind in {Kind.BOOLEAN, Kind.DECIMAL, *INTEGERS, *FLOATS}]


def train_and_write(task_config: BatchTaskConfig | StreamTaskConfig) -> None:
    """Train on the rows of this worker.

    The chief writes the model as rows. See `train_and_export`.
    """
    export_dir = os.path.join(task_config.work_dir, "saved_model_dir")
    train_and_export(task_config, export_dir)
    if task_config.task_type == "chief":
        write_model(export_dir, task_config.output_writer)


def train_and_export(task_config: TaskConfig, export_dir: str) -> None:
    """Train on the rows of this worker; the chief exports a SavedModel.

    The export is in a folder below `export_dir`.

    The user parameters follow Alink's sample: `featureCols` (a list, or its JSON text), `labelCol`,
    `batch_size` and `num_epochs` (numbers, or their text). Features are numeric columns, labels are
    0 or 1. The export's signatures "predict" and "serving_default" take one float tensor of shape
    [n, 1] per feature; one of their outputs is `logits`, float32 of shape [n, 1].
    """
    features, label, numbers = _parameters(task_config)
    check_rows(task_config)
    train_classifier(
        HIDDEN_UNITS,
        [{"name": name, "dtype": "float", "shape": [1]} for name in features],
        {"columns_parser": _parser(features, label), "columns": [*features, label]},
        dict(numbers, prefetch_buffer_size=2),
        export_dir,
        task_config,
    )


def train_classifier(
    hidden_units: list[int],
    inputs: Sequence[Config],
    input_config: Config,
    train_config: Config,
    export_dir: str,
    task_config: TaskConfig,
) -> None:
    """Train a DNN on float `inputs` and export it; see `akdl.engine.train` for the configs."""
    # The classifier of Keras trains in one process only. A group needs an Estimator, and the next
    # line says so if there is none.
    if (
        tf_version()[:2] > LAST_WITH_ESTIMATOR
        and task_config.num_workers == 1
        and not task_config.cluster.get("ps")
    ):
        keras_classifier.train_classifier(
            hidden_units, inputs, input_config, train_config, export_dir, task_config
        )
        return
    estimator_module = require_estimator("the DNN classifier of several processes")
    # Checkpoints and log lines are rarer than by default, because they take longer than the steps
    # of such a small model.
    run_config: Config = {"save_checkpoints_steps": 1000, "log_step_count_steps": 100}
    estimator = estimator_module.Estimator(
        _model_fn(estimator_module, hidden_units, inputs),
        model_dir=os.path.join(task_config.work_dir, "model_dir"),
        config=generate_run_config(**run_config),
    )
    export_config = {
        "placeholders_config": inputs,
        "export_batch_dim": True,
        "saved_model_dir": export_dir,
    }
    train_estimator(
        estimator, input_config, {**run_config, **train_config}, export_config, task_config
    )


def check_rows(task_config: TaskConfig) -> None:
    """Refuse to train without rows; waits for the first row only."""
    # `dataset_length` would wait for the last row, but the first epoch is read while rows arrive.
    if task_config.task_type != "ps" and task_config.tf_context.rows.is_empty():
        raise ValueError(
            f"{task_config.task_type} {task_config.task_index} got no rows to train on: feed more"
            " rows or set fewer workers"
        )


def _model_fn(estimator_module: Any, hidden_units: list[int], inputs: Sequence[Config]) -> object:
    # TensorFlow makes scopes of column names, and refuses blanks and umlauts in them. So one column
    # holds the features of all names.
    column = tf.feature_column.numeric_column(
        "features", shape=[sum(each["shape"][0] for each in inputs)]
    )

    def model_fn(features: Config, labels: object, mode: str, config: object) -> object:
        classifier = estimator_module.DNNClassifier(
            hidden_units, [column], n_classes=2, optimizer=_adagrad(), config=config
        )
        stacked = tf.concat([features[each["name"]] for each in inputs], axis=1)
        return classifier.model_fn({"features": stacked}, labels, mode, config)

    return model_fn


def _adagrad() -> object:
    # This is TensorFlow 1's default for the Estimator. With the 0.001 of TensorFlow 2, it learns
    # almost nothing from a small table.
    if not is_tensorflow_2():
        return "Adagrad"
    optimizers = tf.keras.optimizers
    # Estimators only take the older Keras optimizers, which 2.11 moved to `legacy`.
    return getattr(optimizers, "legacy", optimizers).Adagrad(0.05, initial_accumulator_value=0.1)


def _parameters(task_config: TaskConfig) -> tuple[list[str], str, dict[str, int]]:
    """Return features, label and numbers of the user parameters.

    Raises:
        ValueError: A parameter is missing or wrong; the message lists the table's columns.
    """
    numbers = numbers_of(task_config, "featureCols", "labelCol")
    params, columns = task_config.user_params, task_config.tf_context.columns
    features, label = _feature_names(params["featureCols"]), params["labelCol"]
    types = {column.name: column for column in columns}
    unknown = [name for name in [*features, label] if name not in types]
    if unknown:
        raise ValueError(
            f"featureCols, labelCol: expected some of {_columns(columns)}, got {listed(unknown)}"
        )
    kinds = {name: type_of(types[name]) for name in [*features, label]}
    no_numbers = [
        types[name] for name, found in kinds.items() if found.kind not in NUMERIC or found.is_array
    ]
    if no_numbers:
        raise ValueError(
            "featureCols, labelCol: expected numbers"
            f" ({', '.join(kind.value for kind in NUMERIC)}), got {_columns(no_numbers)}: CAST them"
            " in SQL"
        )
    return features, label, numbers


def numbers_of(task_config: TaskConfig, *names: str) -> dict[str, int]:
    """Return batch_size and num_epochs of the user parameters.

    Raises:
        ValueError: One of these two, or a parameter of `names`, is missing or wrong.
    """
    params, wanted = task_config.user_params, [*names, "batch_size", "num_epochs"]
    missing = [name for name in wanted if name not in params]
    if missing:
        raise ValueError(
            f"userParams: expected {listed(wanted)}; missing are {listed(missing)}. The columns"
            f" are {_columns(task_config.tf_context.columns)}"
        )
    return {name: _whole_number(name, params[name]) for name in wanted[-2:]}


def _feature_names(value: object) -> list[str]:
    names = value
    if isinstance(value, str):
        try:
            names = json.loads(value)
        except ValueError:
            names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"featureCols: expected a list of column names or its JSON text, got {value!r}"
        )
    return names


def _whole_number(name: str, value: Any) -> int:
    """Return a parameter as an int; programs for Alink pass numbers as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or number != int(number):
        raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")
    return int(number)


def _parser(features: list[str], label: str) -> ColumnsParser:
    """Return the function from columns to (features, label), for `columns_parser` of the engine."""

    def parse(columns: Mapping[str, object]) -> tuple[dict[str, Any], Any]:
        cells = {name: tf.expand_dims(_number(cell), 1) for name, cell in columns.items()}
        labels = tf.cast(cells[label], tf.int64)
        # The classifier refuses labels below 0 and above 1, but the cast would turn 0.7 into 0.
        back = tf.cast(labels, cells[label].dtype)
        whole = tf.debugging.assert_equal(back, cells[label], message=f"{label!r} is not 0 or 1")
        with tf.control_dependencies([whole]):
            return {name: tf.cast(cells[name], tf.float32) for name in features}, tf.identity(
                labels
            )

    return parse


def _number(cell: Any) -> Any:
    # A DECIMAL is text here. A plain 1.0 in SQL is a DECIMAL, so labels often are.
    return tf.strings.to_number(cell, tf.float64) if cell.dtype == tf.string else cell


def _columns(columns: TableColumns) -> str:
    return ", ".join(f"{column.name!r} ({column.type})" for column in columns) or "none"
