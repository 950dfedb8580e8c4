"""A test write into a folder, before a training whose result goes there hours later."""

import os
import uuid
from typing import Optional

import tensorflow as tf


def try_folder(path: str) -> Optional[str]:
    """Make a folder and write a file there; return the reason of a failure, or None.

    Args:
        path: A local folder or any address that TensorFlow reaches, such as s3:// or hdfs://. It
            stays.
    """
    # Workers may try the same folder at the same moment, so the name of the file is random.
    tried = os.path.join(path, f".akdl-{uuid.uuid4().hex}")
    try:
        tf.io.gfile.makedirs(path)
        with tf.io.gfile.GFile(tried, "w") as file:
            file.write("tried")
        tf.io.gfile.remove(tried)
    except (OSError, tf.errors.OpError) as error:
        return str(getattr(error, "message", error))
    return None
