"""The TensorFlow side: everything that runs inside the process that executes a user's script.

The rooms are listed in order, and each room uses only rooms before it: wire; process, storage, user_code; rows; runner,
serving; engine; estimator, keras, models; entry, testing.
"""

__version__ = "0.1.0"
