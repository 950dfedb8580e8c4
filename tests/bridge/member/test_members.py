"""Groups of real processes on this host: how they come together, end, fail and stand still; without
Flink and TensorFlow.
"""

from __future__ import annotations

import pathlib
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import TaskError
from bridge.group.addresses import Address, own_host, release, reserve
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.e2e.jobs import SCRIPTS
from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, task_processes, wait_until
from tests.support.warm_python import light_python

pytestmark = [pytest.mark.process, pytest.mark.estimator]
INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL"), Schema.parse("role STRING, value STRING")
HELPERS = """
import json, os, time
from akdl.wire import Example
def write(config, value):
    example = Example()
    role = "{} {}".format(config.task_type, config.task_index)
    for name, text in (("role", role), ("value", json.dumps(value))):
        example.features.feature[name].bytes_list.value.append(text.encode())
    config.output_writer.write(example)
"""
COUNT = HELPERS + "def main(config):\n    write(config, config.dataset_length)\n"
START_S = 8.0 * SLOWER  # time enough for a process to connect beside other tests
SERVE = "    if config.task_type == 'ps':\n        time.sleep(600)\n"


class Groups:
    """Starts groups of which every member is fed and finished by a thread of its own, as Flink does
    it.

    Scripts run in forks. Whose use of the processor matters needs `python=None`: that of a fork is
    not measured.
    """

    def __init__(self) -> None:
        self.members, self.outcomes, self._threads, self._ports = [], {}, [], []

    def start(
        self,
        script: str,
        workers: int,
        servers: int = 0,
        rows: Sequence[Any] = (),
        only: list[int] | None = None,
        addresses: Any = None,
        extra: int = 0,
        **changes: Any,
    ) -> None:
        changes.setdefault("python", light_python())
        files = (
            UserFile("script.py", script.encode()),
            UserFile("tfrecords.py", (SCRIPTS / "tfrecords.py").read_bytes()),
        )
        settings = GroupSettings(
            operator="TestOp", kind="batch", num_workers=workers, num_ps=servers, input_schema=INPUT, output_schema=OUTPUT,
            main_script="script.py", user_files=files, extra_schemas=(INPUT,) if extra else (), **changes,
        )  # fmt: skip
        if addresses is None:
            addresses = [
                Address(own_host(), *reserve("group", index, 0)) for index in range(settings.size)
            ]
            self._ports += range(settings.size)
        for index in only or range(settings.size):
            member = Member(settings, "group", index, 0, lambda: None)
            self.members.append(member)
            member.set_cluster(addresses)
            share = rows[index] if index < len(rows) else 0
            thread = threading.Thread(
                target=self._drive,
                args=(member, settings, share, 0 if index else extra),
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def _drive(self, member: Member, settings: GroupSettings, rows: Any, extra: int) -> None:
        decoder = ColumnDecoder(OUTPUT, "the script")
        try:
            for batch in batches(settings, extra):
                list(member.feed(batch, extra_input=1))
            messages = [
                message for batch in batches(settings, rows) for message in member.feed(batch)
            ]
            messages += member.finish()
            columns = [
                [cells.to_pylist() for cells in decoder.decode(message.take())]
                for message in messages
            ]
            self.outcomes[member.label] = [row for each in columns for row in zip(*each)]
        except TaskError as error:
            self.outcomes[member.label] = error

    def wait(self) -> dict[Any, Any]:
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), f"{self.outcomes}"
        return self.outcomes

    def wait_for_error(self, deadline_s: float = DEADLINE_S) -> tuple[Any, str]:
        """Return the first error, and end all that is left, as Flink does."""

        def errors() -> list[Any]:
            return [
                (name, outcome)
                for name, outcome in list(self.outcomes.items())
                if isinstance(outcome, TaskError)
            ]

        wait_until(lambda: bool(errors()), "a member has failed", deadline_s)
        (first, *_) = errors()
        self.stop()
        return first[0], str(first[1])

    def stop(self) -> None:
        for member in self.members:
            member.stop()
        for index in self._ports:
            release("group", index, 0)


def batches(settings: GroupSettings, rows: Any, size: int = 10) -> Iterator[Any]:
    added = [column.name for column in settings.script_schema.columns[len(INPUT.columns) :]]
    for start in range(0, rows, size):
        ids = pa.array(range(start, min(rows, start + size)), pa.int64())
        ones = [pa.array([1.0] * len(ids), pa.float32())] * len(added)
        yield pa.record_batch([ids, *ones], names=["id", *added])


@pytest.fixture
def groups() -> Iterator[Groups]:
    made = Groups()
    yield made
    made.stop()


def test_servers_are_stopped_when_all_workers_have_ended(groups: Groups) -> None:
    script = HELPERS + "def main(config):\n" + SERVE + "    write(config, config.dataset_length)\n"
    groups.start(script, 2, 2, rows=[5, 25])
    assert groups.wait() == {
        "chief 0": [("chief 0", "5")],
        "worker 0": [("worker 0", "25")],
        "ps 0": [],
        "ps 1": [],
    }
    assert task_processes() == []


def test_a_server_may_end_by_itself(groups: Groups) -> None:
    groups.start(
        COUNT.replace("    write(", "    config.task_type == 'ps' or write("), 1, 1, rows=[7]
    )
    assert groups.wait() == {"chief 0": [("chief 0", "7")], "ps 0": []}


@pytest.mark.long
def test_a_coordinating_chief_ends_the_group_and_knows_all_files(groups: Groups) -> None:
    script = HELPERS + (
        "def main(config):\n"
        "    if config.task_type != 'chief':\n"
        "        time.sleep(600)\n"
        "    shares = config.tf_context.shares()\n"
        "    write(config, [[share.rows, os.path.getsize(share.path) > 0] for share in shares])\n"
    )
    groups.start(script, 3, 1, rows=[0, 4, 9], chief_coordinates=True)
    outcomes = groups.wait()
    assert outcomes == {
        "chief 0": [("chief 0", "[[4, true], [9, true]]")],
        "worker 0": [],
        "worker 1": [],
        "ps 0": [],
    }


@pytest.mark.fault("jobs", "The first failure of a group is reported, and not what follows from it")
def test_first_error_of_a_group_is_reported_and_not_its_echo(groups: Groups) -> None:
    script = HELPERS + (
        "def main(config):\n"
        "    if config.task_index == 1:\n"
        "        raise KeyError('the reason')\n"
        "    class UnavailableError(Exception): pass\n"
        "    time.sleep(0 if config.task_type == 'chief' else 600)\n"
        "    raise UnavailableError('connection reset by peer')\n"
    )
    groups.start(script, 3)
    name, text = groups.wait_for_error()
    assert (
        name == "worker 1"
        and "TestOp, worker 1 (script.py): the script failed: KeyError: 'the reason'\nTraceback"
        in text
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise ValueError('at once')", "the script failed: ValueError: at once"),
        ("os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
    ids=["raise", "killed"],
)
@pytest.mark.fault("jobs", "Two failures at once are one error")
def test_two_members_that_fail_at_once_are_one_error(
    groups: Groups, fault: str, words: str
) -> None:
    script = f"def main(config):\n    if config.task_type == 'chief':\n        time.sleep(600)\n    {fault}\n"
    groups.start(HELPERS + script, 3)
    name, text = groups.wait_for_error()
    assert name in ("worker 0", "worker 1") and words in text


def test_lost_connection_without_a_reason_shows_the_states_of_the_group(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.member.member.ECHO_S", 2.0 * SLOWER)
    script = HELPERS + (
        "def main(config):\n"
        "    if config.task_type == 'chief':\n"
        "        raise RuntimeError('Connection reset by peer')\n"
        "    time.sleep(600)\n"
    )
    groups.start(script, 2, rows=[0, 5])
    name, text = groups.wait_for_error()
    assert name == "chief 0" and "RuntimeError: Connection reset by peer" in text
    assert (
        f"--- the group ---\nchief 0 on {own_host()}: failed: the script failed: RuntimeError"
        in text
    )
    assert f"worker 0 on {own_host()}: has read 0 of 5 rows, last progress" in text


def test_a_server_that_fails_before_a_worker_has_used_it_is_no_error(
    groups: Groups, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    script = HELPERS + (
        "def main(config):\n"
        "    if config.task_type == 'ps':\n"
        "        raise ValueError('no rows')\n"
        f"    while not os.path.exists({str(tmp_path / 'failed')!r}):\n"
        "        time.sleep(0.05)\n"
        "    time.sleep(1.5)\n"  # so that members look at each other once more before the end
        "    write(config, config.dataset_length)\n"
    )
    groups.start(script, 1, 1, rows=[7])
    wait_until(lambda: groups.members[1]._session.failure is not None, "the server has failed")
    (tmp_path / "failed").touch()
    assert groups.wait() == {"chief 0": [("chief 0", "7")], "ps 0": []}
    (said,) = [
        record.message
        for record in caplog.records
        if record.levelname == "WARNING" and "numPSs" in record.message
    ]
    assert (
        said
        == "TestOp, ps 0: no worker used this process (the script failed: ValueError: no rows). Set numPSs=0 to free its slot"
    )


def test_failed_server_that_a_worker_misses_is_the_reported_error(groups: Groups) -> None:
    script = HELPERS + (
        "def main(config):\n"
        "    class UnavailableError(Exception): pass\n"
        "    if config.task_type == 'ps':\n"
        "        raise KeyError('the reason')\n"
        "    raise UnavailableError('connection refused')\n"
    )
    groups.start(script, 1, 1)
    name, text = groups.wait_for_error()
    assert name == "ps 0" and "the script failed: KeyError: 'the reason'\nTraceback" in text


@pytest.mark.slow
def test_a_server_that_leaves_workers_waiting_is_reported(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.group.states.LEFT_ALONE_S", 2.0)
    groups.start(
        HELPERS + "def main(config):\n    config.task_type == 'ps' or time.sleep(600)\n", 1, 1
    )
    name, text = groups.wait_for_error()
    assert (
        name == "ps 0"
        and "the script returned, but the workers that it serves still run, and make no progress"
        in text
    )


STUCK = HELPERS + (
    "def hold_all_up():\n"
    "    time.sleep(600)\n"
    "def main(config):\n"
    "    if config.task_index == 1:\n"
    "        hold_all_up()\n"
    "    assert config.dataset_length == 20\n"
    "    time.sleep(600)\n"
)


@pytest.mark.fault("jobs", "A group without progress names the slowest process and its stack")
def test_stalled_group_names_the_slowest_member_and_its_stack(groups: Groups) -> None:
    limit_s = 2.0 * SLOWER
    groups.start(STUCK, 3, rows=[20, 20, 20], stall_timeout_s=limit_s)
    name, text = groups.wait_for_error()
    assert name == "worker 1"
    assert (
        f"no process of the group has made progress for {limit_s:g} s, and this script lags behind"
        in text
    )
    assert "worker 1 on" in text and "has read 0 of 20 rows, last progress" in text
    assert 'script.py", line' in text and "in hold_all_up" in text


@pytest.fixture
def busy_beside_other_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a process for busy that gets little of a processor beside other tests."""
    monkeypatch.setattr("bridge.member.observer.BUSY", 0.01)


POLLING = HELPERS + (
    "import hashlib\n"
    "def sleeps_in_the_middle():\n"
    "    time.sleep(600)\n"
    "def main(config):\n"
    "    assert config.dataset_length == 20\n"
    "    if config.task_type == 'worker' and config.task_index == 1:\n"
    "        sleeps_in_the_middle()\n"
    "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"
)


@pytest.mark.long
@pytest.mark.fault("jobs", "Processes that poll for one that sleeps do not count as working")
@pytest.mark.usefixtures("busy_beside_other_load")
def test_polling_members_count_as_waiting_for_a_sleeping_one(groups: Groups) -> None:
    groups.start(POLLING, 3, rows=[20, 20, 20], stall_timeout_s=2.0 * SLOWER, python=None)
    name, text = groups.wait_for_error()
    assert name == "worker 1" and "in sleeps_in_the_middle" in text
    assert re.search(
        r"worker 0 on .*: has read 20 of 20 rows, last progress \d+ s ago, uses the processor", text
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "loop"),
    [
        pytest.param(2, "while True: pass", marks=pytest.mark.long),
        (3, "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"),
    ],
    ids=["one of two in Python", "one of three in C"],
)
@pytest.mark.fault(
    "jobs",
    "A worker in an endless loop, in Python or in C, is named while the others sleep until it comes",
)
@pytest.mark.usefixtures("busy_beside_other_load")
def test_worker_in_an_endless_loop_is_named_while_the_rest_sleep(
    groups: Groups, workers: int, loop: str
) -> None:
    loops = (
        "import hashlib\n"
        "def loops_in_the_middle():\n"
        f"    {loop}\n"
        "def main(config):\n"
        "    assert config.dataset_length == 20\n"
        "    if config.task_type == 'worker' and config.task_index == 0:\n"
        "        loops_in_the_middle()\n"
        "    while not os.path.exists('all have come'):\n"
        "        time.sleep(0.1)\n"
    )
    limit_s = 2.0 * SLOWER
    groups.start(
        HELPERS + loops, workers, rows=[20] * workers, stall_timeout_s=limit_s, python=None
    )
    name, text = groups.wait_for_error()
    assert name == "worker 0" and "in loops_in_the_middle" in text
    assert re.search(
        r"worker 0 on .*: has read 20 of 20 rows, last progress \d+ s ago, uses the processor", text
    )


COLLECTIVE = HELPERS + (
    "def stops_in_the_middle():\n"
    "    time.sleep(600)\n"
    "def main(config):\n"
    "    import tensorflow as tf\n"
    "    strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
    "    assert config.dataset_length == 20\n"
    "    for step in range(100):\n"
    "        if step == 3 and config.task_type == 'worker':\n"
    "            stops_in_the_middle()\n"
    "        strategy.reduce('sum', strategy.run(lambda: tf.ones([])), None)\n"
)


@pytest.mark.long
@pytest.mark.parametrize("stop", ["time.sleep(600)", "while True: pass"])
@pytest.mark.fault(
    "jobs", "A worker that sleeps or loops while the others wait for it in a collective is named"
)
@pytest.mark.usefixtures("busy_beside_other_load")
def test_worker_that_does_not_reach_a_collective_is_named(groups: Groups, stop: str) -> None:
    groups.start(
        COLLECTIVE.replace("time.sleep(600)", stop),
        2,
        rows=[20, 20],
        stall_timeout_s=20.0,
        python=None,
    )
    name, text = groups.wait_for_error(4 * DEADLINE_S)  # TensorFlow starts twice
    assert name == "worker 0" and "in stops_in_the_middle" in text


@pytest.mark.long
@pytest.mark.usefixtures("busy_beside_other_load")
def test_computing_member_keeps_a_waiting_group_from_stalling(
    groups: Groups, tmp_path: pathlib.Path
) -> None:
    limit_s = 3.0 * SLOWER
    script = HELPERS + (
        "def main(config):\n"
        f"    marker = {str(tmp_path / 'computed')!r}\n"
        f"    end = time.monotonic() + {2 * limit_s}\n"
        "    while config.task_type == 'chief' and time.monotonic() < end:\n"
        "        json.loads(json.dumps(sorted(range(1000), key=lambda each: -each), indent=1))\n"
        "    if config.task_type == 'chief':\n"
        "        open(marker, 'w').close()\n"
        "    while not os.path.exists(marker):\n"
        "        time.sleep(0.1)\n"
    )
    groups.start(script, 2, stall_timeout_s=limit_s, python=None)
    assert groups.wait() == {"chief 0": [], "worker 0": []}


@pytest.mark.long
@pytest.mark.fault("network", "A member that never starts is named")
def test_member_that_never_starts_is_named(groups: Groups) -> None:
    groups.start(COUNT, 3, only=[0, 2], start_timeout_s=START_S)
    _name, text = groups.wait_for_error()
    assert (
        f"the group was not complete within the {START_S:g} s of startTimeout: worker 0 on {own_host()} did not report or connect"
        in text
    )
    assert f"worker 0 on {own_host()}: has not reported" in text


@pytest.mark.long
@pytest.mark.fault(
    "jobs",
    "A member whose Python worker of Flink blocks before it announces its address is named after startTimeout",
)
def test_a_member_whose_address_does_not_arrive_is_named() -> None:
    settings = GroupSettings(
        operator="TestOp", kind="batch", num_workers=2, num_ps=0, input_schema=INPUT, output_schema=OUTPUT, main_script="script.py",
        user_files=(UserFile("script.py", COUNT.encode()),), start_timeout_s=START_S,
    )  # fmt: skip
    member = Member(settings, "group", 0, 0, lambda: None)
    member.addressed = {0}
    with pytest.raises(
        TaskError,
        match=rf"within the {START_S:g} s of startTimeout: the address of worker 0 did not arrive",
    ):
        list(member.finish())


@pytest.mark.long
@pytest.mark.fault("network")
def test_a_chief_that_cannot_be_reached_is_named(groups: Groups) -> None:
    nobody = [Address("127.0.0.1", *reserve("group", index, 0)) for index in range(2)]
    groups.start(COUNT, 2, only=[1], addresses=nobody, start_timeout_s=START_S)
    name, text = groups.wait_for_error()
    for index in range(2):
        release("group", index, 0)
    assert (
        name == "worker 0"
        and f"the chief does not answer at 127.0.0.1:{nobody[0].group_port} (UNAVAILABLE" in text
    )
    assert "hostNetwork" in text


@pytest.mark.parametrize(("mode", "expected"), [("repeat", [23, 23, 23]), ("drop", [3, 3, 3])])
def test_shares_are_made_equal(groups: Groups, mode: str, expected: list[int]) -> None:
    groups.start(COUNT, 3, rows=[23, 3, 20], equal_steps=mode)
    outcomes = groups.wait()
    assert [int(rows[0][1]) for _, rows in sorted(outcomes.items())] == expected


def test_padding_has_no_weight(groups: Groups) -> None:
    script = HELPERS + (
        "from tfrecords import examples\n"
        "def main(config):\n"
        "    rows = list(examples(config.dataset_file))\n"
        "    assert [column.name for column in config.tf_context.columns] == ['id', 'w']\n"
        "    write(config, [[row['id'].int64_list.value[0], row['w'].float_list.value[0]] for row in rows])\n"
    )
    groups.start(script, 3, rows=[4, 2, 0], equal_steps="pad", weight_column="w")
    outcomes = groups.wait()
    assert outcomes["chief 0"][0][1] == "[[0, 1.0], [1, 1.0], [2, 1.0], [3, 1.0]]"
    assert outcomes["worker 0"][0][1] == "[[0, 1.0], [1, 1.0], [0, 0.0], [1, 0.0]]"
    assert outcomes["worker 1"][0][1] == "[[0, 0.0], [0, 0.0], [0, 0.0], [0, 0.0]]", (
        "rows of another worker, without weight"
    )


def test_one_worker_alone_may_ask_for_the_files_of_all(
    groups: Groups, tmp_path: pathlib.Path
) -> None:
    """The others do not use their rows, so their files are made for it."""
    script = HELPERS + (
        "from tfrecords import examples\n"
        "def main(config):\n"
        f"    done = {str(tmp_path / 'done')!r}\n"
        "    if config.task_type == 'chief':\n"
        "        shares = config.tf_context.shares()\n"
        "        write(config, [[share.rows, len(list(examples(share.path)))] for share in shares])\n"
        "        open(done, 'w').close()\n"
        "    while not os.path.exists(done):\n"
        "        time.sleep(0.01)\n"
    )
    groups.start(script, 3, rows=[4, 25, 0])
    assert groups.wait()["chief 0"][0][1] == "[[4, 4], [25, 25], [0, 0]]"
