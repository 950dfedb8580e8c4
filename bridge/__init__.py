"""The Flink side of the process line: encodes rows, owns TensorFlow processes, and turns their output back into rows.

The rooms are listed in order, and each room uses only rooms before it: schema, settings, table_env and exceptions; codec;
host; group; member; flink; serving.
"""
