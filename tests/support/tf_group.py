"""Groups of TensorFlow processes on 127.0.0.1, without Flink: one script in every role."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from akdl import testing
from tests.support.deadline import DEADLINE_S
from tests.support.ports import free_ports
from tests.support.warm_python import warm_python

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "e2e" / "scripts"
QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1"}


def run_group(
    folder: Path,
    script: str | Path,
    tables: list[dict[str, Any]],
    types: dict[str, str],
    user_params: dict[str, Any],
    num_servers: int = 0,
    chief_coordinates: bool = False,
    timeout_s: float = 5 * DEADLINE_S,
    checkpoint_dir: Path | None = None,
) -> list[dict[str, Any]]:
    """Run a script in a group with one worker per table and return the rows that the chief wrote.

    The chief has the first table; with `chief_coordinates` it is one more process and has none.
    Workers have to end like the chief does, parameter servers and workers of a coordinator are
    stopped when it has ended.
    """
    shares = [
        write_table(folder / f"share-{index}", table, types) for index, table in enumerate(tables)
    ]
    own = (
        [write_table(folder / "nothing", [], types), *shares] if chief_coordinates else list(shares)
    )
    roles = [("chief", 0), *(("worker", index) for index in range(len(own) - 1))]
    own += [write_table(folder / "nothing", [], types)] * num_servers
    roles += [("ps", index) for index in range(num_servers)]
    cluster: dict[str, list[str]] = {}
    for (role, _), port in zip(roles, free_ports(len(roles))):
        cluster.setdefault(role, []).append(f"127.0.0.1:{port}")
    members = []
    try:
        for (role, index), rows in zip(roles, own):
            work_dir = folder / f"{role}-{index}"
            work_dir.mkdir(parents=True)
            task = {
                "tf_config": {"cluster": cluster, "task": {"type": role, "index": index}},
                "own": rows,
                "shares": shares,
                "types": types,
                "num_workers": len(roles) - num_servers,
                "work_dir": str(work_dir),
                "user_params": user_params,
                "checkpoint_dir": None if checkpoint_dir is None else str(checkpoint_dir),
            }
            members.append(Member(SCRIPTS / script, work_dir, task))
        deadline = time.monotonic() + timeout_s
        must_end = members[:1] if chief_coordinates else members[: len(members) - num_servers]
        for member in must_end:
            member.ends_well(deadline, members)
        return json.loads(members[0].output.read_text(encoding="utf-8"))
    finally:
        for member in members:
            member.kill()


class PythonProcess:
    """A process that trains.

    Args:
        command: What follows `python` on a command line: a script or a module, and their arguments.
        variables: Of its environment, beside those of this process.
        folder: Its current folder.
        log: What it prints.
        python: Its interpreter; None for this one, with TensorFlow imported already.
    """

    def __init__(
        self,
        command: list[str],
        variables: dict[str, str],
        folder: Path,
        log: Path,
        python: str | None = None,
    ) -> None:
        self._log = log
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **QUIET, **variables}
        with open(log, "wb") as out:
            self._process = subprocess.Popen(
                [python or warm_python(), *command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip

    @property
    def returncode(self) -> int | None:
        """The exit status; None until it was asked for."""
        return self._process.returncode

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it, and wait for that."""
        self._process.kill()
        self.wait(DEADLINE_S)

    def wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        self._process.wait(timeout_s)

    def __str__(self) -> str:
        log = self._log.read_text(encoding="utf-8", errors="replace")
        return f"{self._log.parent.name}, status {self.poll()}, last words:\n{log[-6000:]}"

    __repr__ = __str__


class Member(PythonProcess):
    """One process of a group."""

    def __init__(self, script: Path, work_dir: Path, task: dict[str, Any]) -> None:
        self.output = work_dir / "output.json"
        task_file = work_dir / "task.json"
        task_file.write_text(json.dumps(task), encoding="utf-8")
        command = ["-m", "tests.children.group_member", *map(str, (script, task_file, self.output))]
        super().__init__(command, {}, work_dir, work_dir / "log")

    def ends_well(self, deadline: float, group: list[Member]) -> None:
        """Wait until the process has ended well; fail when another one of the group fails first."""
        while self.poll() is None:
            for member in group:
                assert member.poll() in (None, 0), member
            assert time.monotonic() < deadline, f"still running: {self}"
            time.sleep(0.05)
        assert self.returncode == 0, self


def write_table(folder: Path, table: Any, types: dict[str, str]) -> tuple[str, int]:
    """Write a TFRecord file; return its path and number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    task_config = testing.batch_task_config(table, types, str(folder))
    return task_config.dataset_file, task_config.dataset_length
