"""Makes the file that the user parameter `marker` names, and waits until it is ended."""

from __future__ import annotations

import pathlib
import threading

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    pathlib.Path(task_config.user_params["marker"]).touch()
    threading.Event().wait()
