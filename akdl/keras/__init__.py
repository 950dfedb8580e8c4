"""Training, evaluation and prediction of Keras models from the `awf_*` functions of a user's module.

`akdl-keras` is the command line, `akdl.keras.keras_training`, `evaluate` and `predict` the same from Python, and
`akdl.keras.operator.main` the same inside an operator. Importing this package does not load TensorFlow.
"""
