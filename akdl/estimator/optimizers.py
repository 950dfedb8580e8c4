"""Optimizers in a form for Estimators.

An Estimator builds a graph for each purpose, and an optimizer's variables belong to one graph. It
also refuses the optimizers that Keras has since TensorFlow 2.11.
"""

import inspect
from typing import Any, Callable, Dict

import tensorflow as tf


def maker(optimizer: Any) -> Callable[[], Any]:
    """Return a function that makes the same optimizer again, for another graph.

    The variables of an optimizer belong to one graph, and an Estimator builds several. It only
    takes the Keras optimizers that TensorFlow 2.11 moved to `tf.keras.optimizers.legacy`; newer
    ones are translated, also from a name such as "adam" or a config. Optimizers of
    `tf.compat.v1.train` stay unchanged.
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
    # The newer optimizers make eager variables in `__init__`, which they cannot read in graph mode.
    except NotImplementedError as error:
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
    """Return a maker for a name such as "adam" or a config of Keras."""
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
    # This call is a trial, so that a wrong config fails at once.
    kind.from_config(dict(config))
    return lambda: kind.from_config(dict(config))


def is_keras(optimizer: Any) -> bool:
    """Test for an optimizer of Keras, old or new."""
    return not isinstance(optimizer, tf.compat.v1.train.Optimizer)


def _settings(config: Dict[str, Any], kind: Any, known: Any) -> Dict[str, Any]:
    """Return the settings that differ from their defaults and that an older class lacks."""
    defaults = {name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()}
    # These settings have no effect on the mathematics.
    ignored = {"jit_compile", "is_legacy_optimizer"}
    return {
        name: value
        for name, value in config.items()
        if name not in known and name not in ignored and value is not None and value != defaults.get(name)
    }
