"""Groups whose members are processes of their own, on hosts of their own: stopped ones, and
networks that fail for real.

AKDL_TEST_NETWORK lets them wait as long as in a job, and makes the times in docs/reliability.md.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, wait_until, work_folders
from tests.support.network import Network, network, why_not
from tests.support.ports import free_ports

pytestmark = pytest.mark.process
ROOT = pathlib.Path(__file__).parents[3]
IN_FULL = "AKDL_TEST_NETWORK" in os.environ
LOST_S = 30.0 if IN_FULL else 2.0 * SLOWER
START_S = 8.0 * SLOWER
in_full = pytest.mark.skipif(not IN_FULL, reason="much as another test: set AKDL_TEST_NETWORK")
WAITS = """
import pathlib, threading
def main(config):
    assert len(config.tf_context.shares()) == 2  # all members know of each other
    pathlib.Path({folder!r}, f"{{config.task_type}}-runs").touch()
    threading.Event().wait()
"""
COUNT_EXTRA = """
def main(config):
    size = sum(len(row["text"]) for row in config.extra_inputs[0].rows())
    config.output_writer.write_batch({"rows": [size + config.dataset_length]})
"""
COUNT = (
    "def main(config):\n    config.output_writer.write_batch({'rows': [config.dataset_length]})\n"
)
THEN_WAIT = """
    import pathlib, time
    while not pathlib.Path({file!r}).exists():
        time.sleep(0.05)
"""


class LoneMember:
    """A member in a process of its own."""

    def __init__(self, pid: int, outcome: pathlib.Path, log: pathlib.Path) -> None:
        self.pid = pid
        self._outcome = outcome
        self._log = log

    def outcome(self) -> Any:
        """Wait for it to end, and return the rows that its script wrote, or its error."""
        wait_until(
            self._outcome.exists,
            f"the member ends that logs to {self._log}",
            DEADLINE_S + 2 * LOST_S,
        )
        found = json.loads(self._outcome.read_text())
        return found["error"] if isinstance(found, dict) else found


Start = Callable[..., list[LoneMember]]


@pytest.fixture(scope="module")
def forks() -> Iterator[Callable[..., int]]:
    """Starts a member and returns its process id."""
    command = [sys.executable, "-m", "tests.children.lone_members"]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stdout is not None

        def fork(**request: Any) -> int:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        yield fork
        server.stdin.close()


@pytest.fixture
def start(forks: Callable[..., int], tmp_path: pathlib.Path) -> Iterator[Start]:
    """Starts a group of a member on each host; on this machine where there are no hosts."""
    pids, before = [], work_folders()

    def start_group(
        script: str, hosts: Sequence[Any] = (), rows: Sequence[int] = (5, 5), **changes: Any
    ) -> list[LoneMember]:
        changes.setdefault("lost_s", LOST_S)
        ports = free_ports(2 * len(rows))
        names = [host.address for host in hosts] or ["127.0.0.1"] * len(rows)
        addresses = [[name, *ports[2 * index : 2 * index + 2]] for index, name in enumerate(names)]
        members = []
        for index, count in enumerate(rows):
            files = tmp_path / f"outcome-{index}", tmp_path / f"log-{index}"
            pid = forks(
                namespace=hosts[index].name if hosts else None, outcome=str(files[0]), log=str(files[1]), script=script,
                index=index, addresses=addresses, rows=count, **changes,
            )  # fmt: skip
            pids.append(pid)
            members.append(LoneMember(pid, *files))
        return members

    yield start_group
    for pid in pids:
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it has ended
    wait_until(
        lambda: work_folders() <= before,
        "their folders go, before what is on their hosts is killed",
    )


@pytest.fixture
def hosts() -> Iterator[Network]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with network(2, wires=True) as made:
        yield made


@pytest.fixture
def runs(tmp_path: pathlib.Path) -> Callable[[], bool]:
    """Says whether the scripts of both members run."""
    return lambda: all((tmp_path / f"{role}-runs").exists() for role in ("chief", "worker"))


@pytest.fixture
def waits(tmp_path: pathlib.Path) -> str:
    """A script that never ends."""
    return WAITS.format(folder=str(tmp_path))


@pytest.mark.slow
@pytest.mark.fault("jobs", "A stopped Python worker is named by another member")
def test_a_stopped_python_worker_is_named_by_another(
    start: Start, waits: str, runs: Callable[[], bool]
) -> None:
    chief, worker = start(waits)
    wait_until(runs, "both scripts run")
    os.kill(worker.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    assert (
        f"worker 0 on 127.0.0.1 has not reported for {LOST_S:g} s. Has its host failed, was Flink's Python worker stopped there"
        in chief.outcome()
    )
    print(f"{time.monotonic() - stopped:.1f} s after it was stopped")


@in_full
@pytest.mark.fault("jobs", "A stopped Python worker of the chief is named too")
def test_a_stopped_python_worker_of_the_chief_is_named_too(
    start: Start, waits: str, runs: Callable[[], bool]
) -> None:
    chief, worker = start(waits)
    wait_until(runs, "both scripts run")
    os.kill(chief.pid, signal.SIGSTOP)
    assert f"the chief has not answered for {LOST_S:g} s at 127.0.0.1:" in worker.outcome()


@pytest.mark.long
@pytest.mark.fault(
    "network", "A host that cannot be reached at the start is named after startTimeout"
)
def test_host_that_is_unreachable_from_the_start_is_named(hosts: Network, start: Start) -> None:
    hosts.wires[1].is_cut = True
    chief, worker = start(COUNT, hosts.hosts, start_timeout_s=START_S)
    where = [host.address for host in hosts.hosts]
    said = chief.outcome()
    assert (
        f"the group was not complete within the {START_S:g} s of startTimeout: worker 0 on {where[1]} did not report or connect"
        in said
    )
    said = worker.outcome()
    assert (
        f"the chief does not answer at {where[0]}:" in said
        and "If there is a firewall between the hosts" in said
    )


@pytest.mark.slow
@pytest.mark.fault("network", "A host that is cut off during the job is named")
def test_host_that_is_cut_off_later_is_named(
    hosts: Network, start: Start, waits: str, runs: Callable[[], bool]
) -> None:
    chief, worker = start(waits, hosts.hosts)
    wait_until(runs, "both scripts run")
    hosts.wires[1].is_cut = True
    cut = time.monotonic()
    assert (
        f"worker 0 on {hosts.hosts[1].address} has not reported for {LOST_S:g} s. Has its host failed"
        in chief.outcome()
    )
    assert (
        f"the chief has not answered for {LOST_S:g} s at {hosts.hosts[0].address}:"
        in worker.outcome()
    )
    print(f"both have said so {time.monotonic() - cut:.1f} s after the wire was cut")


@in_full
@pytest.mark.fault("network", "A failed host of the chief is named")
def test_failed_host_of_the_chief_is_named(
    hosts: Network, start: Start, waits: str, runs: Callable[[], bool]
) -> None:
    chief, worker = start(waits, hosts.hosts)
    wait_until(runs, "both scripts run")
    hosts.wires[0].is_cut = True  # nobody says goodbye
    os.kill(chief.pid, signal.SIGKILL)
    said = worker.outcome()
    assert (
        f"the chief has not answered for {LOST_S:g} s at {hosts.hosts[0].address}:" in said
        and "Has its host failed" in said
    )


@pytest.mark.parametrize(
    ("loss", "delay_s"),
    [(0.05, 0.0), pytest.param(0.0, 0.2, marks=pytest.mark.long)],
    ids=["lost", "late"],
)
@pytest.mark.fault("network")
def test_frames_that_are_lost_or_late_do_no_harm(
    hosts: Network, start: Start, tmp_path: pathlib.Path, loss: float, delay_s: float
) -> None:
    """A row crosses the network here, and each learns how many rows the other has."""
    wire = hosts.wires[1]
    wire.loss, wire.delay_s = loss, delay_s
    script = COUNT + THEN_WAIT.format(file=str(tmp_path / "end"))
    chief, worker = start(script, hosts.hosts, rows=(23, 0), equal_steps="repeat", lost_s=30.0)
    wait_until(lambda: wire.lost >= 3 if loss else wire.carried > 20, "some are")
    (tmp_path / "end").touch()
    assert [chief.outcome(), worker.outcome()] == [[23], [23]]


@pytest.mark.slow
def test_the_network_carries_an_extra_input_once_to_each_host(hosts: Network, start: Start) -> None:
    """Two members on each: member 0 has it from Flink."""

    def received(host: int) -> int:
        return int(
            pathlib.Path(f"/sys/class/net/{hosts.hosts[host].name}/statistics/tx_bytes").read_text()
        )

    before = [received(0), received(1)]
    one, two = hosts.hosts
    members = start(COUNT_EXTRA, (one, two, two, one), rows=(1, 2, 3, 4), extra=4)
    assert [member.outcome() for member in members] == [[4000001], [4000002], [4000003], [4000004]]
    first, second = (received(host) - before[host] for host in (0, 1))
    print(
        f"an input of 4 MB: {first / 1e6:.2f} MB to the host of member 0, {second / 1e6:.2f} MB to the other"
    )
    assert first < 1_000_000 and 4_000_000 < second < 5_000_000
