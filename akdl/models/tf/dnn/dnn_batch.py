"""The script of Alink's sample, which trains a DNN classifier.

It writes the model as rows (model_id, model_info).
"""

from akdl.models.tf.dnn.classifier import train_and_write
from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    """Train on this worker's rows.

    The chief writes the model. For the user parameters see `classifier.train_and_export`.
    """
    train_and_write(task_config)
