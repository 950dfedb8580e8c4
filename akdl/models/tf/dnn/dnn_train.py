"""Trains the DNN classifier of `dnn_batch` and writes it to `saved_model_dir`.

It is for operators with a model table.
"""

from akdl.models.tf.dnn.classifier import train_and_export
from akdl.runner.config import TrainTaskConfig


def main(task_config: TrainTaskConfig) -> None:
    train_and_export(task_config, task_config.saved_model_dir)
