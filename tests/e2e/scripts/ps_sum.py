"""Adds up the rows of all workers in a variable on a parameter server, with servers and sessions of
TensorFlow itself.

The chief writes one row, `total BIGINT, workers BIGINT`: the sum, and how many workers had added to
it.
"""

from __future__ import annotations

import time

import tensorflow as tf

from akdl.runner.config import BatchTaskConfig

v1 = tf.compat.v1
v1.disable_eager_execution()


def main(task_config: BatchTaskConfig) -> None:
    role, index = task_config.task_type, task_config.task_index
    server = tf.distribute.Server(task_config.cluster, job_name=role, task_index=index)
    if role == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        total = v1.get_variable("total", [], tf.int64, v1.zeros_initializer(), use_resource=True)
        workers = v1.get_variable(
            "workers", [], tf.int64, v1.zeros_initializer(), use_resource=True
        )
    ready = v1.report_uninitialized_variables()
    add = [total.assign_add(task_config.dataset_length), workers.assign_add(1)]
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
    with v1.Session(server.target, config=config) as session:
        if role == "chief":
            session.run(v1.global_variables_initializer())
        while len(session.run(ready)):
            time.sleep(0.05)
        session.run(add)
        if role != "chief":
            return
        while session.run(workers) < task_config.num_workers:
            time.sleep(0.05)
        row = tf.train.Example()
        for name, variable in (("total", total), ("workers", workers)):
            row.features.feature[name].int64_list.value.append(int(session.run(variable)))
        task_config.output_writer.write(row)
