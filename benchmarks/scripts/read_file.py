"""Waits for the file of all rows."""


def main(task_config):
    assert task_config.dataset_file
    task_config.output_writer.write_batch({"n": [task_config.dataset_length]})
