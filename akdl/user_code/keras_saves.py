"""Static check for calls that would lose a model after the training.

Keras 3 refuses `model.save` for a folder, which is what scripts for Keras 2 do at their end. A
script that certainly ends that way is refused when it begins. The check reads the text of the
script only.
"""

from __future__ import annotations

import ast
import os
from typing import Iterator

from akdl.tf_version import KERAS_FILES

# These words stand for Keras 2, or for a save of the script's own. The check then has no evidence.
_OTHER_WAYS = ("tf_keras", "TF_USE_LEGACY_KERAS", "def save(", "def save_model(")
# A call in a branch may be for another Keras, or may never run.
_BRANCHES = (ast.If, ast.IfExp, ast.Try, ast.While)


class LostModel(ValueError):
    """The script would lose its model after the training.

    The message names the line and the remedy.
    """


def prepare_saving(main_script: str, saved_model_dir: str, version: str) -> None:
    """Create the folder for a script that saves a Keras file, before it runs.

    Keras requires the folder of a file.
    """
    with open(main_script, encoding="utf-8", errors="replace") as file:
        source = file.read()
    if saves_file(source):
        # Keras does not make the folder of a file.
        os.makedirs(saved_model_dir, exist_ok=True)
    lost = lost_model(source, os.path.basename(main_script), version)
    if lost:
        raise LostModel(lost)


def lost_model(source: str, name: str, version: str) -> str:
    """Error text for a script that would lose its model after training; "" without evidence."""
    if not version or any(word in source for word in _OTHER_WAYS):
        return ""
    line = next(
        (call.lineno for call in _always_run(ast.parse(source)) if _saves_folder(call)), None
    )
    if line is None:
        return ""
    return (
        f"{name}, line {line}: Keras {version} does not save models to folders, so this call would"
        " fail after training: write model.export(task_config.saved_model_dir), which works since"
        " Keras 2.13"
    )


def saves_file(source: str) -> bool:
    """Test if a script names a Keras file, which can only be written to an existing folder."""
    return any(f"{ending}{quote}" in source for ending in KERAS_FILES for quote in "\"'")


def _always_run(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a script outside of branches, which may be for another Keras."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            yield node
        # Bodies of functions count as run, because the body of `main` is one.
        if not isinstance(node, _BRANCHES):
            yield from _always_run(node)


def _saves_folder(call: ast.Call) -> bool:
    """Test a call for `model.save(saved_model_dir)` or `save_model(model, saved_model_dir)`."""
    # `model.save` is an attribute of an object, and `save_model` may be imported by its plain name.
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    # These are the positions of the folder among the arguments: `save_model` takes the model first.
    place = {"save": 0, "save_model": 1}.get(name)
    folder = None if place is None or len(call.args) <= place else call.args[place]
    return "saved_model_dir" in (getattr(folder, "attr", ""), getattr(folder, "id", ""))
