"""One TensorFlow process of a group: its start, its line, its progress and its end."""
