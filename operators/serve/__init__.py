"""REST server for one model, which clients of TensorFlow Serving can call."""
