"""A wide and deep model on the rows of a Flink table: columns `x ARRAY<FLOAT>` of 4 numbers, `label FLOAT`."""

import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([4], tf.float32), "label": tf.io.FixedLenFeature([1], tf.float32)}


class WideDeepModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.linear_model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        self.dnn_model = tf.keras.Sequential([tf.keras.layers.Dense(5, "relu"), tf.keras.layers.Dense(1)])

    def call(self, inputs, training=None):
        return tf.nn.sigmoid(self.linear_model(inputs) + self.dnn_model(inputs))


def awf_create_model_fn():
    return WideDeepModel()


def awf_create_train_dataset_fn(file, batch_size):
    def parse(records):
        rows = tf.io.parse_example(records, SPEC)
        return rows["x"], rows["label"]

    return tf.data.TFRecordDataset(file).batch(batch_size).map(parse)


def awf_group_trainable_vars_fn(model):
    return model.linear_model.trainable_variables, model.dnn_model.trainable_variables
