"""Training, evaluation and prediction of Keras models from the `awf_*` functions of a user's module.

`akdl-keras` is the command line, `akdl.keras.keras_training`, `evaluate` and `predict` are the same from Python, and
`akdl.keras.operator.main` runs inside an operator. Importing this package does not load TensorFlow.
"""
