"""Datasets, steps and metrics of the Keras runner, without its files and reports."""
