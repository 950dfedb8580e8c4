"""What a process does when its parent is stopped; that it ends with its parent is tested with real
members.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from akdl.process.parent import take_settings
from tests.support.leftovers import DEADLINE_S

pytestmark = pytest.mark.process

CHILD = """
import os, sys, threading
from akdl.process.parent import kill_stopped_parent
kill_stopped_parent(os.getppid(), 1.0)
print("watches", flush=True)
sys.stdin.read()
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE)
child.wait()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as made:
        assert made.stdout is not None and made.stdout.readline() == "watches\n"
        (child,) = psutil.Process(made.pid).children()
        yield made
        made.kill()
        child.wait(DEADLINE_S)  # its input ends with the parent


@pytest.mark.fault("jobs", "A Python worker that stays stopped is killed by its TensorFlow process")
def test_a_parent_that_stays_stopped_is_killed(parent: subprocess.Popen[str]) -> None:
    parent.send_signal(signal.SIGSTOP)
    assert parent.wait(DEADLINE_S) == -signal.SIGKILL


def test_variables_for_users_stay_and_those_of_the_process_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AKDL_TOKEN", "AKDL_TRACEBACK", "AKDL_TEXT_MB"):
        monkeypatch.setenv(name, "7")
    assert take_settings(os.environ)["AKDL_TOKEN"] == "7"
    assert {"AKDL_TRACEBACK", "AKDL_TEXT_MB"} <= set(os.environ) and "AKDL_TOKEN" not in os.environ
