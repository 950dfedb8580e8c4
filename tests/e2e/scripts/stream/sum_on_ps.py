"""Adds up the ids of the stream of all workers in a variable on a parameter server; each worker
writes what it sees once all have ended.

A worker that returns while another connects can leave that one waiting inside TensorFlow, so all
wait for all.

Output: `worker INT, id BIGINT`, where id is the sum of all ids.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from akdl.runner.config import StreamTaskConfig

v1 = tf.compat.v1
v1.disable_eager_execution()


def main(task_config: StreamTaskConfig) -> None:
    role, index = task_config.task_type, task_config.task_index
    server = tf.distribute.Server(task_config.cluster, job_name=role, task_index=index)
    if role == "ps":
        server.join()
    worker = 0 if role == "chief" else index + 1
    with tf.device("/job:ps/task:0"):
        total, ended = (
            v1.get_variable(name, [], tf.int64, v1.zeros_initializer(), use_resource=True)
            for name in ("total", "ended")
        )
    ids = v1.placeholder(tf.int64, [None])
    add = total.assign_add(tf.reduce_sum(ids), use_locking=True)
    end, ready = ended.assign_add(1, use_locking=True), v1.report_uninitialized_variables()

    def parse(records: Any) -> Any:
        return tf.io.parse_example(records, {"id": tf.io.FixedLenFeature([], tf.int64)})["id"]

    with tf.device(f"/job:{role}/task:{index}"):
        batch = v1.data.make_one_shot_iterator(
            task_config.dataset_fn().batch(100).map(parse)
        ).get_next()
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
    with v1.Session(server.target, config=config) as session:
        if role == "chief":
            session.run(v1.global_variables_initializer())
        while len(session.run(ready)):
            time.sleep(0.05)
        while True:
            try:
                found = session.run(batch)
            except tf.errors.OutOfRangeError:
                break
            session.run(add, {ids: found})
        session.run(end)
        while session.run(ended) < task_config.num_workers:
            time.sleep(0.05)
        task_config.output_writer.write_batch({"worker": [worker], "id": [int(session.run(total))]})
