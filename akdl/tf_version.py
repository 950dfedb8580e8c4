"""The one place that asks for TensorFlow's version."""

from typing import Any, Tuple


def tf_version() -> Tuple[int, int]:
    """Return (major, minor) of the installed TensorFlow."""
    import tensorflow as tf

    major, minor = tf.__version__.split(".")[:2]
    return int(major), int(minor)


def require_estimator() -> Any:
    """Return `tf.estimator`.

    Raises:
        RuntimeError: This TensorFlow has none; it was removed in 2.16.
    """
    import tensorflow as tf

    if tf_version() >= (2, 16):
        raise RuntimeError(
            f"this script trains with tf.estimator, which TensorFlow {tf.__version__} does not have: "
            "use TensorFlow 2.15 or older, or a Keras model"
        )
    return tf.estimator
