"""Writes back each row that it reads, one at a time."""


def main(task_config):
    for batch in task_config.tf_context.batches(1):
        task_config.output_writer.write_batch(batch)
