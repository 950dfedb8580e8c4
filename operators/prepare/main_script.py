"""Checks of a main script from its source, before a job starts; it is not imported.

Importing would run the script's code in the user's program, which may lack TensorFlow. The checks
therefore refuse only what the source shows with certainty. A script that makes names at run time
passes.
"""

from __future__ import annotations

import ast
import os
import re
import symtable
from collections.abc import Sequence

from akdl.near_names import did_you_mean, near
from akdl.process.preflight import installed
from akdl.tf_version import NO_GROUP_OF_KERAS_3, keras_3
from akdl.user_code.module import ESTIMATOR_FUNCTIONS, MAIN, NO_MAIN
from bridge.exceptions import ConfigurationError
from bridge.settings import UserFile

# With these a module makes names that its source does not show.
_MAKES_NAMES = {
    "exec",
    "eval",
    "globals",
    "locals",
    "setattr",
    "vars",
    "__dict__",
    "__getattr__",
    "modules",
}

# A script with one of these words may coordinate its workers. A script without any trains one model
# in each worker, of which only the chief's is kept, and the user is warned at the end.
_TOGETHER = re.compile(
    rb"(?i)strategy|distribute|horovod|sync_optimizer|train_and_evaluate|TF_CONFIG|task_type|task_index|num_workers|\bcluster\b|akdl\.engine"
)
# A script with one of these imports needs an Estimator. `dnn` needs it only in a group, because
# Keras trains a DNN alone but not in a group.
_ESTIMATOR = re.compile(rb"(?m)^(?:from|import) akdl\.(estimator|models\.tf\.dnn)\b")
_IN_STEP = re.compile(rb"\b(?:train_estimator|generate_run_config|train_and_evaluate)\b")
# A script that contains one of these chooses by version or handles the missing Estimator, so it may
# train in another way.
_CHOOSES = re.compile(rb"tf_version\(|__version__|EstimatorMissing|hasattr|\bexcept\b")


def check_main(operator: str, origin: str, source: bytes, size: int) -> bool:
    """Refuse a main script with nothing to run; True where it needs `tf.estimator` in a group of
    this size.
    """
    names = names_of(source)
    if names is None or MAIN in names or any(name.startswith("awf_") for name in names):
        found = None if _CHOOSES.search(source) else _ESTIMATOR.search(source)
        return found is not None and (size > 1 or found[1] == b"estimator")
    # One name alone may be a coincidence, such as `model_fn` in a script that forgot its `main`.
    if len(names & set(ESTIMATOR_FUNCTIONS)) > 1:
        return True
    close = near(MAIN, names)
    hint = f" (is it {close[0]!r}?)" if close else ""
    raise ConfigurationError(f"{operator}: {NO_MAIN.format(origin, hint)}")


def estimator_in_step(source: bytes) -> bool:
    """True where a script shows that it trains an Estimator, whose workers are in step without
    parameter servers.
    """
    return _IN_STEP.search(source) is not None


def check_group(operator: str, source: bytes, env_vars: Sequence[str]) -> None:
    """Refuse a group under TensorFlow's strategies where this program's Keras cannot train it."""
    environment = {**os.environ, **dict(each.split("=", 1) for each in env_vars if "=" in each)}
    # The variables of the script count too, because TF_USE_LEGACY_KERAS decides which Keras it
    # gets.
    if keras_3(installed("keras"), environment) and {"choose_strategy", "train_keras_model"} <= (
        names_of(source) or set()
    ):
        raise ConfigurationError(f"{operator}: {NO_GROUP_OF_KERAS_3}")


def check_defines(operator: str, origin: str, source: bytes, function: str) -> None:
    """Refuse a `predictFn` whose file defines no function of that name.

    A file that makes names at run time passes, because its source does not show them.
    """
    names = names_of(source)
    if names is not None and function not in names:
        hint = did_you_mean(function, sorted(names))
        raise ConfigurationError(
            f"{operator}: predictFn: {origin} defines no function {function!r}{hint}"
        )


def trains_apart(files: Sequence[UserFile], main_script: str) -> bool:
    """True where a script with a `main` shows no sign that its workers train together or know of
    each other.
    """
    sources = {file.path: file.content for file in files if file.path.endswith(".py")}
    names = names_of(sources.get(main_script, b""))
    return (
        names is not None
        and MAIN in names
        and not any(_TOGETHER.search(source) for source in sources.values())
    )


def names_of(source: bytes) -> set[str] | None:
    """Names that a module defines, also inside `if` and loops; None where its source does not show
    all of them.
    """
    nodes = list(ast.walk(ast.parse(source)))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    if "*" in imported or any(
        getattr(node, "id", getattr(node, "attr", None)) in _MAKES_NAMES for node in nodes
    ):
        return None
    # `symtable` accepts bytes too, and honors the encoding that they declare. Only its stub asks
    # for a text.
    symbols = symtable.symtable(source, "script", "exec").get_symbols()  # type: ignore[arg-type]
    names = {
        each.get_name()
        for each in symbols
        if each.is_assigned() or each.is_imported() or each.is_namespace()
    }
    # A function may assign to a name of the module.
    return names | {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
