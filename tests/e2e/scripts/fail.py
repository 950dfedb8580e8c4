"""Fails in the way that the user parameters say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from akdl.runner.config import BatchTaskConfig
from akdl.wire import Example


def main(task_config: BatchTaskConfig) -> None:
    way = task_config.user_params["way"]
    print("about to fail:", way)
    if way == "raise":
        nested()
    if way == "exit":
        sys.exit(3)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "column":
        row = Example()
        row.features.feature["nonsense"].int64_list.value.append(1)
        task_config.output_writer.write(row)
    if way == "hang":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)


def nested() -> None:
    raise ValueError("this script does not feel well")
