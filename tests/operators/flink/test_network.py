"""Network buffers of large groups, reckoned."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from operators.flink.network import BUFFER_BYTES, Manager, buffer_bytes, managers_of, shortage, warn_of_shortage
from operators.flink.rest import Rest


def test_channels_within_a_taskmanager_need_no_buffers_to_arrive_in() -> None:
    assert buffer_bytes(2, 1, slots=2, managers=1) == 2 * (3 * 3 + 3 + 2) * BUFFER_BYTES
    assert buffer_bytes(2, 1, slots=1, managers=2) == (3 * 3 + 3 + 2 + 2 * 3) * BUFFER_BYTES


def test_what_is_missing_is_told_with_what_to_set() -> None:
    manager = Manager(slots=1, network_bytes=128 << 20)
    assert shortage(100, 100, [manager] * 100) is None
    text = shortage(1000, 1000, [manager] * 1000)
    assert text is not None and text.startswith("1000 processes fed by 1000 subtasks need about 407m of network buffers")
    assert text.endswith(
        "which has 128m: set taskmanager.memory.network.min and taskmanager.memory.network.max to 407m or more"
    )


@pytest.mark.parametrize(("members", "warnings"), [(8, 0), (64, 1)])
def test_a_local_job_is_warned(members: int, warnings: int, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_shortage({"execution.target": "local"}, members, members)
    warn_of_shortage({"execution.target": "local", "taskmanager.memory.network.max": "4g"}, members, members)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * warnings


def test_taskmanagers_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: Any = {"taskmanagers": [{"id": "x", "slotsNumber": 4, "memoryConfiguration": {"networkMemory": 1 << 27}}]}
    monkeypatch.setattr(Rest, "get", lambda self, path: answer)
    assert managers_of(Rest("localhost:8081")) == [Manager(4, 1 << 27)]
