"""Writes back each batch that it reads."""


def main(task_config):
    for batch in task_config.tf_context.batches(8192):
        task_config.output_writer.write_batch(batch)
