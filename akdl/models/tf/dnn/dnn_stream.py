"""Trains the DNN classifier of `dnn_batch` on the rows of a stream.

It writes the model when the stream ends.
"""

from akdl.models.tf.dnn.classifier import train_and_write

main = train_and_write
