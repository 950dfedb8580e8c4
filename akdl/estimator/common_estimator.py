"""An Estimator from a Keras model, a head and an optimizer.

    estimator = CommonEstimator(
        model=TwoTowerModel(...),
        head=UserDefineHead("classification"),
        optimizer=tf.keras.optimizers.Adam(0.01),
        config=generate_run_config(model_dir="model_dir"),
    )
    estimator.train(input_fn)

It is a `tf.estimator.Estimator`, so `train`, `evaluate`, `predict`, `export_saved_model` and `train_and_evaluate` are those of
TensorFlow; `akdl.estimator.group.train_and_evaluate` also evaluates and exports in a group.
"""

from typing import Any, Callable, Dict, Mapping, Optional, Union

import tensorflow as tf

from akdl.estimator.optimizers import count_steps_by
from akdl.estimator.optimizers import maker as optimizer_maker
from akdl.tf_version import require_estimator

_estimator = require_estimator("CommonEstimator")


class CommonEstimator(_estimator.Estimator):  # type: ignore[misc, name-defined]
    """An Estimator whose model is a `tf.keras.Model` that gives logits.

    An Estimator makes a graph to train, one for every evaluation, one to predict and one to export, and Keras layers belong to
    the graph that they were first called in. So the model and the optimizer are made anew in each graph.

    Args:
        model: The model, or a function without arguments that makes it. A model of your own class has to have `get_config` with
            the arguments of `__init__`, and `from_config`, so that it can be made anew; its weights are not taken over.
        head: Loss, metrics, predictions and export: a `akdl.estimator.head.UserDefineHead`, or a head of `tf.estimator`.
        optimizer: One of `tf.keras.optimizers`, its name, such as "adam", or its config; for `UserDefineHead` also one of
            `tf.compat.v1.train`.
        config: A `tf.estimator.RunConfig`, best from `akdl.engine.run_config.generate_run_config`.
        params: As in `tf.estimator.Estimator`; models and heads don't see them.
        warm_start_from: As in `tf.estimator.Estimator`: a folder with a checkpoint, or `tf.estimator.WarmStartSettings`.
        model_dir: Folder of the checkpoints, where the config does not say it.

    Raises:
        TypeError: The model is none, or cannot be made anew.
        ValueError: The optimizer cannot be used, see `akdl.estimator.optimizers.maker`.
    """

    def __init__(
        self,
        model: Union[Any, Callable[[], Any]],
        head: Any,
        optimizer: Any,
        config: Optional[Any] = None,
        params: Optional[Mapping[str, Any]] = None,
        warm_start_from: Any = None,
        model_dir: Optional[str] = None,
    ) -> None:
        make_model = _model_maker(model)
        make_optimizer = optimizer_maker(optimizer)

        # `params` are not used, but an Estimator refuses them where they are not in the signature.
        def model_fn(features: Dict[str, Any], labels: Any, mode: str, params: Any) -> Any:
            network = make_model()
            logits = network(features, training=mode == tf.estimator.ModeKeys.TRAIN)
            own_optimizer = None
            if mode == tf.estimator.ModeKeys.TRAIN:
                own_optimizer = make_optimizer()
                count_steps_by(own_optimizer, tf.compat.v1.train.get_or_create_global_step())
            return head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=logits,
                labels=labels,
                optimizer=own_optimizer,
                trainable_variables=network.trainable_variables,
                update_ops=network.updates,  # of batch normalization
                regularization_losses=network.losses or None,
            )

        super().__init__(
            model_fn=model_fn,
            model_dir=model_dir,
            config=config,
            params=dict(params or {}),
            warm_start_from=warm_start_from,
        )


def _model_maker(model: Any) -> Callable[[], Any]:
    """Return a function that makes a model like the given one."""
    kind = type(model)
    keras = ("keras", "tensorflow", "tensorflow_core")
    if not isinstance(model, tf.keras.Model):
        if not callable(model):
            raise TypeError(f"model should be a tf.keras.Model or a function that makes one, got a {kind.__name__}")
        make: Callable[[], Any] = model
        return make
    if kind.__module__.split(".")[0] in keras:  # functional, or a Sequential
        return lambda: tf.keras.models.clone_model(model)
    # Keras has a `get_config` for all classes, which leaves arguments out that are no plain values.
    if not any("get_config" in vars(each) for each in kind.__mro__ if each.__module__.split(".")[0] not in keras):
        raise TypeError(
            f"{kind.__name__} has to define get_config with the arguments of __init__, so that an Estimator can make it anew "
            "in each of its graphs; or give a function that makes the model"
        )
    config = model.get_config()
    return lambda: kind.from_config(config)
