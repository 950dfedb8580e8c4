"""Each member is announced to all, once in each attempt."""

from __future__ import annotations

import json
import pathlib
import socket
import tempfile
from collections.abc import Iterator

import pytest
from pyflink.common import Row

from bridge.exceptions import ConfigurationError
from bridge.flink.elements import Element
from bridge.flink.keys import keys_of_subtasks
from bridge.flink.script_graph import Announce
from bridge.group.addresses import Address, folder_id, release
from tests.support.flink_functions import Subtask

KEYS = [11, 22, 33]


@pytest.fixture
def announce() -> Iterator[Announce]:
    yield Announce("announced", KEYS, "127.0.0.0/8")
    for attempt in range(2):
        release("announced", 1, attempt)


def start(function: Announce, attempt: int = 0) -> list[Row]:
    subtask = Subtask(function, KEYS[1], index=1, attempt=attempt)
    return list(
        function.process_element(Row(KEYS[1], Row(Element.START.value, 1, 0, b"")), subtask)
    )


def test_every_member_receives_the_same_address(announce: Announce) -> None:
    told = start(announce)
    assert [(key, kind, index) for key, (kind, index, _, _) in told] == [
        (key, Element.ADDRESS, 1) for key in KEYS
    ]
    (address,) = {Address(*json.loads(content)) for _, (_, _, _, content) in told}
    assert address.host.startswith("127.") and address.port != address.group_port
    assert address.folder == folder_id(tempfile.gettempdir())


def test_members_share_files_in_the_first_of_flinks_folders(tmp_path: pathlib.Path) -> None:
    (address,) = {
        Address(*json.loads(content))
        for _, (_, _, _, content) in start(
            Announce("announced", KEYS, "127.0.0.0/8", f"{tmp_path},/tmp"), attempt=1
        )
    }
    release("announced", 1, 1)
    assert address.folder == folder_id(str(tmp_path))


def test_the_ports_are_reserved_on_this_host(announce: Announce) -> None:
    address = Address(*json.loads(start(announce)[0][1][3]))
    for port in (address.port, address.group_port):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("", port))


def test_a_member_is_announced_once_in_each_attempt(announce: Announce) -> None:
    subtask = Subtask(announce, KEYS[1], index=1)
    element = Row(KEYS[1], Row(Element.START.value, 1, 0, b""))
    assert len(list(announce.process_element(element, subtask))) == 3
    assert list(announce.process_element(element, subtask)) == [], (
        "each task that gathers rows says that the job starts"
    )
    assert len(start(announce, attempt=1)) == 3


def test_a_host_without_an_address_in_the_network_is_an_error() -> None:
    with pytest.raises(
        ConfigurationError, match="hostNetwork: expected an address in 203.0.113.0/24"
    ):
        start(Announce("announced", KEYS, "203.0.113.0/24"))


def test_a_job_with_another_number_of_members_has_its_own_keys(announce: Announce) -> None:
    subtask = Subtask(announce, KEYS[1], index=1, parallelism=2)
    told = list(
        announce.process_element(Row(KEYS[1], Row(Element.START.value, 1, 0, b"")), subtask)
    )
    assert [key for key, _ in told] == [each[0] for each in keys_of_subtasks(2)]
