"""Whether a folder can be written: asked before hours of training."""

import os
import uuid
from typing import Optional

import tensorflow as tf


def try_folder(path: str) -> Optional[str]:
    """Make a folder, at any address that TensorFlow reaches, and write a file in it, which is removed.

    Returns:
        What prevents it; None when the folder can be written.
    """
    tried = os.path.join(path, f".akdl-{uuid.uuid4().hex}")
    try:
        tf.io.gfile.makedirs(path)
        with tf.io.gfile.GFile(tried, "w") as file:
            file.write("tried")
        tf.io.gfile.remove(tried)
    except (OSError, tf.errors.OpError) as error:
        return str(getattr(error, "message", error))
    return None
