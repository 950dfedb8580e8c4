"""Layers and optimizers as text, such as "Bidirectional(LSTM(8))".

The text is parsed, never evaluated, because it may come from other people.

It is one call of a class of `tf.keras`, with or without its module; arguments are Python literals
or further calls.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

LAYERS, OPTIMIZERS = "layers", "optimizers"

# Longest text in characters: Python's parser may crash the process for deeper trees.
_LONGEST = 10_000
_SHOWN = 200
# A text must not execute code or read files. The first of these layers load functions, and the
# others a vocabulary, which would be a part of the model.
_REFUSED = {"Lambda", "TFSMLayer", "IntegerLookup", "StringLookup", "TextVectorization"}


class LayerTextError(ValueError):
    """The text is not a layer or optimizer."""


class Call(NamedTuple):
    """The name of a class and its arguments, each a literal or another `Call`."""

    name: str
    positional: list[Any]
    named: dict[str, Any]


def parse_call(text: str, module: str = LAYERS) -> Call:
    """Parse a text without TensorFlow, so without a check that the class exists."""
    if len(text) > _LONGEST:
        raise LayerTextError(
            f"{_short(text)}: expected at most {_LONGEST} characters, got {len(text)}"
        )
    try:
        return _call(ast.parse(text.strip(), mode="eval").body, text, module)
    except LayerTextError:
        raise
    # The parser has a limit of its own for nesting, and raises one of these errors at it.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LayerTextError(
            f"{_short(text)}: expected a Python expression: {str(error) or type(error).__name__}"
        ) from None


def make(call: Call, module: str = LAYERS) -> Any:
    """Make the layer or optimizer of a call.

    Raises:
        LayerTextError: `tf.keras` has no such class, or the class refuses the arguments.
    """
    import tensorflow as tf

    names = getattr(tf.keras, module)
    base = tf.keras.layers.Layer if module == LAYERS else tf.keras.optimizers.Optimizer
    kind = getattr(names, call.name, None)
    # `tf.keras.layers` has functions and modules too, which a text must not reach.
    if not (isinstance(kind, type) and issubclass(kind, base)) or call.name in _REFUSED:
        raise LayerTextError(
            f"expected a class of tf.keras.{module} that text can describe, got {call.name!r}"
        )
    positional = [_made(value, module) for value in call.positional]
    named = {name: _made(value, module) for name, value in call.named.items()}
    try:
        return kind(*positional, **named)
    except (TypeError, ValueError) as error:
        raise LayerTextError(
            f"tf.keras.{module}.{call.name} does not take these arguments: {error}"
        ) from error


def _short(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def _made(value: object, module: str) -> Any:
    return make(value, module) if isinstance(value, Call) else value


def _call(node: ast.AST, text: str, module: str) -> Call:
    """Return a node as a call of a class; refuse everything else that Python can write."""
    if not isinstance(node, ast.Call):
        raise LayerTextError(
            f"{_short(text)}: expected a call such as \"Dense(64, activation='relu')\""
        )
    prefixes = (
        "",
        f"{module}.",
        f"keras.{module}.",
        f"tf.keras.{module}.",
        f"tensorflow.keras.{module}.",
    )
    prefix, dot, name = _dotted(node.func, text).rpartition(".")
    if prefix + dot not in prefixes or name.startswith("_"):
        raise LayerTextError(
            f"{_short(text)}: expected a name of tf.keras.{module}, got {prefix}{dot}{name}"
        )
    if any(isinstance(each, ast.Starred) for each in node.args) or any(
        each.arg is None for each in node.keywords
    ):
        raise LayerTextError(f"{_short(text)}: expected literals, got * or **")
    named = {str(each.arg): _value(each.value, text, module) for each in node.keywords}
    return Call(name, [_value(each, text, module) for each in node.args], named)


def _value(node: ast.AST, text: str, module: str) -> Call | Any:
    if isinstance(node, ast.Call):
        return _call(node, text, module)
    try:
        value = ast.literal_eval(node)
        # Keras imports the module that such a dict names.
        if "'module'" not in repr(value):
            return value
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    raise LayerTextError(
        f"{_short(text)}: arguments may be numbers, strings, True, False, None, lists, tuples and"
        f" dicts of them without the key 'module', and calls of tf.keras.{module}"
    )


def _dotted(node: ast.AST, text: str) -> str:
    """Return the name in front of the brackets: `keras.layers.Dense`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, text)}.{node.attr}"
    raise LayerTextError(f"{_short(text)}: expected a name before the brackets")
