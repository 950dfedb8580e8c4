"""Jobs that fail, one after the other in one program: what each of them held is given back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT
from tests.support.tf_group import ROOT

pytestmark = [pytest.mark.flink, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.own_processes
def test_nine_failing_jobs_leave_no_threads_descriptors_and_folders() -> None:
    """A leak of one thread or descriptor by each job shows after six jobs; `make soak` looks for
    slow growth of memory.
    """
    command = [
        str(ROOT / "scripts" / "soak.py"),
        "--jobs",
        "9",
        "--warm-up",
        "3",
        "--ways",
        "raises",
        "exits",
        "killed",
    ]
    # the script sets what it measures with
    own = {name: value for name, value in ENVIRONMENT.items() if name != "JVM_ARGS"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=own,
        capture_output=True,
        text=True,
        timeout=18 * DEADLINE_S,
    )
    assert done.returncode == 0 and "nothing grew" in done.stdout, (
        done.stdout[-5000:] + done.stderr[-5000:]
    )
