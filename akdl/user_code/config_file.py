"""JSON config files of users.

They are read, changed by values from the command line, and all mistakes are one error.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, MutableMapping, Sequence

Config = Mapping[str, Any]


class ConfigError(ValueError):
    """A config is invalid; `mistakes` lists each fault with its path."""

    def __init__(self, task: str, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        # One error has all mistakes, so that a user does not meet them one by one.
        super().__init__(
            "\n".join([f"the {task} config has {count}:", *(f"- {one}" for one in mistakes)])
        )


def read_config(path: str) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        ConfigError: The file is missing, not readable, not JSON, not UTF-8, nested too deeply, or
            not an object.
    """
    name = os.path.basename(path)
    try:
        with open(path, encoding="utf-8") as file:
            return parse_config(name, file.read())
    except FileNotFoundError:
        raise ConfigError(name, [f"there is no file {path}"]) from None
    except OSError as error:
        raise ConfigError(name, [f"{path} cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(name, [f"expected JSON as UTF-8: {error}"]) from None


def parse_config(name: str, text: str, key: str = "") -> dict[str, Any]:
    """Read a JSON object from a text; messages begin with `key`."""
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            name, [f"{key}line {error.lineno}, column {error.colno}: {error.msg}"]
        ) from error
    # A text that is nested some thousand times overflows the stack of the parser.
    except RecursionError as error:
        raise ConfigError(name, [f"{key}expected JSON as UTF-8: {error}"]) from None
    if not isinstance(config, dict):
        raise ConfigError(name, [f"{key}expected an object, got {named(config)}"])
    return config


def set_value(config: MutableMapping[str, Any], path: str, text: str) -> None:
    """Set a value at a path like `optimizer.args.learning_rate` or `models.0.path`.

    `text` is JSON or plain text.
    """
    try:
        # Text that is not JSON is taken as it is, since a shell removes the quotes of a JSON text.
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    parts = path.split(".")
    place = config
    for part in parts[:-1]:
        if isinstance(place, dict):
            # An object that the file lacks is made, so that its first key can be set.
            place = place.setdefault(part, {})
        elif isinstance(place, list) and part.isdigit() and int(part) < len(place):
            place = place[int(part)]
        else:
            raise _without_place(path, place, part)
    last = parts[-1]
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and last.isdigit() and int(last) < len(place):
        place[int(last)] = value
    else:
        raise _without_place(path, place, last)


def _without_place(path: str, place: object, part: str) -> ConfigError:
    return ConfigError("given", [f"{path} cannot be set: {named(place)} has no {part!r}"])


def named(value: object) -> str:
    """JSON value for a message; objects and lists by their kind."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    # JSON has true and null where Python's text has True and None, and the user wrote JSON.
    return json.dumps(value)
