"""The user's module: which functions it defines, and calling them by the argument names of a config.

`kind_of` tells what a module is written for: a `main(task_config)`, the `awf_*` callbacks, or the four functions of
an Estimator.
"""

import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional

MAIN = "main"
KERAS = "keras"
ESTIMATOR = "estimator"

# Callback to the config key that its arguments come from; None where the runner passes them.
CALLBACKS: Mapping[str, Optional[str]] = {
    "awf_create_model_fn": "model_args",
    "awf_create_train_dataset_fn": "train_data_args",
    "awf_create_val_dataset_fn": "val_data_args",
    "awf_create_test_dataset_fn": "test_data_args",
    "awf_create_predict_dataset_fn": "predict_data_args",
    "awf_model_to_save_fn": None,
    "awf_load_model_fn": None,
    "awf_group_trainable_vars_fn": None,
}
ESTIMATOR_FUNCTIONS = ("model_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn")

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallbackError(ValueError):
    """A function of the user's module is missing, or does not fit what it is called with."""


def load_module(path: str) -> ModuleType:
    """Import a Python file under its own name, with its folder first on the path.

    Raises:
        CallbackError: There is no such file, or it is no Python file.
    """
    path = os.path.abspath(path)
    name, extension = os.path.splitext(os.path.basename(path))
    if not os.path.isfile(path) or extension != ".py":
        raise CallbackError(f"expected the user module to be a Python file, got {path}")
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def kinds_in(module: ModuleType) -> Dict[str, List[str]]:
    """Return the kinds that a module holds and the functions that say so; an Estimator needs two of its four at least."""
    found = {
        MAIN: _defined(module, [MAIN]),
        KERAS: [name for name in sorted(vars(module)) if name.startswith("awf_") and callable(getattr(module, name))],
        ESTIMATOR: _defined(module, ESTIMATOR_FUNCTIONS),
    }
    return {kind: names for kind, names in found.items() if len(names) > (1 if kind == ESTIMATOR else 0)}


def kind_of(module: ModuleType, wanted: Optional[str] = None) -> str:
    """Return what a module is written for: "main", "keras" or "estimator".

    Args:
        module: The user's module.
        wanted: The kind to take when there are several.

    Raises:
        CallbackError: There is none, or not the wanted one, or several and none is wanted.
    """
    found = kinds_in(module)
    where = _file_of(module)
    listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in found.items())
    if wanted is not None:
        if wanted not in (MAIN, KERAS, ESTIMATOR):
            raise CallbackError(f"the kind of {where} is {wanted!r}, expected main, keras or estimator")
        if wanted not in found:
            raise CallbackError(f"{where} holds no functions of the kind {wanted}; it has {listed or 'none of any kind'}")
        return wanted
    if not found:
        raise CallbackError(
            f"{where} defines neither `main`, nor `awf_*` callbacks, nor the functions of an Estimator: "
            + ", ".join(ESTIMATOR_FUNCTIONS)
        )
    if len(found) > 1:
        raise CallbackError(f"{where} holds functions of several kinds ({listed}): say which one is meant")
    return next(iter(found))


class UserModule:
    """The callbacks of a user's module.

    Args:
        module: The module; a namespace with the functions does as well.

    Raises:
        CallbackError: A function's name starts with `awf_` and is no callback, most likely a typing error.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.file = _file_of(module)
        unknown = [name for name in vars(module) if name.startswith("awf_") and name not in CALLBACKS]
        if unknown:
            raise CallbackError(
                f"{self.file} defines {', '.join(sorted(unknown))}; there is no such callback, known are {', '.join(CALLBACKS)}"
            )

    def has(self, name: str) -> bool:
        """Return whether the module defines a callback."""
        return callable(getattr(self.module, name, None))

    def takes(self, name: str, argument: str) -> bool:
        """Return whether the signature of a callback names an argument; False without the callback."""
        return self.has(name) and argument in inspect.signature(getattr(self.module, name)).parameters

    def mistakes(self, name: str, config: Mapping[str, Any], injected: Mapping[str, Any]) -> List[str]:
        """Return what keeps a callback from being called with the arguments that the config has for it.

        Args:
            name: The callback, one with arguments from a config.
            config: The task config.
            injected: What the runner itself passes, where the signature names it.
        """
        key = CALLBACKS[name]
        if not self.has(name):
            return [f"{self.file} has to define {name}"]
        given = config.get(key or "") or {}
        parameters = inspect.signature(getattr(self.module, name)).parameters
        takes_any = any(one.kind == inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        by_name = {key: one for key, one in parameters.items() if one.kind in _BY_NAME}
        passed = set(given) | {key for key in injected if key in by_name}
        missing = [one.name for one in by_name.values() if one.default is one.empty and one.name not in passed]
        unknown = [] if takes_any else [argument for argument in given if argument not in by_name]
        both = [argument for argument in given if argument in injected and argument in by_name]
        what = f"{name}({', '.join(parameters)}) in {self.file}"
        found = []
        if missing:
            found.append(f"{key}: missing {', '.join(missing)} of {what}")
        if unknown:
            found.append(f"{key}: unknown argument {', '.join(unknown)} for {what}")
        if both:
            found.append(f"{key}: {', '.join(both)} of {what} is passed by the runner, leave it out")
        return found

    def create(self, name: str, config: Mapping[str, Any], **injected: Any) -> Any:
        """Call a callback with the arguments from the config, and those of the runner that its signature names.

        Raises:
            CallbackError: Arguments are missing or unknown; the message names them.
        """
        mistakes = self.mistakes(name, config, injected)
        if mistakes:
            raise CallbackError("; ".join(mistakes))
        function = getattr(self.module, name)
        taken = {key: value for key, value in injected.items() if self.takes(name, key)}
        return function(**dict(config.get(CALLBACKS[name] or "") or {}, **taken))

    def function(self, name: str) -> Optional[Callable[..., Any]]:
        """Return a callback, None when the module does not define it."""
        return getattr(self.module, name) if self.has(name) else None


def _defined(module: ModuleType, names: Any) -> List[str]:
    return [name for name in names if callable(getattr(module, name, None))]


def _file_of(module: Any) -> str:
    return os.path.basename(getattr(module, "__file__", None) or getattr(module, "__name__", None) or "the user module")
