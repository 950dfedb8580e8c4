"""A test of all files and folders that a task will write, before it starts.

A training may run for days until it writes its model. A missing permission, a full folder or a file
in the place of a folder is found in the first second instead.
"""

import os
from typing import List, Optional, Sequence

from akdl.engine.training_saves import latest
from akdl.engine.writable import try_folder
from akdl.keras.callbacks import CheckpointSettings, TensorBoard
from akdl.keras.workers import Group
from akdl.user_code.config_file import Config, ConfigError


def require_targets(task: str, group: Group, mistakes: Sequence[str]) -> None:
    """Fail on all workers for the mistakes that the chief has found; all of them have to call this.

    Only the chief writes, so only its host is tested. The sum keeps the others from waiting for a
    chief that has failed.
    """
    # Only the chief has tested its paths, so it alone has reasons to name.
    own = list(mistakes) if group.is_chief else []
    if group.sum(len(own)):
        raise ConfigError(task, own or ["the chief cannot write to a path of the config; see its log"])


def wrong_train_targets(config: Config, settings: Optional[CheckpointSettings], callbacks: Sequence[object]) -> List[str]:
    """List the paths of a train config that cannot be written, each with its reason."""
    reasons = {}
    if "save_path" in config:
        path = config["save_path"]
        # The model is renamed to this path at the end, which takes a new name or an empty folder.
        taken = os.path.exists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
        reasons[f"save_path: the model cannot be saved to {path}"] = (
            "it exists and is not an empty folder" if taken else try_folder(os.path.dirname(os.path.abspath(path)))
        )
    if settings is not None:
        reasons[f"callbacks: checkpoints cannot be written to {settings.path}"] = reason = try_folder(settings.path)
        last = None if reason else latest(settings.path)
        if last is not None and not settings.resume:
            reasons["callbacks: checkpoint has resume false"] = (
                f"{settings.path} holds checkpoints of another training, up to {os.path.basename(last)}; remove them, choose "
                "another path, or remove resume to continue from them"
            )
    for callback in callbacks:
        # Callbacks of Keras may write anywhere, but only our own say where.
        if isinstance(callback, TensorBoard):
            reasons[f"callbacks: logs cannot be written to {callback.log_dir}"] = try_folder(callback.log_dir)
    return [f"{what}: {reason}" for what, reason in reasons.items() if reason]


def wrong_file(key: str, path: str) -> List[str]:
    """Return a mistake if a file cannot be written; an existing file is replaced."""
    reason = "it is a folder" if os.path.isdir(path) else try_folder(os.path.dirname(os.path.abspath(path)))
    return [f"{key}: {path} cannot be written: {reason}"] if reason else []
