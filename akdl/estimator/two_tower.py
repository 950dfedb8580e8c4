"""The two-tower model: how well an item suits a user, as the cosine between the vectors that two networks make of them.

The shape is that of YouTube's recommender (Covington et al., Deep Neural Networks for YouTube Recommendations, 2016): what is
known of the user goes through one network, what is known of the item through another, and only their outputs meet. So the
vectors of items can be made beforehand.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

import tensorflow as tf

from akdl.tf_version import require_estimator

require_estimator("TwoTowerModel")  # Keras 3 has no DenseFeatures either


class TwoTowerModel(tf.keras.Model):  # type: ignore[misc]
    """Two networks of dense layers, and the cosine of their outputs as logit.

    Each hidden layer is followed by dropout (`AlphaDropout`) and batch normalization, where they are asked for.

    Args:
        user_column_features: Feature columns of the user, dense ones, as `tf.keras.layers.DenseFeatures` takes them.
        item_column_features: Feature columns of the item.
        user_hidden_units: Sizes of the user's layers.
        item_hidden_units: Sizes of the item's layers; the last has the size of the user's last.
        user_activation: Activation of the user's layers.
        item_activation: Activation of the item's layers.
        user_dropout: Part of the values that is dropped while training; 0 for none.
        item_dropout: See `user_dropout`.
        user_batch_norm: Whether there is batch normalization.
        item_batch_norm: See `user_batch_norm`.

    Raises:
        ValueError: A tower has no layers, or the towers end in different sizes.
    """

    def __init__(
        self,
        user_column_features: Sequence[Any],
        item_column_features: Sequence[Any],
        user_hidden_units: Sequence[int],
        item_hidden_units: Sequence[int],
        user_activation: Callable[[Any], Any] = tf.nn.relu,
        item_activation: Callable[[Any], Any] = tf.nn.relu,
        user_dropout: float = 0.0,
        item_dropout: float = 0.0,
        user_batch_norm: bool = False,
        item_batch_norm: bool = False,
    ) -> None:
        if not user_hidden_units or not item_hidden_units or user_hidden_units[-1] != item_hidden_units[-1]:
            sizes = f"user_hidden_units {list(user_hidden_units)} and item_hidden_units {list(item_hidden_units)}"
            raise ValueError(f"both towers need layers, and the last layers of both need the same size; got {sizes}")
        super().__init__()
        self._config = {
            "user_column_features": user_column_features,
            "item_column_features": item_column_features,
            "user_hidden_units": user_hidden_units,
            "item_hidden_units": item_hidden_units,
            "user_activation": user_activation,
            "item_activation": item_activation,
            "user_dropout": user_dropout,
            "item_dropout": item_dropout,
            "user_batch_norm": user_batch_norm,
            "item_batch_norm": item_batch_norm,
        }
        self._user = _Tower("user", user_column_features, user_hidden_units, user_activation, user_dropout, user_batch_norm)
        self._item = _Tower("item", item_column_features, item_hidden_units, item_activation, item_dropout, item_batch_norm)

    def call(self, inputs: Mapping[str, Any], training: Any = None, mask: Any = None) -> Any:
        """Return the logits, float32 of shape [n, 1], between -1 and 1.

        Args:
            inputs: Feature name to tensor of shape [n, ...], as the columns want them.
            training: Whether dropout drops, and batch normalization takes the batch's own mean.
            mask: Not used.
        """
        user = tf.math.l2_normalize(self._user(inputs, training=training), axis=1)
        item = tf.math.l2_normalize(self._item(inputs, training=training), axis=1)
        return tf.reduce_sum(user * item, axis=1, keepdims=True)

    def get_config(self) -> Dict[str, Any]:
        """Return the arguments, with feature columns and functions as they are."""
        return dict(self._config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> "TwoTowerModel":
        """Return a model with these arguments."""
        return cls(**config)


class _Tower(tf.keras.layers.Layer):  # type: ignore[misc]
    def __init__(
        self, name: str, columns: Sequence[Any], units: Sequence[int], activation: Any, dropout: float, batch_norm: bool
    ) -> None:
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

    def call(self, inputs: Mapping[str, Any], training: Any = None) -> Any:
        net = self._input(inputs)
        for layer in self._hidden:
            net = layer(net) if isinstance(layer, tf.keras.layers.Dense) else layer(net, training=training)
        return net
