"""Optimizers in a form for Estimators."""

import inspect
from typing import Any, Callable, Dict

import tensorflow as tf


def maker(optimizer: Any) -> Callable[[], Any]:
    """Return a function that makes an optimizer with the settings of the given one, for another graph.

    The variables of an optimizer belong to one graph, and an Estimator builds several. It only takes the Keras optimizers that
    TensorFlow 2.11 moved to `tf.keras.optimizers.legacy`; newer ones are translated, also from a name such as "adam" or a
    config. Optimizers of `tf.compat.v1.train` stay unchanged.
    """
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return lambda: optimizer
    legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    if isinstance(optimizer, (str, dict)):
        return _by_name(optimizer, legacy)
    if not isinstance(optimizer, (tf.keras.optimizers.Optimizer, legacy.Optimizer)):
        raise TypeError(
            f"optimizer: expected an optimizer of Keras, its name, or an optimizer of tf.compat.v1.train, got {optimizer!r}"
        )
    kind = type(optimizer)
    try:
        config = dict(optimizer.get_config())
    except NotImplementedError as error:  # the newer optimizers make eager variables in __init__
        raise ValueError(
            f"an Estimator cannot use this {kind.__name__} in graph mode: choose tf.keras.optimizers.legacy.{kind.__name__}"
        ) from error
    if isinstance(optimizer, legacy.Optimizer):
        return lambda: kind.from_config(config)
    older = getattr(legacy, kind.__name__, None)
    if older is None:
        raise ValueError(f"an Estimator cannot use {kind.__name__}: choose an optimizer of tf.keras.optimizers.legacy")
    known = {*inspect.signature(older.__init__).parameters, "clipnorm", "clipvalue", "global_clipnorm"}
    left_out = _settings(config, kind, known)
    if left_out:
        names = ", ".join(f"{name}={value!r}" for name, value in left_out.items())
        raise ValueError(
            f"an Estimator cannot use {kind.__name__} with {names}: tf.keras.optimizers.legacy.{kind.__name__} has no such "
            "setting"
        )
    kept = {name: value for name, value in config.items() if name in known and value is not None}
    return lambda: older.from_config(kept)


def _by_name(optimizer: Any, legacy: Any) -> Callable[[], Any]:
    name, config = (
        (optimizer, {}) if isinstance(optimizer, str) else (optimizer.get("class_name"), optimizer.get("config") or {})
    )
    members = {key: getattr(legacy, key) for key in dir(legacy) if key != "Optimizer"}
    kinds: Dict[str, Any] = {
        key: kind for key, kind in members.items() if isinstance(kind, type) and issubclass(kind, legacy.Optimizer)
    }
    found = [kind for key, kind in kinds.items() if key.lower() == str(name).lower()]
    if not found:
        raise ValueError(f"an Estimator cannot use the optimizer {name!r}; it can use {', '.join(sorted(kinds))}")
    kind = found[0]
    kind.from_config(dict(config))  # a wrong config fails at once
    return lambda: kind.from_config(dict(config))


def is_keras(optimizer: Any) -> bool:
    return not isinstance(optimizer, tf.compat.v1.train.Optimizer)


def _settings(config: Dict[str, Any], kind: Any, known: Any) -> Dict[str, Any]:
    defaults = {name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()}
    ignored = {"jit_compile", "is_legacy_optimizer"}  # without effect on the mathematics
    return {
        name: value
        for name, value in config.items()
        if name not in known and name not in ignored and value is not None and value != defaults.get(name)
    }
