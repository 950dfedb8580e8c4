"""Writes when its `main` began; TensorFlow is imported before."""

import time

import tensorflow  # noqa: F401  # its import is what is measured


def main(task_config):
    task_config.output_writer.write_batch({"at": [time.time()]})
