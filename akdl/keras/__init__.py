"""Training, evaluation and prediction of Keras models from a user's `awf_*` functions."""
