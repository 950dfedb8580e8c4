"""Script that writes each number and its double."""

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig):
    for rows in task_config.tf_context.batches(1024):
        task_config.output_writer.write_batch(
            {"x": rows["x"].numpy(), "twice": (rows["x"] * 2).numpy()}
        )
