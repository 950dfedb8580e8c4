"""An Estimator from a Keras model, a head and an optimizer.

    estimator = CommonEstimator(
        model=TwoTowerModel(...),
        head=UserDefineHead("classification"),
        optimizer=tf.keras.optimizers.Adam(0.01),
        config=generate_run_config(model_dir="model_dir"),
    )

Train it with its `train`, or with `akdl.estimator.group.train_and_evaluate`.
"""

from typing import Any, Callable, Dict, Optional, Union

import tensorflow as tf

from akdl.estimator.optimizers import is_keras
from akdl.estimator.optimizers import maker as optimizer_maker
from akdl.tf_version import require_estimator
from akdl.user_code.config_file import Config

_estimator = require_estimator("CommonEstimator")


class CommonEstimator(_estimator.Estimator):  # type: ignore[misc, name-defined]
    """An Estimator whose model is a `tf.keras.Model` that returns logits.

    An Estimator builds separate graphs for training, for every evaluation, for prediction and for
    the export, and Keras layers belong to the graph of their first call. So the model and the
    optimizer are made again in each graph.

    Args:
        model: The model, or a function without arguments that makes it. A model of your own class
            needs `get_config` with the arguments of `__init__`, and `from_config`, so that it can
            be made again; its weights are not copied.
        head: Loss, metrics, predictions and export: a `akdl.estimator.head.UserDefineHead`, or a
            head of `tf.estimator`.
        optimizer: An optimizer of `tf.keras.optimizers`, its name, such as "adam", or its config;
            for `UserDefineHead` also an optimizer of `tf.compat.v1.train`.
        config: A `tf.estimator.RunConfig`, best from `akdl.engine.run_config.generate_run_config`.
        params: As in `tf.estimator.Estimator`, like `warm_start_from`; not passed to models and
            heads.
        model_dir: Folder of the checkpoints, if the config does not set it.

    Raises:
        TypeError: The model is not a Keras model, or cannot be made again.
        ValueError: The optimizer cannot be used, see `akdl.estimator.optimizers.maker`.
    """

    def __init__(
        self,
        model: Union[Any, Callable[[], Any]],
        head: Any,
        optimizer: Any,
        config: Optional[Any] = None,
        params: Optional[Config] = None,
        warm_start_from: Any = None,
        model_dir: Optional[str] = None,
    ) -> None:
        make_model = _model_maker(model)
        make_optimizer = optimizer_maker(optimizer)

        # `params` are not used here. But an Estimator that has params refuses a function without
        # this argument.
        def model_fn(features: Dict[str, Any], labels: Any, mode: str, params: Any) -> Any:
            network = make_model()
            logits = network(features, training=mode == tf.estimator.ModeKeys.TRAIN)
            own_optimizer = None
            if mode == tf.estimator.ModeKeys.TRAIN:
                own_optimizer = make_optimizer()
                # Hooks and checkpoints read the global step, so the optimizer has to count in this
                # variable.
                if is_keras(own_optimizer):
                    own_optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
            return head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=logits,
                labels=labels,
                optimizer=own_optimizer,
                trainable_variables=network.trainable_variables,
                # Without these operations, batch normalization keeps the initial means and
                # variances.
                update_ops=network.updates,
                regularization_losses=network.losses or None,
            )

        super().__init__(
            model_fn=model_fn, model_dir=model_dir, config=config, params=dict(params or {}), warm_start_from=warm_start_from
        )


def _model_maker(model: Any) -> Callable[[], Any]:
    """Return a function that makes the model in the current graph.

    Raises:
        TypeError: Not a model, or a model of the user's own class that cannot be made again.
    """
    kind = type(model)
    keras = ("keras", "tensorflow", "tensorflow_core")
    if not isinstance(model, tf.keras.Model):
        if not callable(model):
            raise TypeError(f"model: expected a tf.keras.Model or a function that makes one, got a {kind.__name__}")
        make: Callable[[], Any] = model
        return make
    # The model is functional or a Sequential, and Keras can clone it.
    if kind.__module__.split(".")[0] in keras:
        return lambda: tf.keras.models.clone_model(model)
    # Keras has a `get_config` for all classes, but it leaves out arguments that are not plain
    # values. So only one that the user has written counts.
    if not any("get_config" in vars(each) for each in kind.__mro__ if each.__module__.split(".")[0] not in keras):
        raise TypeError(
            f"{kind.__name__} needs get_config with the arguments of __init__, because an Estimator makes the model again in "
            "each of its graphs: define it, or pass a function that makes the model"
        )
    config = model.get_config()
    return lambda: kind.from_config(config)
