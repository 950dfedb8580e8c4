"""The script of Alink's sample: trains a DNN classifier and writes the model as rows (model_id, model_info)."""

import os

from akdl.models.tf.dnn.classifier import train_and_export
from akdl.runner.config import BatchTaskConfig
from akdl.storage.model_archive import write_model


def main(task_config: BatchTaskConfig) -> None:
    """Train on this worker's rows; the chief writes the model. For the user parameters see `model.train_and_export`."""
    export_dir = os.path.join(task_config.work_dir, "saved_model_dir")
    train_and_export(task_config, export_dir)
    if task_config.task_type == "chief":
        write_model(export_dir, task_config.output_writer)
