"""The Flink side of the process line: encodes rows, owns TensorFlow processes, and turns their
output back into rows.
"""
