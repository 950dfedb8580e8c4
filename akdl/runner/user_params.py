"""`task_config.user_params`: JSON values that also act as their text.

Alink's batch and training operators pass every parameter to a script as text, and its stream
operators pass JSON types. So scripts contain `user_params["flag"] == "true"` as well as `if
user_params["flag"]`, and both have to work. A number or a boolean is a Python number that also
equals its JSON text, converts to it with `str`, and has the methods of a string:

    user_params["batch_size"] * 2 == 64              user_params["batch_size"] == "32"
    if user_params["flag"]: ...                      user_params["flag"].lower() == "true"

Strings, lists, objects and null are unchanged. `plain` returns all values without text, for checks
such as `isinstance(value, bool)` and `value is True`, which fail for a boolean that is also text.
"""

import json
from typing import Any, Dict, Mapping, Optional


class _WithText:
    """Mixin for numbers that also act as their JSON text."""

    def __eq__(self, other: object) -> Any:
        return other == str(self) if isinstance(other, str) else super().__eq__(other)

    # int and float have a `__ne__` of their own, which would not use `__eq__` above.
    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        # A class with `__eq__` loses its hash, which is that of the number: as a key of a dict it
        # is the number and not its text.
        return super().__hash__()

    def __str__(self) -> str:
        return json.dumps(_plain_value(self))

    def __getattr__(self, name: str) -> Any:
        # numpy and copy probe for such attributes of a number, and a method of the text would
        # mislead them.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(str(self), name)


class Integer(_WithText, int):
    """An integer parameter."""


class Real(_WithText, float):
    """A parameter with a fraction or an exponent."""


class Flag(_WithText, int):
    """A boolean parameter; Python allows no subclass of `bool`."""

    def __repr__(self) -> str:
        return repr(bool(self))

    def __tf_tensor__(self, dtype: object = None, name: Optional[str] = None) -> Any:
        """Become a boolean tensor; an int would become int32."""
        # TensorFlow itself calls this method, so it is installed.
        import tensorflow as tf

        return tf.constant(bool(self), dtype, name=name)


def with_text(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return parameters whose numbers and booleans also act as text.

    Lists and objects are unchanged.
    """
    return {name: _with_text(value) for name, value in params.items()}


def plain(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return parameters, such as `task_config.user_params`, as plain JSON values.

    Numbers and booleans are `bool`, `int` and `float` again.
    """
    return {name: _plain_value(value) for name, value in params.items()}


def _with_text(value: object) -> Any:
    # A bool is an int in Python, so it comes first.
    if isinstance(value, bool):
        return Flag(value)
    if isinstance(value, int):
        return Integer(value)
    return Real(value) if isinstance(value, float) else value


def _plain_value(value: object) -> Any:
    for kind, python in ((Flag, bool), (Integer, int), (Real, float)):
        if isinstance(value, kind):
            return python(value)
    return value
