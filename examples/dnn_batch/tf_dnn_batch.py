"""Script of the sample: trains a small DNN on the rows of the worker and writes the model back as
table rows.
"""

from akdl.models.tf.dnn import dnn_batch
from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig):
    dnn_batch.main(task_config)
