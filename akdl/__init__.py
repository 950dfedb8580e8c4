"""The TensorFlow side: everything that runs inside the process that executes a user's script."""
