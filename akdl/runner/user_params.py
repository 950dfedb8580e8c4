"""`task_config.user_params`: JSON values that also answer as the text that stands for them.

Alink's batch and training operators hand every parameter to a script as text, its stream operators with JSON types. So scripts
hold `user_params["flag"] == "true"` as well as `if user_params["flag"]`, and neither must be silently wrong here. A number
or a boolean is a number of Python that also equals its JSON text, becomes it by `str`, and has the methods of a string:

    user_params["batch_size"] * 2 == 64              user_params["batch_size"] == "32"
    if user_params["flag"]: ...                      user_params["flag"].lower() == "true"

Strings, lists, objects and null are as JSON has them. `plain` gives all of them without text, for checks such as
`isinstance(value, bool)` and `value is True`, which a boolean that is also text cannot pass.
"""

import json
from typing import Any, Dict, Mapping, Optional


class _WithText:
    """Makes a number answer as its JSON text too."""

    def __eq__(self, other: object) -> Any:
        return other == str(self) if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __str__(self) -> str:
        return json.dumps(_plain_value(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # numpy and copy look for such attributes, and must find those of a number
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(str(self), name)


class Integer(_WithText, int):
    """An integer parameter."""


class Real(_WithText, float):
    """A parameter with a fraction or an exponent."""


class Flag(_WithText, int):
    """A boolean parameter; Python allows no class below `bool`."""

    def __repr__(self) -> str:
        return repr(bool(self))

    def __tf_tensor__(self, dtype: Any = None, name: Optional[str] = None) -> Any:
        import tensorflow as tf  # it asks for this method where it makes a tensor, so it is there

        return tf.constant(bool(self), dtype, name=name)


def with_text(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return parameters whose numbers and booleans answer as text too; what lies in lists and objects stays as it is.

    Args:
        params: Name to value, as JSON gives it.
    """
    return {name: _with_text(value) for name, value in params.items()}


def plain(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return parameters as JSON gives them, with `bool`, `int` and `float`.

    Args:
        params: Such as `task_config.user_params`.
    """
    return {name: _plain_value(value) for name, value in params.items()}


def _with_text(value: Any) -> Any:
    if isinstance(value, bool):
        return Flag(value)
    if isinstance(value, int):
        return Integer(value)
    return Real(value) if isinstance(value, float) else value


def _plain_value(value: Any) -> Any:
    for kind, python in ((Flag, bool), (Integer, int), (Real, float)):
        if isinstance(value, kind):
            return python(value)
    return value
