"""Training with `tf.estimator`, in two ways.

Four functions of a user's module, `model_fn`, `train_input_fn`, `eval_input_fn` and `serving_input_receiver_fn`, and a table of
parameters: `akdl-estimator` is the command line, `akdl.estimator.estimator_training.train` the same from Python, and
`akdl.estimator.functions_script.main` the same inside an operator.

An Estimator from a Keras model and a head: `akdl.estimator.common_estimator`, `head`, `exporters` and `group` are
parts for a script of your own.

TensorFlow 2.15 is the last version with Estimators; the Keras runner, `akdl.keras`, works without them. Importing this package
does not load TensorFlow.
"""
