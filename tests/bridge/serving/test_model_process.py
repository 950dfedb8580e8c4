"""Folders of model processes; the processes themselves are tested in tests/serving and, with Flink, in tests/e2e."""

import os
import signal
import subprocess
import sys

import pytest

from bridge.exceptions import ConfigurationError
from bridge.serving.model_process import ModelProcess, ModelSettings

pytestmark = pytest.mark.process

STARTING = """
import sys
from bridge.serving import model_process
def never(operator, python):
    print("unpacks", flush=True)
    sys.stdin.read()
model_process.open_interpreter = never
model_process.ModelProcess(model_process.ModelSettings("TestOp", "killed", "{}", "secret"), "model")
"""


def test_what_a_killed_task_leaves_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    place = tmp_path / f"akdl_models_{os.geteuid()}"
    unusable = ModelSettings("TestOp", "next", "{}", "secret", python="/no/python")
    with subprocess.Popen([sys.executable, "-c", STARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as task:
        try:
            assert task.stdout.readline() == "unpacks\n"
            with pytest.raises(ConfigurationError, match="/no/python"):
                ModelProcess(unusable, "model")
            assert "killed" in os.listdir(place), "it is still at it"
            task.send_signal(signal.SIGKILL)
            task.wait()
            with pytest.raises(ConfigurationError, match="/no/python"):
                ModelProcess(unusable, "model")
            assert "killed" not in os.listdir(place)
        finally:
            task.kill()
