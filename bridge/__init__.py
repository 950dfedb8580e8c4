"""The Flink side of the process line: encodes rows, owns TensorFlow processes, and turns their output back into rows.

The rooms, each of which uses only those before it: schema, settings, table_env and exceptions; codec; host; group; member;
flink; serving.
"""
