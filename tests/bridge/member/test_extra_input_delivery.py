"""Extra inputs on their way to each host once. A host is an address here: all of them are this
machine.
"""

from __future__ import annotations

import json
import os
import pathlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from akdl.wire import RUNNING, Chunk, Cluster, MemberState
from bridge.exceptions import TaskError
from bridge.group.addresses import Address, release, reserve
from bridge.group.membership import Membership
from bridge.member.extra_input_delivery import ExtraInputs
from bridge.member.session import Session
from bridge.schema import Schema
from bridge.settings import GroupSettings
from tests.bridge.group.test_group_server import relay
from tests.bridge.member.test_members import HELPERS, Groups, groups  # noqa: F401  a fixture
from tests.support.leftovers import task_processes, wait_until

HOSTS = "127.0.0.1", "127.0.0.2"
SCHEMA = Schema.parse("id BIGINT NOT NULL")
QUEUE_BYTES = 2500


def settings(size: int, extra_inputs: int, tmp_dirs: str) -> GroupSettings:
    return GroupSettings(
        "TestOp", "batch", size, 0, SCHEMA, Schema.parse("x DOUBLE"), "main.py", (), (SCHEMA,) * extra_inputs,
        token="secret", tmp_dirs=tmp_dirs,
    )  # fmt: skip


class Place:
    """What a member has besides its process."""

    def __init__(
        self, index: int, folder: pathlib.Path, size: int = 2, extra_inputs: int = 1
    ) -> None:
        folder.mkdir(exist_ok=True)
        given = settings(size, extra_inputs, str(folder.parent))
        self.changed = threading.Condition()
        self.session = Session(0, QUEUE_BYTES)
        process: Any = SimpleNamespace(
            settings=given,
            group="extra",
            index=index,
            changed=self.changed,
            private_folder=str(folder),
            error=TaskError,
        )
        self.extra = ExtraInputs(self.session, process)
        self._state = MemberState(index=index, phase=RUNNING)
        self.membership = Membership(given, index, 0, self.changed, lambda: self._state)

    def join(self, addresses: list[Address]) -> Cluster:
        cluster = self.extra.settle(addresses, "{}")
        self.membership.join(addresses, self.extra.chunk_log)
        self.extra.fetch(self.membership.take_extra_inputs)
        return cluster

    def take(self) -> list[Chunk]:
        """Take what waits for the process."""
        with self.changed:
            chunks = [
                Chunk.FromString(self.session.next_chunk() or b"")
                for _ in range(len(self.session._input))
            ]
            self.changed.notify_all()
            return chunks

    def leave(self) -> None:
        self.extra.stop()
        self.extra.stop()
        self.membership.leave()


@pytest.fixture
def addresses() -> Iterator[list[Address]]:
    """Of two members on hosts of their own."""
    yield [Address(host, *reserve("extra", index, 0)) for index, host in enumerate(HOSTS)]
    for index in range(2):
        release("extra", index, 0)


@pytest.fixture
def places(tmp_path: pathlib.Path) -> Iterator[list[Place]]:
    made = [Place(index, tmp_path / str(index)) for index in range(2)]
    yield made
    for place in reversed(made):
        place.leave()


def chunk(number: int) -> bytes:
    return b"%04d" % number * 250


def test_another_host_gets_all_chunks_at_the_pace_of_its_process(
    places: list[Place], addresses: list[Address]
) -> None:
    giver, taker = places
    for number in range(5):  # before addresses are known
        giver.extra.keep(1, chunk(number), 1)
    taker.join(addresses)
    giver.join(addresses)
    giver.extra.keep(7, b"rows of this worker", 0)
    wait_until(lambda: len(taker.session._input) == 2, "no more than two have room")
    for number in range(5, 20):
        giver.extra.keep(1, chunk(number), 1)
    found: list[Chunk] = []

    def taken(count: int) -> bool:
        found.extend(taker.take())
        return len(found) == count

    wait_until(lambda: taken(20), "all come, as there is room")
    assert [(each.input, each.columns) for each in found] == [
        (1, chunk(number)) for number in range(20)
    ]
    assert not taker.extra.is_complete, "there may be more"
    giver.extra.end()
    wait_until(lambda: taker.extra.is_complete, "the end mark comes")
    assert taker.extra.error is None and giver.extra.is_complete


@pytest.mark.fault("jobs", "The transfer of an extra input resumes when its connection was cut")
def test_delivery_that_is_cut_continues_where_it_was(
    places: list[Place], addresses: list[Address]
) -> None:
    giver, taker = places
    for number in range(12):
        giver.extra.keep(1, chunk(number), 1)
    giver.extra.end()
    giver.join(addresses)
    found: list[Chunk] = []

    def is_complete() -> bool:
        found.extend(taker.take())
        return taker.extra.is_complete

    with relay(addresses[0].group_port, cut_after=8000) as (through, carried):
        taker.join([addresses[0]._replace(group_port=through), addresses[1]])
        wait_until(is_complete, "all have come")
        assert len(carried) > 1, "over several connections"
        taker.leave()
    is_complete()
    assert [each.columns for each in found] == [chunk(number) for number in range(12)]


@pytest.mark.fault("jobs", "An extra input that arrives incomplete is an error")
def test_extra_input_with_a_wrong_checksum_is_an_error(
    places: list[Place], addresses: list[Address]
) -> None:
    giver, taker = places
    giver.extra.keep(1, chunk(1), 1)
    assert giver.extra.chunk_log is not None
    giver.extra.chunk_log._tally._checksum ^= 1
    giver.extra.end()
    for place in places:
        place.join(addresses)
    wait_until(lambda: taker.extra.error is not None, "it is told")
    words = r"did not arrive completely from chief 0 on 127.0.0.1: expected 1 rows .*, received 1 rows with checksum \w+"
    with pytest.raises(TaskError, match=words):
        raise taker.extra.error or AssertionError
    assert not taker.extra.is_complete


def test_refused_delivery_is_an_error_without_another_attempt(
    places: list[Place], addresses: list[Address], tmp_path: pathlib.Path
) -> None:
    places[0].join(addresses)
    stranger = Place(1, tmp_path / "stranger")
    stranger.membership._attempt = 7
    stranger.join(addresses)
    wait_until(lambda: stranger.extra.error is not None, "it is told")
    assert "FAILED_PRECONDITION: the member belongs to attempt 7, this is attempt 0" in str(
        stranger.extra.error
    )
    stranger.leave()


@pytest.mark.parametrize("chunks", [0, 5], ids=["chunks", "room"])
def test_waiting_delivery_of_extra_inputs_can_be_stopped(
    places: list[Place], addresses: list[Address], chunks: int
) -> None:
    giver, taker = places
    for number in range(chunks):
        giver.extra.keep(1, chunk(number), 1)
    for place in places:
        place.join(addresses)
    if chunks:
        wait_until(lambda: not taker.session.has_room(1000), "it waits for room")
    taker.extra.stop()
    assert not taker.extra.is_complete and taker.extra.error is None
    assert "akdl-extra-inputs" not in [thread.name for thread in threading.enumerate()]


def test_failed_write_of_extra_inputs_is_an_error_of_member_0(tmp_path: pathlib.Path) -> None:
    giver = Place(0, tmp_path / "0")
    (tmp_path / "0").rmdir()
    with pytest.raises(TaskError, match="extra inputs: .*No such file or directory"):
        giver.extra.keep(1, chunk(1), 1)
    giver.leave()


def settled(tmp_path: pathlib.Path, addresses: list[Address]) -> list[tuple[str, bool, bool, bool]]:
    """Return of each member: folder, whether it waits for files, whether it gives chunks, and
    whether it fetches them.
    """
    places = [
        Place(index, tmp_path / str(index), len(addresses)) for index in range(len(addresses))
    ]
    found = []
    for place in places:
        cluster = place.extra.settle(addresses, "{}")
        folder = os.path.basename(cluster.extra_folder)
        gives, fetches = place.extra.chunk_log is not None, not place.extra.is_complete
        found.append((folder, cluster.waits_for_files, gives, fetches))
    made = {name for name in os.listdir(tmp_path) if name.startswith("akdl-extra-extra-0-")}
    assert made == {folder for folder, *_ in found} - {""}
    for place in places:
        place.leave()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("akdl-")], (
        "folders that nobody uses go"
    )
    return found


def test_the_first_member_of_each_host_makes_the_files(tmp_path: pathlib.Path) -> None:
    one, two = HOSTS
    found = settled(tmp_path, [Address(host, 1, 2) for host in (one, two, two, one, "127.0.0.3")])
    (first, *_), (second, *_), *_ = found
    assert first != second
    assert found == [
        (first, False, True, False),
        (second, False, False, True),
        (second, True, False, False),
        (first, True, False, False),
        ("", False, False, True),
    ]


def test_members_of_one_host_alone_need_no_chunk_log(tmp_path: pathlib.Path) -> None:
    (folder, *first), second = settled(tmp_path, [Address(HOSTS[0], 1, 2)] * 2)
    assert first == [False, False, False] and second == (folder, True, False, False)


def test_containers_and_users_of_one_host_share_no_files(tmp_path: pathlib.Path) -> None:
    """They have one address, and the same path is another folder there."""
    found = settled(
        tmp_path, [Address(HOSTS[0], 1, 2, "8-15-0"), Address(HOSTS[0], 3, 4, "8-16-0")]
    )
    assert found == [("", False, True, False), ("", False, False, True)]


@pytest.mark.fault("jobs", "Two jobs of one operator at once have their own extra inputs")
def test_jobs_of_one_operator_have_folders_of_their_own(tmp_path: pathlib.Path) -> None:
    """They have the same group and attempt, and run at once; their ports differ."""
    folders = [
        settled(tmp_path, [Address(HOSTS[0], port, 2), Address(HOSTS[0], 3, 4)])[0][0]
        for port in (1, 5, 1)
    ]
    assert folders[0] == folders[2] != folders[1]


def test_a_folder_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    name = settled(tmp_path, [Address(HOSTS[0], 1, 2)] * 2)[0][0]
    (tmp_path / name).mkdir(mode=0o755)
    place = Place(0, tmp_path / "0")
    with pytest.raises(
        TaskError, match="extra inputs: .* is not a folder that only this user can access"
    ):
        place.extra.settle([Address(HOSTS[0], 1, 2)] * 2, "{}")
    place.leave()


def test_group_without_extra_inputs_or_of_one_member_keeps_no_chunks(
    tmp_path: pathlib.Path,
) -> None:
    for size, extra_inputs in ((2, 0), (1, 1)):
        place = Place(0, tmp_path / "0", size, extra_inputs)
        place.extra.keep(1, chunk(1), 1)
        assert place.extra.settle([Address(HOSTS[0], 1, 2)] * size, "{}") == Cluster(tf_config="{}")
        assert (
            place.extra.chunk_log is None
            and place.extra.is_complete
            and os.listdir(tmp_path / "0") == []
        )
        place.leave()


# With processes.

FINDS = HELPERS + (
    "def main(config):\n"
    "    (extra,) = config.extra_inputs\n"
    "    ids = [row['id'] for row in extra.rows()]\n"
    "    text = open(config.user_params['ALINK:bc_1']).read().split()\n"
    "    write(config, [os.path.dirname(extra.path), ids == list(range(100)), len(text), config.dataset_length])\n"
)


@pytest.fixture
def on_hosts() -> Iterator[list[Address]]:
    """Addresses of four members on two hosts."""
    one, two = HOSTS
    yield [
        Address(host, *reserve("group", index, 0))
        for index, host in enumerate((one, two, two, one))
    ]
    for index in range(4):
        release("group", index, 0)


@pytest.mark.process
def test_all_processes_read_whole_extra_inputs_from_files_of_their_host(
    groups: Groups,  # noqa: F811
    on_hosts: list[Address],  # noqa: F811, RUF100
) -> None:  # noqa: F811, RUF100
    """Member 0 gets its last rows when the others wait."""
    groups.start(
        FINDS, 4, rows=[1, 2, 3, 4], extra=100, only=[1, 2, 3], addresses=on_hosts, token="secret"
    )
    for member in groups.members[1:]:
        wait_until(
            lambda member=member: member._session.has_sent_end, "this process has all its rows"
        )
    assert not groups.members[0]._session.has_sent_end, (
        "this one does not: it has to fetch the others"
    )
    groups.start(
        FINDS, 4, rows=[1, 2, 3, 4], extra=100, only=[0], addresses=on_hosts, token="secret"
    )
    outcomes = groups.wait()
    found = [
        json.loads(outcomes[name][0][1]) for name in ("chief 0", "worker 0", "worker 1", "worker 2")
    ]
    assert [rest for _, *rest in found] == [[True, 100, rows] for rows in (1, 2, 3, 4)]
    folders = [folder for folder, *_ in found]
    assert folders[0] == folders[3] != folders[1] == folders[2]
    assert not any(os.path.exists(folder) for folder in folders)


@pytest.mark.process
@pytest.mark.fault("jobs", "A process that starts late finds the extra inputs of its host")
def test_process_that_starts_late_finds_the_extra_inputs_of_its_host(
    groups: Groups,  # noqa: F811
    on_hosts: list[Address],  # noqa: F811, RUF100
) -> None:  # noqa: F811, RUF100
    """Its bridge waits for them, and holds the files."""
    groups.start(FINDS, 4, extra=100, only=[0, 1], addresses=on_hosts, token="secret")
    maker = groups.members[1]
    wait_until(
        lambda: maker._process.child.exit_status == 0, "its script has ended, and its process"
    )
    groups.start(FINDS, 4, extra=100, only=[2, 3], addresses=on_hosts, token="secret")
    outcomes = groups.wait()
    assert [
        json.loads(outcomes[name][0][1])[1:3] for name in ("worker 0", "worker 1", "worker 2")
    ] == [[True, 100]] * 3


@pytest.mark.process
@pytest.mark.fault(
    "jobs", "The death of the process that prepares extra inputs is the error of its group"
)
def test_a_maker_that_is_killed_is_the_error_of_its_group(
    groups: Groups,  # noqa: F811
    on_hosts: list[Address],  # noqa: F811, RUF100
) -> None:  # noqa: F811, RUF100
    """Those that wait for its files do not speak before it."""
    dies = 'import os\nif \'"type": "worker", "index": 0\' in os.environ[\'TF_CONFIG\']:\n    os.kill(os.getpid(), 9)\n'
    groups.start(dies + FINDS, 4, extra=100, addresses=on_hosts, token="secret")
    name, text = groups.wait_for_error()
    assert name == "worker 0" and "killed by signal 9" in text
    wait_until(lambda: not task_processes(), "the others have been ended")
