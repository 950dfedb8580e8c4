"""Averages of weights, which an optimizer of Keras keeps with `use_ema`."""

from __future__ import annotations

from typing import Any, Callable


def averaged_later(model: Any) -> Callable[[], None]:
    """Keep `model.fit` from replacing the weights with their averages; the result does it.

    Keras does so at the end of each call of `fit`. A training of several calls would continue from
    the averages, and its checkpoints would have no other weights.
    """
    optimizer = model.optimizer
    # Keras 3 wraps the optimizer for mixed precision.
    if not getattr(getattr(optimizer, "inner_optimizer", optimizer), "use_ema", False):
        return lambda: None

    def average() -> None:
        del optimizer.finalize_variable_values
        # Keras 2 restores a finished training into variables that are made later, here.
        if not getattr(optimizer, "built", False):
            optimizer.build(model.trainable_variables)
        optimizer.finalize_variable_values(model.trainable_variables)

    # An attribute of the object hides the method of its class.
    optimizer.finalize_variable_values = lambda variables: None
    return average
