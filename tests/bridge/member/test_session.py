"""The rules of an exchange, without a process."""

from __future__ import annotations

import zlib

import pytest

from akdl.wire import (
    ENDED,
    FAILED,
    RUNNING,
    STARTING,
    Chunk,
    Cluster,
    Column,
    Failure,
    Hello,
    Outcome,
    Output,
    Progress,
    Report,
    Rows,
    Success,
)
from akdl.wire.service import PROTOCOL
from bridge.member.session import ProtocolError, Session, Stage
from bridge.member.written_rows import WrittenQueue


def test_input_is_sent_in_order_and_ends_with_count_and_checksum() -> None:
    session = Session(attempt=0, queue_bytes=100)
    assert not session.has_chunk
    session.offer(2, b"ab")
    session.offer(1, b"c")
    session.end_input()
    first, second, end = (Chunk.FromString(session.next_chunk()) for _ in range(3))
    assert (first.rows, first.columns, second.rows, second.columns) == (2, b"ab", 1, b"c")
    assert (end.end.rows, end.end.checksum) == (3, zlib.crc32(b"abc"))
    assert session.next_chunk() is None and not session.has_chunk


def test_empty_input_still_ends() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.end_input()
    assert Chunk.FromString(session.next_chunk()).end.rows == 0


def test_input_is_bounded_in_bytes_but_one_chunk_always_passes() -> None:
    session = Session(attempt=0, queue_bytes=4)
    assert session.has_room(21)
    session.offer(1, b"longer than the queue")
    assert not session.has_room(1)
    session.next_chunk()
    session.offer(1, b"xxx")
    assert session.has_room(1) and not session.has_room(2)


def test_sent_input_makes_room_for_more() -> None:
    session = Session(attempt=0, queue_bytes=4)
    session.offer(1, b"abcd")
    assert session.is_input_full
    session.next_chunk()
    assert not session.is_input_full
    session.offer(1, b"ab")
    assert session.has_room(2) and not session.is_input_full
    assert not session.has_room(3) and session.is_input_full, (
        "a chunk waits, though there is room for a smaller one"
    )
    session.next_chunk()
    assert not session.is_input_full
    session.refuse()
    assert session.is_input_full, "a chunk waits for a commit"
    assert session.has_room(3) and not session.is_input_full


def test_rows_after_the_end_are_an_error_not_a_loss() -> None:
    session = Session(attempt=0, queue_bytes=4)
    session.end_input()
    with pytest.raises(ProtocolError, match="3 rows arrived after the end"):
        session.offer(3, b"x")


@pytest.mark.fault("security", "A process of an earlier attempt is refused")
def test_a_process_of_another_attempt_is_refused() -> None:
    session = Session(attempt=1, queue_bytes=4)
    with pytest.raises(ProtocolError, match="attempt 0, this is attempt 1"):
        session.connect(Hello(pid=7, attempt=0, protocol=PROTOCOL))


def test_a_process_with_another_akdl_is_refused() -> None:
    session = Session(attempt=0, queue_bytes=4)
    with pytest.raises(
        ProtocolError,
        match="got process 7 with protocol 0: it has imported another release of akdl",
    ):
        session.connect(Hello(pid=7))


def test_a_second_process_is_refused() -> None:
    session = Session(attempt=0, queue_bytes=4)
    session.connect(Hello(pid=7, protocol=PROTOCOL))
    with pytest.raises(ProtocolError, match="process 8 tried to connect after process 7"):
        session.connect(Hello(pid=8, protocol=PROTOCOL))


def test_output_is_bounded_in_bytes_and_taken_at_once() -> None:
    session = Session(attempt=0, queue_bytes=10)
    session.add_rows(Output(rows=Rows(rows=1, columns=[Column(values=b"0123456789")])))
    assert not session.has_output_room and session.has_rows
    assert [output.count for output in session.take_rows()] == [1]
    assert session.has_output_room and not session.has_rows


def test_a_script_may_end_before_it_has_read_all() -> None:
    session = Session(attempt=0, queue_bytes=10)
    session.offer(2, b"ab")
    session.finish(Outcome(success=Success()))
    assert session.has_room(11), "what is thrown away needs none"
    session.offer(3, b"cde")
    assert (session.rows_in, session.rows_discarded) == (5, 5)


@pytest.mark.fault("data")
def test_lost_output_is_an_error() -> None:
    session = Session(attempt=0, queue_bytes=10)
    session.add_rows(Output(rows=Rows(rows=1)))
    with pytest.raises(ProtocolError, match="expected the 2 rows that the script wrote, got 1"):
        session.finish(Outcome(success=Success(rows_written=2)))


def test_rows_after_the_end_of_the_script_are_refused() -> None:
    session = Session(attempt=0, queue_bytes=10)
    session.finish(Outcome(failure=Failure(type="ValueError")))
    assert session.failure.type == "ValueError"
    with pytest.raises(ProtocolError, match="sent rows after its script had ended"):
        session.add_rows(Output(rows=Rows(rows=1)))
    with pytest.raises(ProtocolError, match="reported the end of its script twice"):
        session.finish(Outcome(success=Success()))


def test_each_stage_is_entered_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "bridge.member.session")
    ended, failed = Session(0, 10, "TestOp, worker 0"), Session(0, 10, "TestOp, worker 1")
    assert (ended.stage, ended.phase) == (Stage.STARTING, STARTING)
    ended.connect(Hello(pid=7, protocol=PROTOCOL))
    assert (ended.stage, ended.phase) == (Stage.JOINING, RUNNING)
    ended.join(Cluster())
    ended.report(Progress(exporting=True))
    ended.report(Progress())
    ended.end_input()
    ended.end()
    failed.join(Cluster())
    failed.connect(Hello(pid=8, protocol=PROTOCOL))
    failed.fail("killed by signal 9")
    failed.fail("killed by signal 9")
    failed.end_input()
    assert (ended.phase, failed.phase, failed.reason) == (ENDED, FAILED, "killed by signal 9")
    assert failed.stage_reached == Stage.FEEDING
    assert caplog.messages == [
        "TestOp, worker 0: STARTING -> JOINING",
        "TestOp, worker 0: JOINING -> FEEDING",
        "TestOp, worker 0: FEEDING -> EXPORTING",
        "TestOp, worker 0: EXPORTING -> ENDED",
        "TestOp, worker 1: STARTING -> FEEDING",
        "TestOp, worker 1: FEEDING -> FAILED: killed by signal 9",
    ]


def test_written_rows_can_be_taken_only_once() -> None:
    session = Session(0, 10)
    output = Output(rows=Rows(rows=1, columns=[Column()]), cut=4)
    session.add_rows(output)
    cut, written = session.take_rows()
    assert (cut.count, cut.cut, written.count, written.cut, written.take()) == (
        0,
        4,
        1,
        0,
        output.rows,
    )
    with pytest.raises(AssertionError, match="once"):
        written.take()


def test_extra_inputs_are_checked_but_are_no_rows_of_this_worker() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.offer(2, b"ab")
    session.offer(5, b"extra", extra_input=1)
    session.end_input()
    chunks = [Chunk.FromString(session.next_chunk()) for _ in range(3)]
    assert [chunk.input for chunk in chunks] == [0, 1, 0]
    assert (chunks[2].end.rows, chunks[2].end.checksum) == (2, zlib.crc32(b"abextra"))


def test_extra_inputs_are_not_counted_among_the_rows_that_were_dropped() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.offer(2, b"ab")
    session.offer(5, b"extra", extra_input=1)
    session.finish(Outcome(success=Success()))
    session.offer(7, b"extra", extra_input=1)
    assert (session.rows_in, session.rows_discarded) == (2, 2)
    assert not session.has_chunk and not session.is_input_full, (
        "nothing is kept for a script that has ended"
    )


def test_a_member_whose_script_has_returned_waits_for_flink_until_the_last_row() -> None:
    session = Session(attempt=0, queue_bytes=100)
    assert not session.awaits_flink
    session.report(Progress(waiting=True))
    assert session.awaits_flink
    session.finish(Outcome(success=Success()))
    session.report(Progress(waiting=False))
    assert session.awaits_flink
    session.has_all_rows = True
    session.report(Progress(waiting=True))  # as it was before the end
    assert not session.awaits_flink


def test_rows_may_be_taken_beyond_the_bound() -> None:
    session = Session(attempt=0, queue_bytes=2)
    session.offer(1, b"ab")
    assert session.is_input_full and not session.has_room(1)
    session.offer(1, b"c")
    assert session.rows_in == 2


def test_cut_counts_when_the_rows_before_it_have_been_taken() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.add_rows(Output(cut=3))
    session.add_rows(Output(rows=Rows(rows=1)))
    assert session.rows_done == 0
    session.take_rows()
    assert session.rows_done == 3


def test_rows_read_count_as_finished_for_a_script_without_commits() -> None:
    session = Session(0, 100, "", WrittenQueue(holds=True))
    session.report(Progress(rows_read=5))
    assert session.rows_done == 0
    session.add_rows(Output(loose=True))
    session.add_rows(Output(rows=Rows(rows=1)))
    assert session.rows_done == 5 and [each.count for each in session.take_rows()] == [1]


def test_rows_read_are_those_of_the_last_report() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.report(Progress(rows_read=2))
    session.finish(Outcome(success=Success(rows_read=5)))
    assert session.progress.rows_read == 5


def test_an_older_report_of_a_training_does_not_replace_a_newer_one() -> None:
    session = Session(attempt=0, queue_bytes=100)
    session.report(Progress(report=Report(number=2, step=20)))
    session.report(Progress(rows_read=5, report=Report(number=1, step=10)))
    assert (session.progress.rows_read, session.progress.report.step) == (5, 20)


@pytest.mark.parametrize(
    ("earlier", "rows_read", "left"),
    [
        ([Output(cut=2)], 4, 0),
        ([Output(cut=2)], 2, 1),
        ([Output(cut=2, state=b"saved")], 4, 1),
        ([Output(loose=True)], 4, 1),
    ],
    ids=["rows that come again", "all rows finished", "a state", "no cuts"],
)
def test_a_script_that_starts_again_writes_the_output_of_repeated_rows_once(
    earlier: list[Output], rows_read: int, left: int
) -> None:
    session = Session(attempt=0, queue_bytes=100, output=WrittenQueue(holds=True), restarts=True)
    for output in [*earlier, Output(rows=Rows(rows=1))]:
        session.add_rows(output)
    session.finish(Outcome(success=Success(rows_read=rows_read, rows_written=1)))
    assert sum(written.count for written in session.take_rows()) == left
