"""The TensorFlow side: everything that runs inside the process that executes a user's script.

The rooms, each of which uses only those before it: wire; process, storage, user_code; rows; runner, serving; engine; estimator,
keras, models; entry, testing.
"""
