"""Training with `tf.estimator`, whose last version is TensorFlow 2.15.

It trains four functions of a user's module, or a Keras model.

The four functions: `akdl estimator`, `akdl.estimator.estimator_training.train` from Python, and
`functions_script.main` inside an operator. A Keras model: `common_estimator`, `head`, `exporters`
and `group` are parts for a script of your own.
"""
