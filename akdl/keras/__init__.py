"""Training, evaluation and prediction of Keras models from the `awf_*` functions of a user's module."""
