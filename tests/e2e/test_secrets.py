"""Passwords that a job is given stay with its process: nothing that others can look at shows them."""

from __future__ import annotations

import logging
import pathlib
import threading

import psutil
import pytest

from operators import BatchOperator, TensorFlow2BatchOp, getMLEnv, useLocalEnv
from tests.e2e.jobs import sequence
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.flink

SECRETS = {name: f"hunter2-{name}" for name in ("variable", "address", "parameter")}
SCRIPT = """
import os, pathlib, time

def main(config):
    assert os.environ["DB_PASSWORD"] == "hunter2-variable" and config.user_params["password"] == "hunter2-parameter"
    assert config.checkpoint_dir == "s3://me:hunter2-address@bucket/models"
    pathlib.Path("{folder}/begun").touch()
    while not os.path.exists("{folder}/seen"):
        time.sleep(0.05)
    raise ValueError("it fails")
"""


def command_lines() -> str:
    """Return the command lines of this program and of all that it has started."""
    found = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(found)


def test_secrets_of_a_job_that_fails_show_nowhere(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    useLocalEnv(1)
    script = tmp_path / "main.py"
    script.write_text(SCRIPT.replace("{folder}", str(tmp_path)))
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="x INT", numWorkers=1, numPSs=0,
        envVars=["DB_PASSWORD=hunter2-variable"], checkpointDir="s3://me:hunter2-address@bucket/models",
        userParams={"password": "hunter2-parameter"},
    )  # fmt: skip
    result = sequence(getMLEnv().btenv, 10).link(op)
    errors: list[str] = []

    def run() -> None:
        try:
            BatchOperator.collectToDataframe(result)
        except Exception as error:
            errors.append(f"{error!r} {error.__cause__!r}")

    with caplog.at_level(logging.DEBUG):
        job = threading.Thread(target=run)
        job.start()
        wait_until((tmp_path / "begun").exists, "the script runs")
        commands = command_lines()
        (tmp_path / "seen").touch()
        job.join()
    assert "it fails" in errors[0] and "akdl.entry" in commands
    shown = {
        "errors": errors[0], "log": caplog.text, "command lines": commands, "plan": result.getOutputTable().explain(),
        "description": repr(op),
    }  # fmt: skip
    for place, text in shown.items():
        for secret in SECRETS.values():
            assert secret not in text, f"{secret} in {place}"
