"""The script of Alink's sample, which trains a DNN classifier.

It trains on this worker's rows, and the chief writes the model as rows (model_id, model_info). For
the user parameters see `classifier.train_and_export`.
"""

from akdl.models.tf.dnn.classifier import train_and_write

main = train_and_write
