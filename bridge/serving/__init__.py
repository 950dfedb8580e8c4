"""Prediction: the graph of a predictor, the model process of a host, and models from a stream."""
