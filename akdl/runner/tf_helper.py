"""TensorFlow helpers that scripts written for Alink import from this module."""

import tensorflow as tf


def set_intra_op_parallelism(intra_op_parallelism_threads: int = 1) -> None:
    """Limit the threads of one TensorFlow operation, and run one operation at a time.

    The thread pool is created with the first session or operation and cannot be changed later, so
    call this first. Sessions with their own config use the same pool.
    """
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=intra_op_parallelism_threads, inter_op_parallelism_threads=1
    )
    config.gpu_options.allow_growth = True
    # A session makes the thread pool only once it runs something.
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        session.run(tf.constant(1.0) * tf.constant(1.0))
