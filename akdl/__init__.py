"""The TensorFlow side: everything that runs inside the process that executes a user's script."""

__version__ = "0.2.0"
