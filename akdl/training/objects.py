"""Optimizers, losses, metrics and schedules from the names and arguments of a config.

A name is looked up in the user's module first, then in Keras, ignoring case and underscores: "AUC"
and "auc", "BinaryCrossentropy" and "binary_crossentropy".
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterator, Mapping

import tensorflow as tf

from akdl.near_names import near
from akdl.training.user_functions import Named, ObjectError, make_with, name_and_args, plain_name
from akdl.user_code.config_file import Config

_SHORT = {
    "mse": "MeanSquaredError",
    "mae": "MeanAbsoluteError",
    "mape": "MeanAbsolutePercentageError",
    "msle": "MeanSquaredLogarithmicError",
    "kld": "KLDivergence",
    "bce": "BinaryCrossentropy",
    "rmse": "RootMeanSquaredError",
}


def make_optimizer(spec: Named, user: Any) -> Any:
    """Make an optimizer; its learning rate may be a schedule with name and arguments."""
    name, args = name_and_args(spec)
    if isinstance(args.get("learning_rate"), Mapping):
        rate_name, rate_args = name_and_args(args["learning_rate"])
        args["learning_rate"] = _make(
            "learning rate schedule", rate_name, rate_args, user, tf.keras.optimizers.schedules
        )
    return _make("optimizer", name, args, user, tf.keras.optimizers)


def make_loss(spec: Named, user: Any) -> Any:
    """Return a loss with a value per row, in place of Keras' mean over a batch.

    The runner takes the mean over the rows of all workers, and a mean of means would weight rows by
    the size of the part that they are in.
    """
    name, args = name_and_args(spec)
    found = find("loss", name, user, tf.keras.losses)
    loss = (
        make_with(f"loss {name}", found, args)
        if inspect.isclass(found)
        else _function_loss(found, name, args)
    )
    # This text is the same in Keras 2 and 3.
    loss.reduction = "none"
    return loss


def make_metric(spec: Named, user: Any, label: Any = None, output: Any = None) -> Any:
    """Return a metric.

    "accuracy" becomes the class for the shapes of label and output, as in Keras.
    """
    name, args = name_and_args(spec)
    # Keras makes names such as auc_1 for a second metric of a class, and reports need a name that
    # follows from the config.
    args.setdefault("name", metric_name(spec))
    # The class depends on shapes, as in `model.compile`. A user's own function of this name wins.
    if name.lower() in ("accuracy", "acc") and not hasattr(user, name):
        return _accuracy(label, output)(**args)
    found = find("metric", name, user, tf.keras.metrics)
    if inspect.isclass(found):
        return make_with(f"metric {name}", found, args)
    return tf.keras.metrics.MeanMetricWrapper(found, **args)


def metric_name(spec: Named) -> str:
    """Return the name of a metric in reports: its argument `name`, else "AUC" -> "auc"."""
    name, args = name_and_args(spec)
    return str(args.get("name") or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def find(what: str, name: str, user: Any, *places: Any) -> Any:
    """Return the class or function of a name: the user's own, or one of `places`.

    Raises:
        ObjectError: The name is unknown; the message lists similar ones.
    """
    own = getattr(user, name, None)
    if callable(own):
        return own
    known: dict[str, Any] = {}
    for place in places:
        public = {key: getattr(place, key) for key in dir(place) if not key.startswith("_")}
        for key, value in public.items():
            if callable(value) and not inspect.ismodule(value):
                plain = plain_name(key)
                # Keras has both a class and a function for many names. The class takes arguments,
                # so it wins.
                if plain not in known or inspect.isclass(value):
                    known[plain] = value
    wanted = plain_name(_SHORT.get(name.lower(), name))
    if wanted not in known:
        similar = ", ".join(
            str(getattr(known[one], "__name__", one))
            for one in near(wanted, known, 3, likeness=0.6)
        )
        raise ObjectError(
            f"there is no {what} {name!r}, neither in the user module nor in Keras"
            + (f"; similar: {similar}" if similar else "")
        )
    return known[wanted]


def unknown_names(config: Config, user: Any) -> list[str]:
    """List the names and arguments of a config that are wrong, with their paths.

    Nothing is made here, because this runs before the group: a strategy for several workers has to
    exist before the first variable, and optimizers and metrics have variables.
    """
    keras = tf.keras
    found: list[str] = []

    def look(path: str, what: str, spec: Named, *places: Any) -> None:
        """Add the mistakes of one spec to `found`, and of the schedule in its learning rate."""
        name, args = name_and_args(spec)
        # `make_metric` chooses the class of this name by shapes, which are not known yet.
        if what == "metric" and name.lower() in ("accuracy", "acc"):
            return
        try:
            # The first two parameters of a plain function are labels and outputs, which the config
            # does not give.
            _check_arguments(
                find(what, name, user, *places), args, skip=2 if what in ("loss", "metric") else 0
            )
        except ObjectError as error:
            found.append(f"{path}: {error}")
        if what == "optimizer" and isinstance(args.get("learning_rate"), Mapping):
            schedule = args["learning_rate"]
            if isinstance(schedule.get("name"), str):
                look(
                    f"{path}.args.learning_rate",
                    "learning rate schedule",
                    schedule,
                    keras.optimizers.schedules,
                )
            else:
                found.append(
                    f"{path}.args.learning_rate: expected a number, or a schedule with name and"
                    " args"
                )

    for key, what, place in (
        ("optimizer", "optimizer", keras.optimizers),
        ("loss", "loss", keras.losses),
        ("metrics", "metric", keras.metrics),
        ("weighted_metrics", "metric", keras.metrics),
    ):
        for path, spec in _named_in(key, config.get(key, [])):
            look(path, what, spec, place)
    return found


class Heads:
    """The outputs of a model by name, and the values that belong to each: labels, weights, losses.

    A model with one output has the name "". Names come from a dict of outputs, or from the model,
    or are numbers, so that a config can always address an output.
    """

    def __init__(self, model: Any, outputs: Any) -> None:
        if isinstance(outputs, Mapping):
            self.names = list(outputs)
        elif isinstance(outputs, (list, tuple)) and len(outputs) > 1:
            names = getattr(model, "output_names", None) or []
            self.names = (
                list(names)
                if len(names) == len(outputs)
                else [f"output_{n}" for n in range(len(outputs))]
            )
        else:
            self.names = [""]

    @property
    def several(self) -> bool:
        return len(self.names) > 1

    def split(self, what: str, values: Any) -> list[Any]:
        """Return one value per output: from a dict by name, a list in order, or one for all."""
        if isinstance(values, Mapping) and (self.several or list(values) == self.names):
            missing = [name for name in self.names if name not in values]
            if missing:
                raise ObjectError(
                    f"{what}: expected the output {missing[0]!r}, got {', '.join(values)}"
                )
            return [values[name] for name in self.names]
        if isinstance(values, (list, tuple)):
            if len(values) != len(self.names):
                raise ObjectError(
                    f"{what}: expected {len(self.names)} values for the outputs"
                    f" {', '.join(self.names)}, got {len(values)}"
                )
            return list(values)
        return [values] * len(self.names)

    def specs(self, what: str, given: Any, default: Any) -> list[Any]:
        """Return the config of each output.

        It is given as a mapping by name, a list in order, or one value for all.
        """
        # A mapping with a name is a spec itself, for all outputs.
        if isinstance(given, Mapping) and "name" not in given:
            unknown = [name for name in given if name not in self.names]
            if unknown:
                known = (
                    f"one of {', '.join(self.names)}"
                    if self.several
                    else "no name, as the model has one output"
                )
                raise ObjectError(f"{what}: expected {known}, got the output {unknown[0]!r}")
            return [given.get(name, default) for name in self.names]
        return self.split(what, given)


def _named_in(path: str, given: Any) -> Iterator[tuple[str, Named]]:
    """Yield path and spec in a part of a config.

    The part is a spec, a list of specs, or either of them by output.
    """
    if isinstance(given, str) or (isinstance(given, Mapping) and "name" in given):
        yield path, given
    elif isinstance(given, Mapping):
        for key, one in given.items():
            yield from _named_in(f"{path}.{key}", one)
    else:
        for index, one in enumerate(given):
            yield from _named_in(f"{path}[{index}]", one)


def _check_arguments(function: Any, args: Config, skip: int) -> None:
    """Refuse arguments that are not in a signature.

    The first `skip` of a plain function are not from the config.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    # Some builtins have no signature. Their own error, when they are called, has to do.
    except (TypeError, ValueError):
        return
    # A function with `**kwargs` says nothing about the names that it takes.
    if any(one.kind == one.VAR_KEYWORD for one in parameters):
        return
    names = [one.name for one in (parameters if inspect.isclass(function) else parameters[skip:])]
    unknown = [name for name in args if name not in names and name != "name"]
    if unknown:
        raise ObjectError(
            f"{function.__name__}: unknown argument {', '.join(unknown)}; its arguments are"
            f" {', '.join(names)}"
        )


def _make(what: str, name: str, args: Config, user: Any, place: Any) -> Any:
    return make_with(f"{what} {name}", find(what, name, user, place), args)


def _function_loss(function: Any, name: str, args: Config) -> Any:
    """Make a loss object of a function, so that both kinds of losses have a `reduction`."""

    class FunctionLoss(tf.keras.losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return function(y_true, y_pred, **args)

    return FunctionLoss(name=name)


def _accuracy(label: Any, output: Any) -> Any:
    """Choose the class that Keras means by "accuracy", by the shapes of label and output.

    Keras makes this choice inside `model.compile`, which the runner does not use.
    """
    labels, outputs = tf.TensorShape(label.shape), tf.TensorShape(output.shape)
    if outputs.rank is None or outputs.rank < 2 or outputs[-1] == 1:
        return tf.keras.metrics.BinaryAccuracy
    if labels.rank is not None and (labels.rank < outputs.rank or labels[-1] == 1):
        return tf.keras.metrics.SparseCategoricalAccuracy
    return tf.keras.metrics.CategoricalAccuracy


def learning_rate(optimizer: Any) -> float | None:
    """Read an optimizer's rate; None for a schedule, which has no number to read or assign."""
    # Optimizers of Keras before TensorFlow 2.11, which are "legacy" since, have the property alone.
    name = "_learning_rate" if hasattr(optimizer, "_learning_rate") else "learning_rate"
    rate = getattr(optimizer, name, None)
    if isinstance(rate, (int, float)):
        return float(rate)
    return float(rate.numpy()) if rate is not None and hasattr(rate, "assign") else None


def set_learning_rate(optimizer: Any, rate: float) -> None:
    """Assign a rate, or refuse a schedule."""
    if learning_rate(optimizer) is None:
        raise ObjectError(
            "callbacks: the optimizer's learning_rate is a schedule, which no callback can set:"
            " make it a number"
        )
    optimizer.learning_rate = rate
