"""Task configs: read, filled in, and checked before anything starts.

`task_config.schema.json` describes them. The check understands the keywords of JSON Schema that
this file uses, so that no package has to be installed in the environments of users. It needs no
TensorFlow, so a mistake is reported at once.
"""

from __future__ import annotations

import functools
import json
import os
import re
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from akdl.training.user_functions import UserModule, plain_name
from akdl.user_code.config_file import Config, ConfigError, named, read_config

TRAIN, EVALUATE, PREDICT = TASKS = ("train", "evaluate", "predict")
SCHEMA_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "task_config.schema.json")

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}\$")
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


class TrainResult(NamedTuple):
    """Result of a training.

    Args:
        model: The trained model of `awf_create_model_fn`.
        history: The metrics of each epoch, including epochs before a resumption.
        steps: Total number of steps.
        saved: Folder of the SavedModel; None on workers besides the chief, and without `save_path`.
    """

    model: Any
    history: list[dict[str, float]]
    steps: int
    saved: str | None


def prepare(
    task: str,
    config: str | Config,
    placeholders: Mapping[str, str] | None,
    user: UserModule | None = None,
    look: Callable[[Config, Any], list[str]] | None = None,
    injected: Sequence[str] = ("batch_size",),
) -> dict[str, Any]:
    """Return a config, or the config in a file, filled in and checked.

    The callbacks of `user` have to exist and to take the arguments of the config; the runner passes
    the `injected` ones to functions of datasets. `look` returns further mistakes.
    """
    # The mistakes of all checks become one error, so that a user does not meet them one by one.
    mistakes: list[str] = []
    filled: dict[str, Any] = fill_in(
        read_config(config) if isinstance(config, str) else config, placeholders or {}, mistakes
    )
    wrong = check(task, filled)
    mistakes += wrong
    # `look` relies on the types that the schema has checked.
    if look is not None and user is not None and not wrong:
        mistakes += look(filled, user.module)
    if user is not None:
        mistakes += _callback_mistakes(task, filled, user, injected)
    if mistakes:
        raise ConfigError(task, mistakes)
    return filled


def fill_in(value: object, placeholders: Mapping[str, str], mistakes: list[str]) -> Any:
    """Replace `${NAME}$` at any depth.

    Names without a value, here or in the environment, are added to `mistakes`.
    """

    def replace(found: re.Match[str], path: str) -> str:
        """Return the value of a placeholder, or note the mistake and leave the text."""
        name = found.group(1)
        # A value that was given for this task replaces a variable of the environment.
        known = placeholders.get(name, os.environ.get(name))
        if known is None:
            mistakes.append(
                f"{path}: the placeholder ${{{name}}}$ has no value: set it with --set {name}=...,"
                " a user parameter of the operator, or the environment"
            )
            return found.group()
        return str(known)

    return _with_texts(
        value, lambda text, path: _PLACEHOLDER.sub(lambda found: replace(found, path), text)
    )


def placeholders_in(value: object) -> set[str]:
    """Return the names of placeholders at any depth of a config."""
    found: set[str] = set()
    _with_texts(value, lambda text, path: found.update(_PLACEHOLDER.findall(text)))
    return found


def _with_texts(value: Any, change: Callable[[str, str], Any], path: str = "") -> Any:
    """Return a config whose texts at any depth are the results of `change`, which gets
    their paths.
    """
    if isinstance(value, Mapping):
        return {key: _with_texts(one, change, _join(path, key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(one, change, f"{path}[{index}]") for index, one in enumerate(value)]
    return change(value, path) if isinstance(value, str) else value


def check(task: str, config: Any) -> list[str]:
    """List the mistakes of a filled config: of its schema first, then the rules between keys.

    The rules are skipped if the schema finds a mistake, because they rely on the types of values.
    """
    return list(_misfits(config, _definitions()[task], "")) or list(_broken_rules(task, config))


def is_checkpoint(callback: object) -> bool:
    """Recognize the callback `checkpoint`, a name or an object with one, in any spelling."""
    name = callback["name"] if isinstance(callback, Mapping) else callback
    return plain_name(str(name)) == "checkpoint"


def _broken_rules(task: str, config: Config) -> Iterator[str]:
    if task == TRAIN:
        callbacks = config.get("callbacks", [])
        places = [index for index, one in enumerate(callbacks) if is_checkpoint(one)]
        yield from (
            f"callbacks[{index}]: expected one checkpoint callback, got another: remove it"
            for index in places[1:]
        )
        return
    if task == EVALUATE and not (config.get("metrics") or config.get("weighted_metrics")):
        yield "metrics: missing; set metrics, weighted_metrics or both"
    if task == PREDICT and ("model" in config) == ("models" in config):
        yield "model: expected either model or models"
    names = [model["name"] for model in config.get("models", [])]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"models: expected different names, got {name} more than once"


def _callback_mistakes(
    task: str, config: Config, user: UserModule, injected: Sequence[str]
) -> list[str]:
    """List the reasons that the user's functions cannot be called with this config."""
    needed = {
        TRAIN: ["awf_create_model_fn", "awf_create_train_dataset_fn"],
        EVALUATE: ["awf_create_test_dataset_fn"],
        PREDICT: ["awf_create_predict_dataset_fn"],
    }[task]
    if task == TRAIN and user.has("awf_create_val_dataset_fn"):
        needed.append("awf_create_val_dataset_fn")
    mistakes = [
        one for name in needed for one in user.mistakes(name, config, dict.fromkeys(injected))
    ]
    if task == TRAIN:
        several = isinstance(config.get("optimizer"), list) and len(config["optimizer"]) > 1
        if several and not user.has("awf_group_trainable_vars_fn"):
            mistakes.append(
                f"optimizer: several optimizers need awf_group_trainable_vars_fn, which {user.file}"
                " does not define"
            )
        if not several and user.has("awf_group_trainable_vars_fn"):
            mistakes.append(
                f"optimizer: {user.file} defines awf_group_trainable_vars_fn: expected a list with"
                " an optimizer for each group"
            )
    return mistakes


def _misfits(value: Any, schema: Config, path: str) -> Iterator[str]:
    """Yield the mistakes of a value, each with the path of the value in the config.

    These are the keywords of JSON Schema that our file uses.
    """
    here, kinds = path or "the config", _branches(schema)
    fitting = [one for one in kinds if _is(value, one.get("type"))]
    # Of several schemas the intended one is the first whose type and required keys fit. The sort is
    # stable, and False comes before True.
    fitting.sort(
        key=lambda one: isinstance(value, dict) and not set(one.get("required", [])) <= set(value)
    )
    if not fitting:
        wanted = dict.fromkeys(
            ("an " if one["type"][0] in "aeiou" else "a ") + one["type"] for one in kinds
        )
        yield f"{here}: expected {' or '.join(wanted)}, got {named(value)}"
        return
    schema = fitting[0]
    if "enum" in schema and value not in schema["enum"]:
        yield f"{here}: expected one of {', '.join(map(str, schema['enum']))}, got {value!r}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{here}: expected {schema['minimum']} or more, got {value}"
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key in schema.get("required", []):
            if key not in value:
                yield f"{_join(path, key)}: missing"
        for key, one in value.items():
            if key in known or isinstance(more, dict):
                yield from _misfits(one, known.get(key, more), _join(path, key))
            elif more is False:
                yield f"{_join(path, key)}: unknown key; known are {', '.join(known)}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{here}: expected {schema['minItems']} or more entries, got {len(value)}"
        for index, one in enumerate(value):
            yield from _misfits(one, schema.get("items", {}), f"{path}[{index}]")


def _branches(schema: Config) -> list[Config]:
    """Return the schemas of which a value has to fit one, without references."""
    if "$ref" in schema:
        return _branches(_definitions()[schema["$ref"].rpartition("/")[2]])
    return (
        [one for branch in schema["anyOf"] for one in _branches(branch)]
        if "anyOf" in schema
        else [schema]
    )


@functools.lru_cache(maxsize=None)
def _definitions() -> dict[str, Any]:
    with open(SCHEMA_FILE, encoding="utf-8") as file:
        return dict(json.load(file)["definitions"])


def _is(value: object, kind: str | None) -> bool:
    # A bool is an int in Python, but not a number in JSON.
    if kind is None or isinstance(value, bool):
        return kind in (None, "boolean")
    return isinstance(value, _TYPES[kind])


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
