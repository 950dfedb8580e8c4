"""What a script may do to its process, and what becomes of it: an error in words or a success, and
nothing left.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import TaskError
from bridge.group.addresses import Address
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

pytestmark = pytest.mark.process
SCRIPTS = pathlib.Path(__file__).with_name("scripts") / "faults.py"
INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL"), Schema.parse("id BIGINT")
BATCH = pa.record_batch([pa.array(range(1000), pa.int64())], names=["id"])
Start = Callable[..., Member]


@pytest.fixture
def start() -> Iterator[Start]:
    members = []

    def start_member(fault: str, **changes: Any) -> Member:
        """Start the process of a function in scripts/faults.py."""
        changes = {"kind": "batch", "user_params": f'{{"fault": "{fault}"}}', **changes}
        settings = GroupSettings(
            operator="TestOp", num_workers=1, num_ps=0, input_schema=INPUT, output_schema=OUTPUT, main_script="faults.py",
            user_files=(UserFile("faults.py", SCRIPTS.read_bytes()),), **changes
        )  # fmt: skip
        member = Member(settings, "group", 0, 0, lambda: None)
        members.append(member)
        member.set_cluster([Address("127.0.0.1", 1, 2)])
        return member

    yield start_member
    for member in members:
        member.stop()


def ids(member: Member) -> list[int]:
    """Feed a batch, and return what the script writes."""
    decoder = ColumnDecoder(OUTPUT, "the script")
    messages = [*member.feed(BATCH), *member.finish()]
    return [cell for message in messages for cell in decoder.decode(message.take())[0].to_pylist()]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("exits_at_once", "the process exited with status 7 before the script had ended"),
        (
            "crashes",
            r"(?s)killed by signal 11 \(SIGSEGV: a crash in native code\).*faults.py\", line \d+ in crashes",
        ),
        ("aborts", r"killed by signal 6 \(SIGABRT: native code aborted"),
        ("is_killed", "killed by signal 9"),
        pytest.param("is_woken", "killed by signal 14", marks=pytest.mark.long),
        ("recurses", "the script failed: RecursionError: maximum recursion depth"),
        ("has_no_memory", "the script failed: MemoryError"),
        ("has_no_descriptors", r"the script failed: OSError: \[Errno 24\] Too many open files"),
        ("has_no_file_size", r"\[Errno 27\] File too large"),
        (
            "raises_without_text",
            r"the script failed: Silent: \(its text cannot be shown: __str__ raised ValueError\)",
        ),
        ("raises_surrogates", r"the script failed: ValueError: \\udcff and \\ud800"),
        (
            "raises_the_error_of_a_thread",
            "the script failed: KeyError: 'in a thread that main waits for'",
        ),
        ("is_interrupted", "the script failed: KeyboardInterrupt"),
        ("leaves_with_an_object", r"the script called sys.exit\(a Silent\)"),
        ("closes_descriptors", "has closed file descriptors that it did not open"),
        pytest.param(
            "closes_descriptors_and_fails",
            "has closed file descriptors that it did not open",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "closes_all_descriptors",
            "has closed file descriptors that it did not open",
            marks=pytest.mark.long,
        ),
        ("writes_after_main", "the script wrote rows after its main had returned"),
        pytest.param(
            "writes_at_exit",
            "the script wrote rows after its main had returned",
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.fault("scripts", "A script that fails in one of these ways is an error that says so")
def test_fault_of_a_script_is_an_error_that_says_how_it_failed(
    start: Start, fault: str, expected: str
) -> None:
    began = time.monotonic()
    with pytest.raises(TaskError, match=expected):
        ids(start(fault))
    assert time.monotonic() - began < DEADLINE_S


@pytest.mark.parametrize(
    "fault",
    [
        "closes_its_streams", "prints_no_text", "floods_its_console", "changes_its_folder", "deletes_its_folder", "forks",
        "takes_all_signals", "has_no_umask", "raises_at_exit", "raises_in_a_thread", "writes_from_threads", "exits_with_zero",
        "leaves_daemon_threads", "replaces_its_streams",
    ],
)  # fmt: skip
@pytest.mark.fault("scripts", "A script that does one of these still succeeds")
def test_a_fault_does_no_harm(start: Start, fault: str) -> None:
    assert sorted(ids(start(fault))) == list(range(1000))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("hangs_while_reading", marks=pytest.mark.long),
        "loops_in_c",
        pytest.param("hangs_before_reading", marks=pytest.mark.long),
        pytest.param("hangs_after_reading", marks=pytest.mark.long),
        pytest.param("loops_in_python", marks=pytest.mark.long),
        pytest.param("loops_with_the_interpreter_lock", marks=pytest.mark.long),
        pytest.param("waits_for_two_locks", marks=pytest.mark.long),
    ],
)
@pytest.mark.fault(
    "scripts", "The stack of a script that hangs is shown, also where it uses the processor"
)
def test_error_of_a_hanging_script_shows_its_stack(start: Start, fault: str) -> None:
    limit_s = 3.0 * SLOWER
    with pytest.raises(
        TaskError, match=f"no process of the group has made progress for {limit_s:g} s"
    ) as caught:
        ids(start(fault, stall_timeout_s=limit_s))
    assert f"in {fault}" in str(caught.value)


def test_a_script_that_works_in_silence_does_not_hang(start: Start) -> None:
    limit_s = 2.0 * SLOWER
    params = {"fault": "works_without_words", "seconds": 2 * limit_s}
    member = start("", stall_timeout_s=limit_s, user_params=json.dumps(params))
    assert sorted(ids(member)) == list(range(1000))


@pytest.mark.fault("scripts", "An error in a thread of the script is logged")
def test_errors_of_threads_are_reported(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        ids(start("raises_in_a_thread"))
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.fault("scripts", "An error message of megabytes is shortened")
def test_an_error_of_megabytes_is_cut(start: Start) -> None:
    with pytest.raises(TaskError, match="characters left out") as caught:
        ids(start("raises_megabytes"))
    assert len(str(caught.value)) < 50_000


@pytest.mark.fault("scripts", "Printed lines of megabytes are shortened")
def test_lines_of_megabytes_are_cut(start: Start) -> None:
    with pytest.raises(TaskError, match="KeyError: 'after'") as caught:
        ids(start("prints_without_line_ends"))
    assert len(str(caught.value)) < 50_000


@pytest.mark.parametrize(
    "fault", [pytest.param("daemonizes", marks=pytest.mark.long), "daemonizes_a_program"]
)
@pytest.mark.fault("scripts", "A daemon that a script starts ends with it")
def test_a_daemon_of_the_script_ends_with_it(
    start: Start, fault: str, tmp_path: pathlib.Path
) -> None:
    member = start(fault, env_vars=(f"PID_FILE={tmp_path}/pid",))
    assert sorted(ids(member)) == list(range(1000))
    pid = int((tmp_path / "pid").read_text())
    assert not is_running(pid), "it has left the script's group, and is found all the same"


@pytest.mark.fault("jobs", "A checkpoint keeps rows until their output has been taken")
def test_rows_are_done_when_their_output_has_been_taken(
    start: Start, tmp_path: pathlib.Path
) -> None:
    """A checkpoint between the script's return and the next look at it must hold the rows: their
    output is not in Flink yet.
    """
    member = start("returns_early", kind="stream", env_vars=(f"EXIT_FILE={tmp_path}/exit",))
    assert list(member.feed(BATCH)) == []
    wait_until((tmp_path / "exit").exists, "the script has returned, and its process has said so")
    assert member.rows_done < 1000 and not member.has_returned
    assert sum(message.count for message in member.poll()) == 1000
    assert member.rows_done == 1000 and member.has_returned


@pytest.mark.fault("hosts", "An ASCII console shows other characters as escapes")
def test_ascii_console_shows_other_characters_as_escapes(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    with open(tmp_path / "console", "w", encoding="ascii") as console:
        monkeypatch.setattr("sys.stdout", console)
        ids(start("prints_letters", print_process_info=True))
    assert "chief 0] gr\\xfcn" in (tmp_path / "console").read_text(encoding="ascii")


@pytest.mark.fault("hosts", "Environment variables that are too large are an error with the limit")
def test_variables_that_are_too_large_are_an_error(start: Start) -> None:
    with pytest.raises(Exception, match="its variables are larger than the system allows"):
        start("forks", env_vars=(f"LARGE={'x' * 200_000}",))
    assert not os.environ.get("LARGE")


def test_errors_that_a_script_overlooks_are_reported(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ids(start("overlooks")) == list(range(1000))
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("akdl: ")]
    assert said.startswith(
        "akdl: TestOp, chief 0 (faults.py): an error in a thread of the script did not reach main: "
    )
    assert "reader: KeyError: 'scor' (faults.py, line " in said
