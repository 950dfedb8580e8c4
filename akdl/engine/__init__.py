"""What training scripts share: input pipelines, run configs, strategies, training and export, early stopping.

Names and config keys are those of Alink's documentation. Importing these modules loads TensorFlow and changes none of its
settings; in particular eager execution stays on.
"""
