"""The two-tower model: how well an item suits a user, as the cosine between the vectors that two
networks make of them.

The shape is that of YouTube's recommender (Covington et al., Deep Neural Networks for YouTube
Recommendations, 2016): features of the user go through one network, features of the item through
another, and only their outputs meet. So the vectors of items can be computed in advance.
"""

import tensorflow as tf


class TwoTowerModel(tf.keras.Model):
    """Two networks of dense layers, and the cosine of their outputs as logit, float32 of shape [n,
    1] between -1 and 1.

    Each hidden layer is followed by dropout (`AlphaDropout`) and batch normalization, where they
    are set.

    Args:
        user_column_features: Dense feature columns of the user, as `tf.keras.layers.DenseFeatures`
            takes them.
        item_column_features: Feature columns of the item.
        user_hidden_units: Sizes of the user's layers.
        item_hidden_units: Sizes of the item's layers; the last has the size of the user's last.
        user_activation: Activation of the user's layers.
        item_activation: Activation of the item's layers.
        user_dropout: Fraction of the values that is dropped in training; 0 for no dropout.
        item_dropout: See `user_dropout`.
        user_batch_norm: Normalize batches.
        item_batch_norm: See `user_batch_norm`.
    """

    def __init__(
        self,
        user_column_features,
        item_column_features,
        user_hidden_units,
        item_hidden_units,
        user_activation=tf.nn.relu,
        item_activation=tf.nn.relu,
        user_dropout=0.0,
        item_dropout=0.0,
        user_batch_norm=False,
        item_batch_norm=False,
    ):
        if (
            not user_hidden_units
            or not item_hidden_units
            or user_hidden_units[-1] != item_hidden_units[-1]
        ):
            sizes = (
                f"user_hidden_units {list(user_hidden_units)} and item_hidden_units"
                f" {list(item_hidden_units)}"
            )
            raise ValueError(
                "both towers need layers, and the last layers of both need the same size; got"
                f" {sizes}"
            )
        arguments = {
            name: value for name, value in locals().items() if name not in ("self", "__class__")
        }
        super().__init__()
        # an Estimator makes the model again from them in each of its graphs
        self._arguments = arguments
        self._user = Tower(
            "user",
            user_column_features,
            user_hidden_units,
            user_activation,
            user_dropout,
            user_batch_norm,
        )
        self._item = Tower(
            "item",
            item_column_features,
            item_hidden_units,
            item_activation,
            item_dropout,
            item_batch_norm,
        )

    def call(self, inputs, training=None, mask=None):
        user = tf.math.l2_normalize(self._user(inputs, training=training), axis=1)
        item = tf.math.l2_normalize(self._item(inputs, training=training), axis=1)
        return tf.reduce_sum(user * item, axis=1, keepdims=True)

    def get_config(self):
        return dict(self._arguments)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


class Tower(tf.keras.layers.Layer):
    def __init__(self, name, columns, units, activation, dropout, batch_norm):
        super().__init__(name=name)
        layers = tf.keras.layers
        self._input = layers.DenseFeatures(feature_columns=list(columns))
        self._hidden = []
        for size in units:
            self._hidden.append(layers.Dense(size, activation=activation))
            if dropout:
                self._hidden.append(layers.AlphaDropout(dropout))
            if batch_norm:
                self._hidden.append(layers.BatchNormalization())

    def call(self, inputs, training=None):
        net = self._input(inputs)
        for layer in self._hidden:
            net = (
                layer(net)
                if isinstance(layer, tf.keras.layers.Dense)
                else layer(net, training=training)
            )
        return net
