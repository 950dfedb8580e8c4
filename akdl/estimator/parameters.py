"""The parameters of a training with four functions: their defaults, and the rules between them.

See docs/estimator.md.

Workers in step save checkpoints together, and their clocks do not agree on a step. So there
`save_checkpoints_steps` is 1000 by default, and `save_checkpoints_secs` is refused. All other keys
belong to the user's functions.
"""

from __future__ import annotations

import sys
from typing import Any, Mapping

from akdl.near_names import near
from akdl.user_code.config_file import Config, ConfigError, named

PARAMETERS_FILE = "parameters.json"

_STEPS, _SECS = "save_checkpoints_steps", "save_checkpoints_secs"
_STEPS_IN_STEP = 1000
# Parameter to its default, its least value and its rule in words, which say whether it is whole and
# may be null. RunConfig and EvalSpec have the same defaults. Only `train_max_steps` has one of our
# own, because TrainSpec trains until the rows end.
_RULES: Mapping[str, tuple[Any, float, str]] = {
    _STEPS: (None, 1, "a whole number of 1 or more, or null"),
    _SECS: (600, sys.float_info.min, "seconds above 0, or null"),
    "keep_checkpoint_max": (5, 0, "a whole number, or null; 0 and null keep all"),
    "log_step_count_steps": (100, 1, "a whole number of 1 or more, or null for no lines"),
    "train_max_steps": (
        10000,
        1,
        "a whole number of 1 or more, or null to train until the rows end",
    ),
    "eval_steps": (100, 1, "a whole number of 1 or more, or null for all batches"),
    "eval_start_delay_secs": (120, 0, "seconds, 0 or more"),
    "eval_throttle_secs": (600, 0, "seconds, 0 or more"),
}
# Least likeness of a key and a name for a hint: `train_max_step` has 0.97, but `train_max_epochs`,
# which means another thing, has 0.84.
_NEAR = 0.87


def with_defaults(params: Config | None = None, in_step: bool = False) -> dict[str, Any]:
    """Return the defaults, overridden by the given parameters, where None is a value.

    `save_checkpoints_steps` alone replaces the default of `save_checkpoints_secs`.
    """
    given = dict(params or {})
    for name, (_, _, rule) in _RULES.items():
        # JSON and `--set` may write 1e4, which is a float although it counts steps.
        if "whole" in rule and isinstance(given.get(name), float) and given[name].is_integer():
            given[name] = int(given[name])
    params = {**{name: default for name, (default, _, _) in _RULES.items()}, **given}
    mistakes = _near_names(given) + _wrong_values(params)
    if in_step and given.get(_SECS) is not None:
        mistakes.append(
            f"{_SECS}: workers in step save by steps, got {named(given[_SECS])}; set {_STEPS}"
            " instead"
        )
    # Without a choice of the user, workers in step cannot have the default, which is in seconds.
    elif in_step and _SECS not in given and given.get(_STEPS) is None:
        params.update({_STEPS: _STEPS_IN_STEP, _SECS: None})
    if given.get(_STEPS) is not None:
        if given.get(_SECS) is not None:
            mistakes.append(
                f"{_STEPS}, {_SECS}: expected one of the two, got {named(params[_STEPS])} and"
                f" {named(params[_SECS])}; remove one or set it to null"
            )
        # TensorFlow refuses a RunConfig with both.
        params[_SECS] = None
    if mistakes:
        raise ConfigError("Estimator", mistakes)
    return params


def _near_names(given: Config) -> list[str]:
    """List unknown keys that are close to a parameter: keys of the user's functions are free."""
    found = []
    for key in given:
        if key not in _RULES:
            meant = near(key, _RULES, likeness=_NEAR)
            found += [
                f"{key}: unknown parameter; did you mean {name}? Otherwise choose another name"
                for name in meant
            ]
    return found


def _wrong_values(params: Config) -> list[str]:
    """List values outside of the rules; null is allowed for parameters whose text has it."""

    def fits(value: Any, least: float, rule: str) -> bool:
        if value is None:
            return "null" in rule
        # A bool is an int in Python, and refused.
        kinds = int if "whole" in rule else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and value >= least

    return [
        f"{name}: expected {rule}, got {named(params[name])}"
        for name, (_, least, rule) in _RULES.items()
        if not fits(params[name], least, rule)
    ]
