"""Model for `ranknet.py`: one ranker for two documents."""

import tensorflow as tf


class RankNetModel(tf.keras.Model):
    """Score two documents with one ranker, and return the probability that the first is better."""

    def __init__(self, name, input_size, ranker=None):
        super().__init__(name=name)
        self.ranker = ranker or self.create_ranker(name + "_rank_model", input_size)

    @staticmethod
    def create_ranker(name, input_size):
        """Return a model that scores one document."""

        def dense(units, name, activation=None):
            regularizer = tf.keras.regularizers.L2(0.01)
            return tf.keras.layers.Dense(
                units, kernel_regularizer=regularizer, activation=activation, name=name
            )

        def concat(*tensors):
            return tf.keras.layers.Concatenate(axis=1)(list(tensors))

        inputs = tf.keras.Input(shape=(input_size,), name="digits")
        x1 = dense(64, "dense_1", "relu")(inputs)
        x2 = dense(32, "dense_2", "relu")(x1)
        x3 = dense(16, "dense_3", "relu")(x2)
        x4 = dense(16, "residual_dense_4")(concat(x1, x2, x3))

        z1 = tf.keras.layers.Dropout(0.5, name="dropout_r")(inputs)
        z2 = dense(64, "dense_r1", "relu")(z1)
        z3 = dense(32, "dense_r2", "relu")(z2)
        z4 = dense(16, "dense_r3", "relu")(z3)
        z5 = dense(16, "residual_dense_r4")(concat(z1, z2, z3, z4))

        w = tf.keras.layers.Dropout(0.5, name="dropout")(concat(x4, z5))
        outputs = dense(1, "predictions")(w)
        return tf.keras.Model(inputs=inputs, outputs=outputs, name=name)

    @tf.function
    def call(self, inputs, training=None, mask=None):
        """Return a probability for (ids, ids, features, features), or for (ids, features) of single
        documents.
        """
        if len(inputs) == 2:
            return tf.nn.sigmoid(self.ranker(inputs[1], training=training))
        rank_1 = self.ranker(inputs[2], training=training)
        rank_2 = self.ranker(inputs[3], training=training)
        return tf.nn.sigmoid(rank_1 - rank_2)
