"""A script as people bring it from Alink: it makes a training config of its own config, trains, and
sends the model itself.
"""

from __future__ import annotations

import os

from akdl.models.tf.dnn import dnn_train
from akdl.runner import io_helper
from akdl.runner.config import BatchTaskConfig, TrainTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    folder = os.path.join(task_config.work_dir, "exported")
    dnn_train.main(TrainTaskConfig(saved_model_dir=folder, **task_config.__dict__))
    if task_config.task_type == "chief" and task_config.task_index == 0:
        io_helper.output_model_to_flink(folder, task_config.output_writer)
