"""The DNN classifier behind `dnn_batch` and `dnn_train`: two hidden layers of 30 and 10 units, two classes."""

import json
import os
from typing import Any, Dict, List, Tuple

import tensorflow as tf

from akdl.features import parse_examples
from akdl.runner.config import TaskConfig
from akdl.tf_version import require_estimator
from akdl.wire import TableColumn

HIDDEN_UNITS = [30, 10]
SHUFFLED_BATCHES = 10  # how many batches of records are mixed with each other


def train_and_export(task_config: TaskConfig, export_dir: str) -> None:
    """Train on the rows of this worker and, on the chief, export a SavedModel below `export_dir`.

    The user parameters are those of Alink's sample: `featureCols` (a list, or its JSON text), `labelCol`, `batch_size` and
    `num_epochs` (numbers, or their text). Features are numeric columns, labels are 0 or 1. The export's signatures take
    one tensor of shape [batch, 1] per feature; "predict" gives `logits`, `probabilities` and classes.

    Raises:
        ValueError: A parameter is missing, a column does not exist, or this worker got no rows.
    """
    estimator_module = require_estimator()
    features, label, batch_size, num_epochs = _parameters(task_config)
    if task_config.dataset_length == 0:  # type: ignore[attr-defined]
        raise ValueError("this worker got no rows to train on: feed more rows or set fewer workers")
    feature_columns = [tf.feature_column.numeric_column(name, shape=[1]) for name in features]
    estimator = estimator_module.DNNClassifier(
        hidden_units=HIDDEN_UNITS,
        feature_columns=feature_columns,
        n_classes=2,
        model_dir=os.path.join(task_config.work_dir, "model_dir"),
        config=estimator_module.RunConfig(log_step_count_steps=100, keep_checkpoint_max=1),
    )
    columns = [column for column in task_config.tf_context.columns if column.name in {*features, label}]
    estimator.train(lambda: _dataset(task_config, columns, label, batch_size, num_epochs))
    if task_config.task_type == "chief":
        estimator.export_saved_model(export_dir, _serving_receiver_fn(features))


def _parameters(task_config: TaskConfig) -> Tuple[List[str], str, int, int]:
    params = task_config.user_params
    missing = [name for name in ("featureCols", "labelCol", "batch_size", "num_epochs") if name not in params]
    if missing:
        raise ValueError(f"userParams lack {_names(missing)}; they have {_names(params)}")
    features = params["featureCols"]
    features = json.loads(features) if isinstance(features, str) else list(features)
    existing = [column.name for column in task_config.tf_context.columns]
    unknown = [name for name in [*features, params["labelCol"]] if name not in existing]
    if unknown:
        raise ValueError(f"featureCols or labelCol name {_names(unknown)}; the columns are {_names(existing)}")
    return features, params["labelCol"], int(params["batch_size"]), int(params["num_epochs"])


def _dataset(
    task_config: TaskConfig, columns: List[TableColumn], label: str, batch_size: int, num_epochs: int
) -> "tf.data.Dataset":
    def parse(serialized: Any) -> Tuple[Dict[str, Any], Any]:
        parsed = parse_examples(serialized, columns, task_config.tf_context.exact_doubles)
        labels = tf.cast(parsed.pop(label), tf.int64)
        return {name: tf.cast(tf.expand_dims(value, 1), tf.float32) for name, value in parsed.items()}, labels

    records = tf.data.TFRecordDataset(task_config.dataset_file)  # type: ignore[attr-defined]
    return records.shuffle(batch_size * SHUFFLED_BATCHES).repeat(num_epochs).batch(batch_size).map(parse).prefetch(2)


def _serving_receiver_fn(features: List[str]) -> Any:
    def receiver() -> Any:
        placeholders = {name: tf.compat.v1.placeholder(tf.float32, [None, 1], name) for name in features}
        return require_estimator().export.ServingInputReceiver(placeholders, placeholders)

    return receiver


def _names(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none"
