"""A DNNClassifier trained by an Estimator: alone, with workers in step, or with parameter servers,
in step or not.

Table: `x0 FLOAT, x1 FLOAT, label BIGINT` (0 or 1). User parameters: `sync` (false), `maxSteps`
(200; of the whole group), `numEpochs` (null: rows are repeated), `batchSize` (20; of each worker),
`rawRows` (false: the script opens the file itself). The chief writes one row, `loss FLOAT, accuracy
FLOAT, steps BIGINT`: an evaluation of the trained model on the chief's own rows, and the global
step that it was trained to.
"""

from __future__ import annotations

import os

import tensorflow as tf

from akdl.engine.run_config import generate_run_config
from akdl.engine.sync import sync_optimizer
from akdl.engine.train import train_estimator
from akdl.runner.config import BatchTaskConfig

NAMES = ["x0", "x1"]
INPUTS = [{"name": name, "dtype": "float", "shape": [1]} for name in NAMES]


def main(task_config: BatchTaskConfig) -> None:
    params = task_config.user_params
    rows = (
        {"raw_dataset_fn": lambda: tf.data.TFRecordDataset(task_config.dataset_file)}
        if params.get("rawRows")
        else {}
    )
    optimizer, hooks = tf.compat.v1.train.AdagradOptimizer(0.2), []
    if params.get("sync", False):
        optimizer, hook = sync_optimizer(optimizer, task_config)
        hooks.append(hook)
    # Few checkpoints, as each costs more than the steps between them.
    run = {"save_checkpoints_steps": 10000, "log_step_count_steps": 100}
    estimator = tf.compat.v1.estimator.DNNClassifier(
        [8],
        [tf.feature_column.numeric_column(name, shape=[1]) for name in NAMES],
        model_dir=os.path.join(task_config.work_dir, "model_dir"),
        optimizer=optimizer,
        # so that what it learns is not left to chance
        config=generate_run_config(**run).replace(tf_random_seed=1),
    )
    metrics = train_estimator(
        estimator,
        {
            "example_config": [*INPUTS, {"name": "label", "dtype": "int", "shape": [1]}],
            "label_col": "label",
        },
        dict(
            run,
            **rows,
            batch_size=params.get("batchSize", 20),
            num_epochs=params.get("numEpochs"),
            max_steps=params.get("maxSteps", 200),
            hooks=hooks,
            valid_raw_dataset_fn=lambda: tf.data.TFRecordDataset(task_config.dataset_file),
        ),
        {
            "placeholders_config": INPUTS,
            "export_batch_dim": True,
            "saved_model_dir": os.path.join(task_config.work_dir, "export"),
        },
        task_config,
    )
    if metrics is None:  # not the chief
        return
    row = tf.train.Example()
    row.features.feature["loss"].float_list.value.append(metrics["average_loss"])
    row.features.feature["accuracy"].float_list.value.append(metrics["accuracy"])
    row.features.feature["steps"].int64_list.value.append(int(metrics["global_step"]))
    task_config.output_writer.write(row)
