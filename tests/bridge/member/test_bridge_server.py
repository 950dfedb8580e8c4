"""The server of one process, called over real gRPC from this one."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable

import pytest

from akdl.process.channel import Channel, ChannelError
from akdl.wire import (
    Cluster,
    Hello,
    Outcome,
    Output,
    Progress,
    Rows,
    Share,
    Shares,
    Success,
    Task,
    Wishes,
)
from akdl.wire.service import PROTOCOL
from bridge.member.bridge_server import BridgeServer
from bridge.member.session import Session
from bridge.member.written_rows import WrittenRows
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.strangers import strangers

TOKEN = "secret"


class Line:
    """Both ends: a session behind its server, and channels to it."""

    def __init__(self, folder: str) -> None:
        self.session, self.changed = Session(attempt=3, queue_bytes=10), threading.Condition()
        self.shares: Shares | None = None
        self.wishes = Wishes()
        task = Task(operator="TestOp", num_workers=2)
        self.server = BridgeServer(
            self.session, self.changed, lambda: self.shares, lambda: self.wishes, task, TOKEN, folder
        )  # fmt: skip
        self.server.start()
        self.channel = Channel(self.server.address, TOKEN)
        self.calls = ThreadPoolExecutor()

    def change(self, change: Callable[[], Any]) -> Any:
        with self.changed:
            result = change()
            self.changed.notify_all()
            return result

    def wait_for_change(self, has_changed: Callable[[], bool]) -> None:
        """With the lock held: wait for a change of which the server tells."""
        while not has_changed():
            assert self.changed.wait(DEADLINE_S), "nobody was told of the change"

    def call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make a call that waits, in a thread."""
        return self.calls.submit(function, *arguments)

    def end(self) -> None:
        self.server.stop()
        self.channel.close()
        self.calls.shutdown()


@pytest.fixture
def line(tmp_path: pathlib.Path) -> Iterator[Line]:
    made = Line(str(tmp_path))
    yield made
    made.end()


def hello(**changes: Any) -> Hello:
    return Hello(**{"pid": 7, "attempt": 3, "protocol": PROTOCOL, **changes})


@pytest.mark.fault("network", "Silent and malformed connections do not disturb a process")
def test_silent_and_malformed_connections_do_not_disturb_the_process(line: Line) -> None:
    with strangers(line.server.address):
        assert line.channel.connect(hello()).operator == "TestOp"


def test_first_process_receives_its_task_and_a_second_one_is_refused(line: Line) -> None:
    task = line.channel.connect(hello())
    assert (task.operator, task.num_workers) == ("TestOp", 2)
    assert line.session.hello is not None and line.session.hello.pid == 7
    with pytest.raises(
        ChannelError,
        match=r"broke in Connect: process 8 tried to connect after process 7.* \(FAILED_PRECONDITION\)",
    ):
        line.channel.connect(hello(pid=8))


@pytest.mark.fault("security", "Each call to a process needs its token")
def test_every_call_needs_the_token(line: Line) -> None:
    stranger = Channel(line.server.address, "guess")
    calls = [
        lambda: stranger.connect(hello()),
        stranger.wait_for_cluster,
        lambda: list(stranger.read()),
        lambda: stranger.write([Output(rows=Rows(rows=1))]),
        lambda: stranger.report(Progress(rows_read=9)),
        stranger.wait_for_shares,
        lambda: stranger.finish(Outcome(success=Success())),
    ]
    for call in calls:
        with pytest.raises(
            ChannelError,
            match=r"the call does not carry the token of this process \(UNAUTHENTICATED\)",
        ):
            call()
    stranger.close()
    session = line.session
    assert (session.hello, session.outcome, session.rows_out, session.progress.rows_read) == (
        None,
        None,
        0,
        0,
    )


@pytest.mark.fault(
    "hosts", "A folder with too long a path for a Unix socket leads to a connection on 127.0.0.1"
)
def test_a_folder_with_a_long_path_has_no_socket(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / ("x" * 110)
    folder.mkdir()
    line = Line(str(folder))
    assert line.server.address.startswith("127.0.0.1:") and not list(folder.iterdir())
    assert line.channel.connect(hello()).operator == "TestOp"
    line.end()


def test_wait_for_cluster_returns_when_the_cluster_is_known(line: Line) -> None:
    waiting = line.call(line.channel.wait_for_cluster)
    line.channel.report(Progress())  # a call behind it has been answered
    assert not waiting.done()
    line.change(lambda: setattr(line.session, "cluster", Cluster(tf_config="{}")))
    assert waiting.result(DEADLINE_S).tf_config == "{}"


def test_chunks_are_read_as_they_come_until_the_end_mark(line: Line) -> None:
    chunks = line.channel.read()
    line.change(lambda: line.session.offer(2, b"ab"))
    first = next(chunks)
    line.change(lambda: line.session.offer(1, b"c", extra_input=2))
    second = next(chunks)
    line.change(line.session.end_input)
    (end,) = chunks
    assert (first.rows, first.columns, first.input) == (2, b"ab", 0)
    assert (second.rows, second.columns, second.input) == (1, b"c", 2)
    assert end.HasField("end") and end.end.rows == 2 and not first.HasField("end")


def test_reading_a_chunk_makes_room_for_the_next_one(line: Line) -> None:
    line.change(lambda: line.session.offer(1, b"more than the queue has room for"))
    assert not line.change(lambda: line.session.has_room(1))
    chunks = line.channel.read()
    with line.changed:
        next_one = line.call(next, chunks)
        line.wait_for_change(lambda: line.session.has_room(1))
        line.session.offer(1, b"x")
        line.changed.notify_all()
    assert next_one.result(DEADLINE_S).rows == 1 and next(chunks).columns == b"x"


def test_reading_ends_with_the_script(line: Line) -> None:
    reading = line.call(lambda: list(line.channel.read()))
    line.channel.finish(Outcome(success=Success()))
    assert reading.result(DEADLINE_S) == [], "without an end mark, as nobody reads on"


def test_writing_waits_for_room(line: Line) -> None:
    big = Output(rows=Rows(rows=1), cut=2**63)  # as large as the queue, with the next byte
    messages = [big] * 3
    writing = line.call(line.channel.write, messages)
    wait_until(lambda: not line.session.has_output_room, "the queue is full")
    assert not writing.done() and line.session.rows_out < 3
    taken: list[WrittenRows] = []
    wait_until(
        lambda: taken.extend(line.change(line.session.take_rows)) or len(taken) == 6,
        "all are taken, and the cuts",
    )
    writing.result(DEADLINE_S)
    assert [each.take() for each in taken[1::2]] == [big.rows] * 3 and line.session.rows_out == 3


def test_a_report_is_noted_and_answered_with_wishes(line: Line) -> None:
    assert not line.channel.report(Progress(rows_read=1)).dataset_file
    line.wishes = Wishes(dataset_file=True)
    assert line.channel.report(Progress(rows_read=4)).dataset_file
    assert line.session.progress.rows_read == 4


def test_shares_are_waited_for(line: Line) -> None:
    waiting = line.call(line.channel.wait_for_shares)
    line.channel.report(Progress())
    assert not waiting.done()
    line.change(lambda: setattr(line, "shares", Shares(shares=[Share(path="/a", rows=3)])))
    assert [(share.path, share.rows) for share in waiting.result(DEADLINE_S).shares] == [("/a", 3)]


def test_calls_that_break_the_protocol_are_refused(line: Line) -> None:
    with pytest.raises(
        ChannelError,
        match=r"expected the 2 rows that the script wrote, got 0 \(FAILED_PRECONDITION\)",
    ):
        line.channel.finish(Outcome(success=Success(rows_written=2)))
    line.channel.finish(Outcome(success=Success()))
    with pytest.raises(
        ChannelError, match=r"rows after its script had ended \(FAILED_PRECONDITION\)"
    ):
        line.channel.write([Output(rows=Rows(rows=1))])


def test_each_call_wakes_waiting_callers(line: Line) -> None:
    calls: list[tuple[Callable[[], Any], Callable[[], bool]]] = [
        (lambda: line.channel.connect(hello()), lambda: line.session.hello is not None),
        (
            lambda: line.channel.report(Progress(rows_read=1)),
            lambda: line.session.progress.rows_read == 1,
        ),
        (lambda: line.channel.write([Output(rows=Rows(rows=1))]), lambda: line.session.has_rows),
        (
            lambda: line.channel.finish(Outcome(success=Success(rows_written=1))),
            lambda: line.session.outcome is not None,
        ),
    ]
    for call, has_changed in calls:
        with line.changed:
            called = line.call(call)
            line.wait_for_change(has_changed)
        called.result(DEADLINE_S)


@pytest.mark.parametrize("wait", ["wait_for_cluster", "wait_for_shares"])
def test_stop_cancels_waiting_calls(line: Line, wait: str) -> None:
    waiting = line.call(getattr(line.channel, wait))
    line.channel.report(Progress())
    line.server.stop()
    line.server.stop()
    with pytest.raises(ChannelError, match="(CANCELLED|UNAVAILABLE)"):
        waiting.result(DEADLINE_S)
