from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.leftovers import wait_until

BUSY_S = 0.5
BUSY = f"import time\nwhile time.process_time() < {BUSY_S}: pass\n"


@pytest.fixture
def processes(benchmark_module: Callable[[str], Any]) -> Any:
    return benchmark_module("processes")


@pytest.mark.process
def test_the_seconds_of_a_child_that_has_ended_count(processes: Any) -> None:
    before = processes.processor_seconds()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    after = processes.processor_seconds()
    assert BUSY_S - 0.1 <= after["tensorflow"] - before.get("tensorflow", 0.0) <= BUSY_S + 1


def test_own_seconds_and_those_in_the_kernel_count(processes: Any) -> None:
    before, end = processes.processor_seconds(), time.process_time() + BUSY_S
    while time.process_time() < end:
        pass
    after = processes.processor_seconds()
    assert BUSY_S - 0.1 <= after["driver"] - before["driver"]
    assert 0 <= after["driver, kernel"] <= after["driver"]
    assert processes.all_processes(after) >= after["driver"]


@pytest.mark.process
def test_processes_are_known_by_their_kinds(processes: Any, tmp_path: pathlib.Path) -> None:
    java = tmp_path / "java"
    java.symlink_to("/bin/sleep")
    commands = [
        [str(java), "60"],
        [sys.executable, "-c", "import time; time.sleep(60)", "akdl.entry"],
        ["sleep", "60"],
    ]
    children = [subprocess.Popen(command) for command in commands]

    def seen() -> list[str | None]:
        kinds = {process.pid: kind for kind, process in processes.processes()}
        return [kinds.get(child.pid) for child in children]

    try:
        # A process that has just started has no command line for a moment.
        wait_until(lambda: seen() == ["jvm", "tensorflow", None], "they are told apart")
        assert set(processes.resident_mb()) == set(processes.KINDS)
        assert processes.peak_mb(children[1].pid) > 1
    finally:
        for child in children:
            child.kill()
            child.wait()
