"""The seed of all random numbers of a training."""

import random

import numpy as np
import tensorflow as tf


def set_seed(number: int) -> None:
    """Seed Python, NumPy and TensorFlow, with the generator that newer versions of Keras have of their own."""
    random.seed(number)
    np.random.seed(number % (1 << 32))
    if hasattr(tf.keras.utils, "set_random_seed"):
        tf.keras.utils.set_random_seed(number % (1 << 32))
    else:
        tf.random.set_seed(number)
