"""Configs as JSON files: reading one, setting a value from the command line, and the error that lists all mistakes."""

import json
import os
from typing import Any, Dict, MutableMapping, Sequence


class ConfigError(ValueError):
    """A config cannot be used.

    Attributes:
        mistakes: All that is wrong, each with its path in the config.
    """

    def __init__(self, task: str, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("the {} config has {}:\n{}".format(task, _count(mistakes), "\n".join(f"- {one}" for one in mistakes)))


def read_config(path: str) -> Dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ConfigError: It is no JSON, or no object; the message has the line.
    """
    try:
        with open(path, encoding="utf-8") as file:
            config = json.loads(file.read())
    except json.JSONDecodeError as error:
        raise ConfigError(os.path.basename(path), [f"line {error.lineno}, column {error.colno}: {error.msg}"]) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(os.path.basename(path), [f"expected JSON as UTF-8: {error}"]) from None
    if not isinstance(config, dict):
        raise ConfigError(os.path.basename(path), [f"expected an object, got {named(config)}"])
    return config


def set_value(config: MutableMapping[str, Any], path: str, text: str) -> None:
    """Set a value in a config; `path` is like `optimizer.args.learning_rate` or `models.0.path`, `text` JSON or plain text.

    Raises:
        ConfigError: The path goes through something that is neither an object nor a list with that number.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    parts = path.split(".")
    place: Any = config
    for part in parts[:-1]:
        if isinstance(place, dict):
            place = place.setdefault(part, {})
        elif isinstance(place, list) and part.isdigit() and int(part) < len(place):
            place = place[int(part)]
        else:
            break
    last = parts[-1]
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and last.isdigit() and int(last) < len(place):
        place[int(last)] = value
    else:
        raise ConfigError("given", [f"{path} cannot be set: {named(place)} has no {last!r}"])


def named(value: Any) -> str:
    """Return a JSON value for a message; objects and lists by their kind."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value)


def _count(mistakes: Sequence[str]) -> str:
    return "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
