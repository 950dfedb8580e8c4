"""The callbacks of the user's module, called with the arguments of a config.

Signatures are compared with the config before anything starts. A TypeError in the middle of a task
would name the runner's own line in place of the key of the config.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Callable, Mapping, Union

from akdl.near_names import did_you_mean
from akdl.user_code.config_file import Config
from akdl.user_code.module import UserModuleError, file_of

# Callback to the config key with its arguments; None if the runner passes them.
CALLBACKS: Mapping[str, str | None] = {
    "awf_create_model_fn": "model_args",
    "awf_create_train_dataset_fn": "train_data_args",
    "awf_create_val_dataset_fn": "val_data_args",
    "awf_create_test_dataset_fn": "test_data_args",
    "awf_create_predict_dataset_fn": "predict_data_args",
    "awf_model_to_save_fn": None,
    "awf_load_model_fn": None,
    "awf_group_trainable_vars_fn": None,
}

Named = Union[str, Config]
"""A name, or an object with `name` and `args`."""

logger = logging.getLogger(__name__)

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallbackError(UserModuleError):
    """A callback of the user's module is missing, or does not take its arguments."""


class ObjectError(ValueError):
    """A config has an unknown name or wrong arguments; the message lists the known ones."""


class UserModule:
    """The user's module: which callbacks it has, and calls of them."""

    def __init__(self, module: object) -> None:
        self.module = module
        self.file = file_of(module)
        for name in sorted(vars(module)):
            if name.startswith("awf_") and name not in CALLBACKS:
                # A misspelled callback would otherwise be ignored: most of them are optional.
                hint = did_you_mean(name, CALLBACKS)
                logger.warning(
                    "%s defines %s%s, an unknown callback, so the runner does not call it",
                    self.file,
                    name,
                    hint,
                )

    def has(self, name: str) -> bool:
        return callable(getattr(self.module, name, None))

    def takes(self, name: str, argument: str) -> bool:
        """Look up an argument in the signature of a callback; False without the callback."""
        return (
            self.has(name) and argument in inspect.signature(getattr(self.module, name)).parameters
        )

    def mistakes(self, name: str, config: Config, injected: Mapping[str, object]) -> list[str]:
        """List the reasons that a callback cannot be called.

        `injected` is passed where its signature has the names.
        """
        key = CALLBACKS[name]
        if not self.has(name):
            return [f"{self.file} has to define {name}"]
        given = config.get(key or "") or {}
        parameters = inspect.signature(getattr(self.module, name)).parameters
        # A function with `**kwargs` takes every argument of the config, but injected values go by
        # name only.
        takes_any = any(one.kind == inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        by_name = {key: one for key, one in parameters.items() if one.kind in _BY_NAME}
        passed = set(given) | {key for key in injected if key in by_name}
        missing = [
            one.name
            for one in by_name.values()
            if one.default is one.empty and one.name not in passed
        ]
        unknown = [] if takes_any else [argument for argument in given if argument not in by_name]
        # The value of the runner would silently replace the value of the config.
        both = [argument for argument in given if argument in injected and argument in by_name]
        what = f"{name}({', '.join(parameters)}) in {self.file}"
        wrong = (
            (missing, "missing ", f" of {what}"),
            (unknown, "unknown argument ", f" for {what}"),
            (both, "", f" of {what} is passed by the runner: remove it"),
        )
        return [
            f"{key}: {before}{', '.join(names)}{after}" for names, before, after in wrong if names
        ]

    def create(self, name: str, config: Config, **injected: object) -> Any:
        """Call a callback with its arguments from the config.

        Args:
            name: One of `CALLBACKS`.
            config: The task config.
            injected: Values of the runner, passed only if the signature has their names.

        Raises:
            CallbackError: The callback is missing, or does not take the arguments.
        """
        mistakes = self.mistakes(name, config, injected)
        if mistakes:
            raise CallbackError("; ".join(mistakes))
        function = getattr(self.module, name)
        # A function without `batch_size` returns single rows, and the runner makes the batches.
        taken = {key: value for key, value in injected.items() if self.takes(name, key)}
        return function(**dict(config.get(CALLBACKS[name] or "") or {}, **taken))

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a callback, or None."""
        return getattr(self.module, name) if self.has(name) else None


def plain_name(name: str) -> str:
    """Return the form in which the spellings of a name agree: early_stopping and EarlyStopping."""
    return name.replace("_", "").lower()


def name_and_args(spec: Named) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a spec, which may be a name alone."""
    return (spec, {}) if isinstance(spec, str) else (spec["name"], dict(spec.get("args", {})))


def make_with(what: str, kind: Callable[..., Any], args: Config) -> Any:
    """Make an object with the arguments of a config.

    Raises:
        ObjectError: It refuses them; the message lists the ones that it takes.
    """
    try:
        return kind(**args)
    except (TypeError, ValueError) as error:
        # A class of Keras may take `**kwargs`, which would say nothing to the user.
        known = ", ".join(
            one for one in inspect.signature(kind).parameters if one not in ("self", "kwargs")
        )
        raise ObjectError(f"{what}: {error}; its arguments are {known}") from error
