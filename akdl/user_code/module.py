"""Import of a user's module, and its kind.

A module has a `main(task_config)`, `awf_*` callbacks, or the functions of an Estimator.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

MAIN = "main"
KERAS = "keras"
ESTIMATOR = "estimator"

ESTIMATOR_FUNCTIONS = ("model_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn")
NO_MAIN = (
    "{} defines no function `main`{}: the main script needs `def main(task_config)`, or `awf_*`"
    " callbacks of Keras, or the four functions of an Estimator: " + ", ".join(ESTIMATOR_FUNCTIONS)
)

CODE_FOLDERS: set[str] = set()
"""Folders with the code of models in this process."""


class UserModuleError(ValueError):
    """A function of the user's module is missing, or does not fit its arguments."""


class TrainingFailed(RuntimeError):
    """A training with the user's functions ended without a usable model."""


class NotPythonError(UserModuleError):
    """A file cannot be imported as Python."""


def load_module(path: str) -> ModuleType:
    """Import a user's Python file, as `import_file` does.

    Raises:
        UserModuleError: There is no such file, or it has a syntax error; the message has the line.
    """
    path = os.path.abspath(path)
    if not os.path.isfile(path) or not path.endswith(".py"):
        raise UserModuleError(f"expected the user module to be a Python file, got {path}")
    try:
        return import_file(path, os.path.dirname(path))
    except SyntaxError as error:
        text = (error.text or "").strip()
        raise UserModuleError(
            f"{error.filename}, line {error.lineno}: {error.msg}" + (f": {text}" if text else "")
        ) from None


def import_file(path: str, root: str) -> ModuleType:
    """Import a Python file under its own name, with its folder first on the path.

    A file in a package is imported as a part of it, so that its relative imports work. Packages
    above `root` are ignored.
    """
    folder, name = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    package = ""
    # Packages above the root are not the user's: the work folder may be below any folder.
    while folder != root and os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, parent = os.path.split(folder)
        package = parent + ("." + package if package else "")
    # The script imports modules next to it by their plain names, as if Python had started it.
    sys.path.insert(0, folder)
    # The package runs first, because relative imports of the file need it.
    above = importlib.import_module(package) if package else None
    spec = importlib.util.spec_from_file_location(package + "." + name if package else name, path)
    if spec is None or spec.loader is None:
        raise NotPythonError(f"{os.path.basename(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # The module is entered before it runs, as an import does. Otherwise a module that imports it
    # meanwhile would run it a second time. It has both names, because its package imports it by the
    # full one, and modules next to it by the plain one.
    sys.modules[spec.name] = sys.modules[name] = module
    spec.loader.exec_module(module)
    if above is not None:
        # An import statement does this as well.
        setattr(above, name, module)
    return module


def forget_modules(own: str = "") -> None:
    """Forget the modules in all `CODE_FOLDERS` but `own`.

    Python would take modules of the same names from the model before, although the folder of the
    new one is in front of the others.
    """
    folders = tuple(CODE_FOLDERS - {own})
    for name, module in list(sys.modules.items()):
        # A package without a file has only the folders in which it was found.
        place = getattr(module, "__file__", None)
        if not place:
            place = next(iter(getattr(module, "__path__", None) or ()), "")
        if str(place).startswith(folders):
            del sys.modules[name]


def kind_of(module: ModuleType, wanted: str | None = None) -> str:
    """Kind of a main script.

    It is the wanted one, or else `main` if it is defined, or the only one. An Estimator needs at
    least two of its four functions.
    """
    defined = sorted(name for name in vars(module) if callable(getattr(module, name)))
    # The first kind of a module with a `main` is taken, so `main` is the first here.
    kinds = {
        MAIN: [name for name in defined if name == MAIN],
        KERAS: [name for name in defined if name.startswith("awf_")],
        ESTIMATOR: [name for name in ESTIMATOR_FUNCTIONS if name in defined],
    }
    found = {kind: names for kind, names in kinds.items() if len(names) > (kind == ESTIMATOR)}
    where = file_of(module)
    if wanted is None and not found:
        raise UserModuleError(NO_MAIN.format(where, ""))
    listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in found.items())
    if wanted is None and (MAIN in found or len(found) == 1):
        return next(iter(found))
    if wanted is None:
        problem = f"{where} holds functions of several kinds ({listed}): choose one of them"
    elif wanted not in (MAIN, KERAS, ESTIMATOR):
        problem = f"the kind of {where} is {wanted!r}, expected main, keras or estimator"
    elif wanted not in found:
        problem = (
            f"{where} holds no functions of the kind {wanted}; it has"
            f" {listed or 'no functions of any kind'}"
        )
    else:
        return wanted
    raise UserModuleError(f"user parameter 'runner': {problem}")


def file_of(module: object) -> str:
    """Name the file of a module or namespace, for messages."""
    return os.path.basename(
        getattr(module, "__file__", None) or getattr(module, "__name__", None) or "the user module"
    )
