"""One TensorFlow process of a group: start, session, status and end."""
