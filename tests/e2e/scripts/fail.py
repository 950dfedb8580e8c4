"""Fails in the way that the user parameters say."""

import os
import signal
import subprocess
import sys
import time

from akdl.wire import Example


def main(task_config):
    way = task_config.user_params["way"]
    print("about to fail:", way)
    if way == "raise":
        nested()
    if way == "exit":
        sys.exit(3)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "column":
        task_config.output_writer.write(example("nonsense", 1))
    if way == "type":
        task_config.output_writer.write(example("x", 1, "float_list"))
    if way == "count":
        task_config.output_writer.write(example("x", 1, values=2))
    if way == "batch type":
        task_config.output_writer.write_batch({"x": [0.5]})
    if way == "hang":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)


def nested():
    raise ValueError("this script does not feel well")


def example(name, value, kind="int64_list", values=1):
    row = Example()
    getattr(row.features.feature[name], kind).value.extend([value] * values)
    return row
