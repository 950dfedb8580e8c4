"""A real process behind a member: fed, read, failing and stopped, without Flink and TensorFlow."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pyarrow as pa
import pytest

from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import ConfigurationError, TaskError
from bridge.group.addresses import Address
from bridge.host.process import ChildProcess
from bridge.member import script_process
from bridge.member.member import Member, registry
from bridge.member.observer import REPORT_EVERY_S, REPORT_PREFIX
from bridge.member.script_process import launch
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.e2e.jobs import SCRIPTS
from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, is_running, task_processes, wait_until

pytestmark = pytest.mark.process
INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL"), Schema.parse("worker INT, id BIGINT")
BATCH = pa.record_batch([pa.array(range(1000), pa.int64())], names=["id"])

START_S = 4.0 * SLOWER  # time enough for Python to come to a file that blocks, beside other tests


def settings(script: Any, **changes: Any) -> GroupSettings:
    """Settings for a script of the tests, or for a text."""
    if script.endswith(".py"):
        files = tuple(
            UserFile(name, (SCRIPTS / name).read_bytes()) for name in (script, "tfrecords.py")
        )
    else:
        files, script = (UserFile("script.py", script.encode()),), "script.py"
    changes = {"main_script": script, "user_files": files, **changes}
    return GroupSettings(
        operator="TestOp",
        kind="batch",
        num_workers=1,
        num_ps=0,
        input_schema=INPUT,
        output_schema=OUTPUT,
        **changes,
    )


@pytest.fixture
def start() -> Iterator[Callable[..., Member]]:
    members = []

    def start_member(
        script: Any, alive: Callable[..., None] = lambda: None, **changes: Any
    ) -> Member:
        member = Member(settings(script, **changes), "group", 0, 0, alive)
        members.append(member)
        member.set_cluster([Address("127.0.0.1", 1, 2)])
        return member

    yield start_member
    for member in members:
        member.stop()


def decoded(messages: Any) -> list[Any]:
    decoder = ColumnDecoder(OUTPUT, "the script")
    return [
        row
        for message in messages
        for row in zip(*(cells.to_pylist() for cells in decoder.decode(message.take())))
    ]


def test_rows_go_through_a_script(start: Callable[..., Member]) -> None:
    member = start("echo_ids.py")
    rows = decoded(member.feed(BATCH)) + decoded(member.feed(BATCH)) + decoded(member.finish())
    assert sorted(rows) == sorted((0, i) for i in list(range(1000)) * 2)


@pytest.mark.fault("scripts")
def test_a_script_that_only_writes_does_not_block_on_a_full_queue(
    start: Callable[..., Member],
) -> None:
    script = (
        "def main(config):\n"
        "    for start in range(0, 200000, 1000):\n"
        "        config.output_writer.write_batch({'worker': [0] * 1000, 'id': list(range(start, start + 1000))})\n"
        "    assert config.dataset_length == 20000\n"
    )
    member = start(script, queue_bytes=100_000)
    rows = [row for _ in range(20) for row in decoded(member.feed(BATCH))] + decoded(
        member.finish()
    )
    assert [row[1] for row in rows] == list(range(200_000))


@pytest.mark.fault("scripts")
def test_a_script_that_ends_early_is_a_success(start: Callable[..., Member]) -> None:
    member = start("def main(config):\n    pass\n", queue_bytes=10_000)
    for _ in range(50):
        assert decoded(member.feed(BATCH)) == []
    assert decoded(member.finish()) == []


@pytest.mark.fault("jobs", "A process that starts while its job ends is stopped")
def test_a_member_that_is_stopped_during_its_start_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def launch_late(*given: Any) -> ChildProcess:
        child = launch(*given)
        # In a program, another thread stops the groups of a job that has ended.
        registry.stop_groups({"group"})
        return child

    monkeypatch.setattr(script_process, "launch", launch_late)
    member = Member(settings("def main(config):\n    pass\n"), "group", 0, 0, lambda: None)
    assert member._process.child.exit_status is not None
    with pytest.raises(TaskError, match="stopped because its job has ended"):
        list(member.poll())


def test_sys_exit_0_is_a_success(start: Callable[..., Member]) -> None:
    assert decoded(start("import sys\ndef main(config):\n    sys.exit(0)\n").finish()) == []


@pytest.mark.fault(
    "scripts", "Threads that a script leaves delay the end of the job by at most 5 s"
)
def test_threads_left_by_a_script_do_not_delay_the_job(start: Callable[..., Member]) -> None:
    script = "import threading, time\ndef main(config):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n"
    assert decoded(start(script).finish()) == []


@pytest.mark.fault("scripts")
def test_a_failure_has_the_traceback_of_the_script_only(start: Callable[..., Member]) -> None:
    member = start("print('first words')\n\ndef main(config):\n    1 / 0\n")
    with pytest.raises(TaskError) as caught:
        list(member.finish())
    text = str(caught.value)
    assert text.startswith(
        "TestOp, chief 0 (script.py): the script failed: ZeroDivisionError: division by zero\nTraceback"
    )
    assert 'script.py", line 4, in main' in text and "entry.py" not in text
    assert text.endswith("--- last lines of the process ---\nfirst words")


@pytest.mark.fault("scripts", "A script that fails while its rows arrive fails the job")
def test_a_failure_while_rows_are_fed_is_seen_by_the_feeder(start: Callable[..., Member]) -> None:
    member = start("def main(config):\n    raise KeyError('early')\n", queue_bytes=10_000)
    with pytest.raises(TaskError, match="KeyError: 'early'"):
        # the process takes rows until its script has failed, however many these are
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            list(member.feed(BATCH))


@pytest.mark.fault("hosts", "A process that never connects is an error after startTimeout")
def test_process_that_never_connects_is_an_error_after_the_timeout(
    start: Callable[..., Member], tmp_path: pathlib.Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    with pytest.raises(TaskError, match="did not connect within the 0.5 s of startTimeout"):
        list(start("", python=str(python), start_timeout_s=0.5).finish())


def test_start_of_a_process_does_not_count_as_idle(
    start: Callable[..., Member], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a group stands still as soon as its processes have connected, where they start more
    slowly than stallTimeout.
    """
    monkeypatch.setattr("bridge.member.member.HEARTBEAT_S", 0.2)
    python, looks = tmp_path / "python", []
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    member = start("", alive=lambda: looks.append(1), python=str(python))
    wait_until(
        lambda: bool(list(member.poll())) or len(looks) > 2,
        "Flink was asked three times",
    )
    assert member.observer.status.idle_s == 0.0


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> pathlib.Path:
    """A Python environment, without the lines that its creator may have put into it."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "env"],
        check=True,
    )
    (packages,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (packages / "paths.pth").write_text(sysconfig.get_path("purelib"))
    (packages / "blocker.py").write_text("import threading\n\nthreading.Event().wait()\n")
    return packages


@pytest.mark.fault(
    "hosts",
    "A .pth file that blocks the script's Python is named after startTimeout, with the place",
)
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("import blocker", r'/blocker.py", line 3'),
        pytest.param("import time; time.sleep(600)", '"<string>"', marks=pytest.mark.long),
    ],
)
def test_pth_file_that_blocks_python_is_named(
    start: Callable[..., Member], environment: pathlib.Path, line: str, place: str
) -> None:
    (environment / "blocks.pth").write_text(f"{line}\n")
    with pytest.raises(TaskError) as caught:
        list(
            start(
                "", python=str(environment.parents[2] / "bin/python"), start_timeout_s=START_S
            ).finish()
        )
    said = str(caught.value).splitlines()[0]
    assert (
        f"the process did not connect within the {START_S:g} s of startTimeout. It stood at File "
        in said
        and place in said
    )
    assert said.endswith(
        f". Before all other code, this Python runs {environment}/blocks.pth: {line}"
    )


@pytest.mark.fault("hosts", "A .pth file that ends or kills the script's Python is named at once")
@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("import sys; sys.exit(3)", "exited with status 1"),
        ("import os; os._exit(4)", "exited with status 4"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11"),
    ],
)
def test_pth_file_that_ends_python_is_named(
    start: Callable[..., Member], environment: pathlib.Path, line: str, end: str
) -> None:
    (environment / "ends.pth").write_text(f"{line}\n")
    with pytest.raises(
        TaskError,
        match=f"the process {end}.* before it could start the script. Before all other code, ",
    ) as caught:
        list(start("", python=str(environment.parents[2] / "bin/python")).finish())
    assert str(caught.value).splitlines()[0].endswith(f"{environment}/ends.pth: {line}")


@pytest.mark.fault("security", "A user file that would leave its folder is refused")
def test_user_file_that_would_leave_the_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="outside of the work folder"):
        files = (UserFile("../evil.py", b""),)
        Member(
            GroupSettings("TestOp", "batch", 1, 0, INPUT, OUTPUT, "../evil.py", files),
            "group",
            0,
            0,
            lambda: None,
        )


@pytest.mark.fault("jobs", "A process is stopped when Flink no longer answers")
def test_task_that_flink_has_abandoned_is_stopped(
    start: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question to Flink is never answered, as in a local run whose job was cancelled."""
    monkeypatch.setattr(registry, "ABANDONED_S", 0.5)
    asked, hold = threading.Event(), threading.Event()

    def alive() -> None:
        asked.set()
        hold.wait()

    member = start("import time\ndef main(config):\n    time.sleep(600)\n", alive=alive)
    waiting = threading.Thread(
        target=lambda: pytest.raises(TaskError, lambda: list(member.finish()))
    )
    waiting.start()
    # a process that has just started has no command line for a moment, and would not be seen
    assert asked.wait(DEADLINE_S)
    wait_until(lambda: not task_processes(), "the process is gone")
    hold.set()
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()


def test_stop_groups_ends_the_members_of_a_group(start: Callable[..., Member]) -> None:
    member = start("import time\ndef main(config):\n    time.sleep(600)\n")
    wait_until(lambda: len(task_processes()) == 1, "the process runs")
    registry.stop_groups(frozenset({"another"}))
    assert len(task_processes()) == 1
    registry.stop_groups(frozenset({"group"}))
    assert task_processes() == []
    with pytest.raises(TaskError, match="its job has ended"):
        list(member.finish())


PARENT = """
import sys, time
from bridge.group.addresses import Address
from bridge.member.member import Member
from tests.bridge.member.test_member import decoded, settings
script = '''
import signal, subprocess
def main(config):
    config.output_writer.write_batch({"worker": [0], "id": [subprocess.Popen(["sleep", "600"]).pid]})
    config.output_writer.flush()
    signal.pause()
'''
member = Member(settings(script), "group", 0, 0, lambda: None)
member.set_cluster([Address("127.0.0.1", 1, 2)])
rows = []
while not rows:
    rows = decoded(member.poll())
    time.sleep(0.05)
print(member._session.hello.pid, rows[0][1], member._process.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.fault("jobs")
def test_a_process_ends_with_its_parent_even_after_sigkill() -> None:
    """The test starts a parent, the parent starts the process; the parent is killed and can clean
    nothing up.
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        *pids, folder = parent.stdout.readline().split()
        assert (
            len(pids) == 2
            and all(psutil.pid_exists(int(pid)) for pid in pids)
            and os.path.isdir(folder)
        )
        parent.send_signal(signal.SIGKILL)
        parent.wait(DEADLINE_S)
        wait_until(
            lambda: not any(map(is_running, map(int, pids))),
            "the process is gone, and what its script has started",
        )
        wait_until(lambda: not os.path.exists(folder), "its folder is gone")
    finally:
        parent.kill()
        parent.wait()
        parent.stdin.close()
        parent.stdout.close()


@pytest.mark.parametrize("main", ["main.py", "pkg/train.py"])
def test_user_files_import_each_other(start: Callable[..., Member], main: str) -> None:
    """The main script is there under its own name; inside a package, relative imports work."""
    texts = {
        "main.py": "import helper\ndef main(config):\n    import main as me\n    assert me.main is main and helper.me is me\n",
        "helper.py": "import main as me\n",
        "pkg/__init__.py": "",
        "pkg/train.py": "from . import common\nfrom .sub.deep import X\nimport pkg.train, train\ndef main(config): assert X == 1 and train.X == pkg.train.X\n",
        "pkg/common.py": "from .sub import deep\n",
        "pkg/sub/__init__.py": "",
        "pkg/sub/deep.py": "from .. import common\nX = 1\n",
    }  # fmt: skip
    files = tuple(UserFile(path, text.encode()) for path, text in texts.items())
    member = start("", main_script=main, user_files=files)
    assert list(member.finish()) == []


REPORTING = """
import os, time

def main(config):
    assert os.path.isdir(config.checkpoint_dir)
    for step in range(1, 1001):
        config.report(step, loss=1 / step, attempt=config.attempt)
    while not os.path.exists(os.path.join(config.checkpoint_dir, "go on")):
        time.sleep(0.01)
    config.report(1001, loss=0.0)
"""


def test_reports_arrive_while_the_script_runs_and_the_last_one_with_its_end(
    start: Callable[..., Member], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    checkpoints, began = tmp_path / "checkpoints", time.monotonic()
    member = start(REPORTING, checkpoint_dir=str(checkpoints))
    wait_until(lambda: list(member.poll()) or member.report.step == 1000, "the reports are here")
    assert dict(member.report.metrics) == {"loss": 0.001, "attempt": 0}
    (checkpoints / "go on").touch()
    list(member.finish())
    assert (member.report.number, member.report.step, member.report.metrics["loss"]) == (
        1001,
        1001,
        0.0,
    )
    (log,) = tmp_path.glob("akdl-*.log")
    lines = [
        json.loads(line[len(REPORT_PREFIX) :])
        for line in log.read_text().splitlines()
        if line.startswith(REPORT_PREFIX)
    ]
    assert lines[-1] == {
        "member": "chief 0",
        "attempt": 0,
        "step": 1001,
        "metrics": {"attempt": 0, "loss": 0},
    }
    assert len(lines) <= 2 + (time.monotonic() - began) / REPORT_EVERY_S, "of a thousand reports"
