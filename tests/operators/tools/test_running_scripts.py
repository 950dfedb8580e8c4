"""What `akdl top` and `akdl stacks` say of running scripts."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.exceptions import BridgeError
from bridge.group.addresses import Address
from bridge.host.process import NOT_REACHED
from bridge.host.work_folder import PRIVATE_FOLDER, STACKS_FILE
from bridge.member.member import Member
from bridge.member.status import STARTING, SUFFIX, TRAINING
from bridge.settings import GroupSettings, UserFile
from operators.flink.rest import Rest
from operators.tools import running_scripts
from operators.tools.running_scripts import Cluster, doing, stacks, top
from tests.bridge.member.test_script_faults import INPUT, OUTPUT, SCRIPTS
from tests.support.http import served
from tests.support.leftovers import wait_until
from tests.support.statuses import status_of


def _member(index: int, rows: int, idle_s: float, **known: object) -> MemberStatus:
    label = f"worker {index}" if index else "chief 0"
    return status_of(
        "g", index, label, **{"phase": TRAINING, "rows_read": rows, "idle_s": idle_s, **known}
    )


def test_doing_says_which_member_waits_for_which() -> None:
    still = [_member(0, 20, 8.0), _member(1, 10, 9.0, spinning=True), _member(2, 20, 8.0)]
    assert [doing(each, still) for each in still] == [
        "no progress for 8 s, waits for worker 1",
        "no progress for 9 s, uses the processor",
        "no progress for 8 s, waits for worker 1",
    ]
    one_works = [_member(0, 20, 8.0), _member(1, 10, 0.4)]
    assert [doing(each, one_works) for each in one_works] == [
        "no progress for 8 s, waits for worker 1",
        "",
    ]
    one_starts = [_member(0, 20, 8.0), _member(1, 0, 8.0, phase=STARTING)]
    assert [doing(each, one_starts) for each in one_starts] == [
        "no progress for 8 s, waits for worker 1",
        "starts",
    ]
    assert doing(_member(0, 20, 8.0, waiting=True), still) == "waits for rows"


@pytest.fixture
def hanging() -> Iterator[Member]:
    user_file = UserFile("faults.py", SCRIPTS.read_bytes())
    settings = GroupSettings(
        operator="TestOp", kind="batch", num_workers=1, num_ps=0, input_schema=INPUT, output_schema=OUTPUT,
        main_script="faults.py", user_files=(user_file,), user_params='{"fault": "waits_for_two_locks"}',
    )  # fmt: skip
    member = Member(settings, "group", 0, 0, lambda: None)
    member.set_cluster([Address("127.0.0.1", 1, 2)])

    def finish() -> None:
        with contextlib.suppress(BridgeError):
            list(member.finish())

    thread = threading.Thread(target=finish)
    thread.start()
    yield member
    member.stop()
    thread.join()


@pytest.mark.process
@pytest.mark.fault(
    "scripts",
    "`akdl top` and `akdl stacks` show where a script stands that makes no progress, from any shell",
)
def test_top_and_stacks_show_a_script_of_this_host(
    hanging: Member, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_scripts, "_STILL_S", 1.0)

    def shown() -> str:
        return capsys.readouterr().out if top([str(os.getpid())]) == 0 else ""

    wait_until(lambda: "no progress for" in shown(), "the script stands still")
    text = shown()
    assert "TestOp, faults.py" in text and "chief 0" in text and "MB" in text
    assert stacks([str(os.getpid())]) == 0
    text = capsys.readouterr().out
    assert "--- TestOp, faults.py, chief 0: " in text
    assert "Thread MainThread:\n" in text and "in waits_for_two_locks" in text


@pytest.mark.process
@pytest.mark.fault("scripts", "`akdl stacks` does no harm to a process that is starting or ending")
def test_stacks_of_a_script_from_its_start_to_its_end_need_no_signal(
    hanging: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> str:
        stacks([str(os.getpid())])
        return capsys.readouterr().out

    wait_until(lambda: "in waits_for_two_locks" in shown(), "the script runs")
    # faulthandler writes into this file at a signal.
    assert pathlib.Path(hanging._process.private_folder, STACKS_FILE).read_text() == ""


@pytest.mark.process
def test_stacks_of_a_process_are_those_of_its_last_report(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / PRIVATE_FOLDER).mkdir()
    with subprocess.Popen(["sleep", "600"], env={"AKDL_WORK_DIR": str(tmp_path)}) as process:
        try:
            for stack, shown in (("", NOT_REACHED), ("Thread MainThread:\n", "Thread MainThread:")):
                status = _member(0, 0, 0.0, operator="TestOp, train.py", stack=stack)
                path = tmp_path / PRIVATE_FOLDER / f"akdl-g{SUFFIX}"
                path.write_bytes(status.SerializeToString())
                assert stacks([str(os.getpid()), "train.py"]) == 0
                header = "--- TestOp, train.py, chief 0: training ---"
                assert capsys.readouterr().out == f"{header}\n{shown}\n"
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("job", "message"),
    [("", "no script runs in"), ("999999999", "PID not found"), ("localhost:1", "localhost:1")],
)
def test_top_says_why_there_is_nothing_to_show(
    job: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top([job or str(os.getpid())]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.process
def test_a_script_of_a_program_has_a_name(
    hanging: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_until(
        lambda: stacks([str(os.getpid()), "scripts/faults.py"]) == 0,
        "the script is found by its name",
    )
    capsys.readouterr()
    assert top([str(os.getpid()), "train.py"]) == 1
    assert f"no script 'train.py' runs in {os.getpid()}. " in capsys.readouterr().err


class _Answers(Rest):
    """A cluster with one job, whose name is not that of its script."""

    def __init__(self, statuses: list[MemberStatus]) -> None:
        super().__init__("nowhere:1")
        self._statuses = statuses

    def get(self, path: str) -> Any:
        names = [f"akdl-{each.group}-{each.label}-{each.attempt}.status" for each in self._statuses]
        return {
            "/jobs/overview": {"jobs": [{"jid": "7", "name": "collect", "state": "RUNNING"}]},
            "/jobs/7": {"plan": {"nodes": [{"description": "train.py, group g"}]}},
            "/taskmanagers": {"taskmanagers": [{"id": "tm"}]},
            "/taskmanagers/tm/logs": {"logs": [{"name": name, "mtime": 1} for name in names]},
        }[path]

    def content(self, path: str, method: str = "GET") -> bytes:
        (found,) = (
            each
            for each in self._statuses
            if path.endswith(f"{each.group}-{each.label}-{each.attempt}.status")
        )
        return found.SerializeToString()


def _in_script(group: str, index: int, attempt: int = 0, script: str = "train.py") -> MemberStatus:
    return status_of(
        group,
        index,
        f"worker{index}",
        attempt=attempt,
        operator=f"TestOp, {script}",
        phase=TRAINING,
    )


def test_a_script_of_a_cluster_is_found_in_a_job_with_another_name() -> None:
    cluster = _Answers(
        [
            _in_script("g", 0),
            _in_script("g", 1, script="other.py"),
            _in_script("of_an_earlier_job", 0),
        ]
    )
    assert [each.index for each in Cluster(cluster, "train.py").read()] == [0]
    assert [each.index for each in Cluster(cluster, "collect").read()] == [0, 1]
    assert [each.group for each in Cluster(cluster, None).read()] == ["g", "g"]


def test_a_killed_worker_of_an_earlier_attempt_is_not_shown() -> None:
    cluster = _Answers(
        [_in_script("g", 1, attempt=1), _in_script("g", 1), _in_script("g", 0, attempt=1)]
    )
    assert sorted((each.index, each.attempt) for each in Cluster(cluster, None).read()) == [
        (0, 1),
        (1, 1),
    ]


@pytest.mark.process
def test_the_password_of_a_cluster_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    login = "Basic " + base64.b64encode(b"me:p@ss/w").decode()
    files = {"/jobs/overview": b'{"jobs": []}', "/taskmanagers": b'{"taskmanagers": []}'}
    with served(files=files, login=login) as site:
        monkeypatch.setattr("sys.stdin", io.StringIO("p@ss/w\n"))
        assert stacks([site.url.replace("http://", "http://me@")]) == 1
    error = capsys.readouterr().err
    assert "Running jobs: none" in error and "p@ss" not in error and "p%40ss" not in error


def test_stacks_refuses_a_password_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        stacks(["https://user:secret@flink.example.com"])
    assert "secret" not in capsys.readouterr().err
