"""Members that Flink has left without a word are stopped."""

from __future__ import annotations

import errno

import pytest

from akdl.wire import Report
from bridge.member import registry
from tests.support.beam_worker import Worker
from tests.support.leftovers import wait_until
from tests.support.statuses import status_of

pytestmark = pytest.mark.process


class Member:
    """Waits for Flink to call."""

    group, label, unanswered_s, is_stopped = "here", "chief 0", 0.0, False
    report, status = Report(), status_of("here", 0, "chief 0", rows_in=3)

    @property
    def observer(self) -> Member:
        return self

    def look(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        self.is_stopped = True
        registry.discard(self)


@pytest.mark.fault(
    "jobs", "A process is stopped when its Python worker loses the connection to Flink"
)
def test_a_member_ends_with_its_worker() -> None:
    orphan, other = Member(), Member()

    def work() -> None:
        registry.add(orphan)
        worker.lose_line()
        wait_until(lambda: orphan.is_stopped, "the member of the worker that has ended is stopped")
        assert not other.is_stopped

    def work_on() -> None:
        registry.add(other)
        worker.run()
        other.stop()

    worker = Worker(work)
    Worker(work_on).run()


class Unseen(Member):
    """Its process cannot be looked at."""

    def look(self) -> None:
        raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.fault(
    "hosts", "A process that cannot be looked at does not keep others from their end"
)
def test_member_that_cannot_be_looked_at_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "LOOK_S", 0.05)
    unseen = Unseen()
    registry.add(unseen)
    wait_until(lambda: "Too many open files" in caplog.text, "the failed look is in the log")
    unseen.unanswered_s = registry.ABANDONED_S + 1
    wait_until(lambda: unseen.is_stopped, "the member is stopped all the same")


def test_the_last_status_stays_until_the_job_has_ended() -> None:
    member = Member()
    registry.add(member)
    assert registry.statuses(["here"]) == [member.status]
    member.stop()
    assert registry.statuses(["here"]) == [member.status] and registry.statuses(["other"]) == []
    registry.forget_groups(["here"])
    assert registry.statuses(["here"]) == []


def test_jobs_that_have_one_group_at_once_stop_it_when_the_last_has_ended() -> None:
    member = Member()
    registry.add(member)
    for _ in range(2):
        registry.begin_groups(["here", "elsewhere"])
    assert not registry.stop_groups(["here", "elsewhere"]) and not member.is_stopped
    assert registry.stop_groups(["here", "elsewhere"]) == {"here", "elsewhere"}
    assert member.is_stopped
