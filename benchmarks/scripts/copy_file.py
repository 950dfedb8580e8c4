"""Copies the file of all rows to where the user parameter `path` says."""

import shutil


def main(task_config):
    shutil.copyfile(task_config.dataset_file, task_config.user_params["path"])
    task_config.output_writer.write_batch({"n": [task_config.dataset_length]})
