"""Tools for training scripts: input pipelines, run configs, strategies, training and export, early stopping.

Names and config keys are the same as in Alink's documentation. Importing these modules loads TensorFlow and leaves its
settings alone; in particular eager execution stays on.
"""
