"""A program with several jobs, whose scripts print what they find; with "stay", it prints the
process that waits, and stays.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
from typing import Any

import psutil

from bridge.member import spare
from operators import MemSourceBatchOp, TensorFlow2BatchOp, useLocalEnv

SCRIPT = """
import sys
found = {"loaded": "tensorflow" in sys.modules}
import os, json
import tensorflow as tf
MORE

def main(task_config):
    params = task_config.user_params
    found["pid"], found["variable"] = os.getpid(), os.getenv("TF_OF_A_TEST")
    globals()["kept"] = open(params["file"], "w")
    kept.write("not flushed")
    for rows in task_config.tf_context.batches(8):
        task_config.output_writer.write(tf.train.Example(features=tf.train.Features(feature={
            "found": tf.train.Feature(bytes_list=tf.train.BytesList(value=[json.dumps(found).encode()]))})))
"""


def run(name: str, more: str = "", **parameters: Any) -> None:
    """Run a job, and print what its script found."""
    pathlib.Path("train.py").write_text(SCRIPT.replace("MORE", more))
    files = ["train.py", *parameters.pop("files", [])]
    op = TensorFlow2BatchOp(
        userFiles=files, mainScriptFile="train.py", numWorkers=1, numPSs=0, outputSchemaStr="found STRING",
        userParams={"file": os.path.abspath("kept.txt")}, **parameters,
    )  # fmt: skip
    cell = MemSourceBatchOp([(1,)], "id INT").link(op).collectToDataframe()["found"][0]
    found = {**json.loads(cell), "file": pathlib.Path("kept.txt").read_text()}
    if name:
        print(json.dumps([name, found]), flush=True)


def waiting() -> spare.SpareProcess:
    """Return the process that waits for the next script."""
    while spare._spare is None:
        time.sleep(0.02)
    return spare._spare


if __name__ == "__main__":
    useLocalEnv(1)
    run("")
    if sys.argv[1:] == ["stay"]:
        print(waiting().child.pid, flush=True)
        signal.pause()
    waiting()
    run("taken")
    waiting()
    run("sets a variable", "os.environ['TF_OF_A_TEST'] = 'x'")
    waiting()
    pathlib.Path("termcolor.py").write_text("whose = 'of the user'\n")
    run(
        "has a module",
        "import termcolor; found['termcolor'] = termcolor.whose",
        files=["termcolor.py"],
    )
    waiting()
    run("wants a variable", envVars=["TF_OF_A_TEST=wanted"])
    waiting()
    run("", envVars=["TF_OF_A_TEST=wanted"])
    psutil.Process(waiting().child.pid).kill()
    waiting().child.wait(60)
    run("killed", envVars=["TF_OF_A_TEST=wanted"])
