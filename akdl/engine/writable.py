"""A test write into a folder, hours before the result of a training goes there."""

import os
import uuid
from typing import Optional

import tensorflow as tf


def try_folder(path: str) -> Optional[str]:
    """Make a folder, at any address that TensorFlow reaches, and write a file there; return the reason of a failure."""
    tried = os.path.join(path, f".akdl-{uuid.uuid4().hex}")
    try:
        tf.io.gfile.makedirs(path)
        with tf.io.gfile.GFile(tried, "w") as file:
            file.write("tried")
        tf.io.gfile.remove(tried)
    except (OSError, tf.errors.OpError) as error:
        return str(getattr(error, "message", error))
    return None
