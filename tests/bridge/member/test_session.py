"""The rules of an exchange, without a process."""

import zlib

import pytest

from akdl.wire import ENDED, FAILED, RUNNING, STARTING, Chunk, Failure, Hello, Outcome, Output, Rows, Success
from akdl.wire.service import PROTOCOL
from bridge.member.session import ProtocolError, Session


def test_input_goes_out_in_order_and_ends_with_count_and_checksum():
    session = Session(attempt=0, queue_bytes=100)
    assert not session.has_chunk
    session.offer(2, b"ab")
    session.offer(1, b"c")
    session.end_input()
    first, second, end = (Chunk.FromString(session.next_chunk()) for _ in range(3))
    assert (first.rows, first.columns, second.rows, second.columns) == (2, b"ab", 1, b"c")
    assert (end.end.rows, end.end.checksum) == (3, zlib.crc32(b"abc"))
    assert session.next_chunk() is None and not session.has_chunk


def test_empty_input_still_ends():
    session = Session(attempt=0, queue_bytes=100)
    session.end_input()
    assert Chunk.FromString(session.next_chunk()).end.rows == 0


def test_input_is_bounded_in_bytes_but_one_chunk_always_passes():
    session = Session(attempt=0, queue_bytes=4)
    assert session.has_room(21)
    session.offer(1, b"longer than the queue")
    assert not session.has_room(1)
    session.next_chunk()
    session.offer(1, b"xxx")
    assert session.has_room(1) and not session.has_room(2)


def test_rows_after_the_end_are_an_error_not_a_loss():
    session = Session(attempt=0, queue_bytes=4)
    session.end_input()
    with pytest.raises(ProtocolError, match="3 rows came after the end"):
        session.offer(3, b"x")


def test_a_process_of_another_attempt_is_refused():
    session = Session(attempt=1, queue_bytes=4)
    with pytest.raises(ProtocolError, match="attempt 0, this is 1"):
        session.connect(Hello(pid=7, attempt=0, protocol=PROTOCOL))


def test_a_process_with_another_akdl_is_refused():
    session = Session(attempt=0, queue_bytes=4)
    with pytest.raises(ProtocolError, match="process 7 speaks protocol 0 and Flink's worker 1: .* another akdl"):
        session.connect(Hello(pid=7))


def test_a_second_process_is_refused():
    session = Session(attempt=0, queue_bytes=4)
    session.connect(Hello(pid=7, protocol=PROTOCOL))
    with pytest.raises(ProtocolError, match="process 8 came after process 7"):
        session.connect(Hello(pid=8, protocol=PROTOCOL))


def test_output_is_bounded_in_bytes_and_taken_at_once():
    session = Session(attempt=0, queue_bytes=10)
    session.add_rows(Output(rows=Rows(rows=1), committed=2**60))
    assert not session.has_output_room and session.has_rows
    assert [output.rows.rows for output in session.take_rows()] == [1]
    assert session.has_output_room and not session.has_rows


def test_a_script_may_end_before_it_has_read_all():
    session = Session(attempt=0, queue_bytes=10)
    session.offer(2, b"ab")
    session.finish(Outcome(success=Success()))
    assert session.has_room(11), "what is thrown away needs none"
    session.offer(3, b"cde")
    assert (session.rows_in, session.rows_discarded) == (5, 5)


def test_lost_output_is_an_error():
    session = Session(attempt=0, queue_bytes=10)
    session.add_rows(Output(rows=Rows(rows=1)))
    with pytest.raises(ProtocolError, match="wrote 2 rows, 1 arrived"):
        session.finish(Outcome(success=Success(rows_written=2)))


def test_rows_after_the_end_of_the_script_are_refused():
    session = Session(attempt=0, queue_bytes=10)
    session.finish(Outcome(failure=Failure(type="ValueError")))
    assert session.failure.type == "ValueError"
    with pytest.raises(ProtocolError, match="after the script had ended"):
        session.add_rows(Output(rows=Rows(rows=1)))
    with pytest.raises(ProtocolError, match="ended twice"):
        session.finish(Outcome(success=Success()))


def test_the_status_goes_from_the_start_to_one_of_two_ends(caplog):
    caplog.set_level("DEBUG", "bridge.member.session")
    ended, failed = Session(0, 10, "TestOp, worker 0"), Session(0, 10, "TestOp, worker 1")
    assert ended.status == STARTING
    ended.connect(Hello(pid=7, protocol=PROTOCOL))
    assert ended.status == RUNNING
    ended.end()
    failed.fail("killed by signal 9")
    failed.fail("killed by signal 9")
    assert (ended.status, failed.status, failed.reason) == (ENDED, FAILED, "killed by signal 9")
    assert caplog.messages == [
        "TestOp, worker 0: STARTING -> RUNNING",
        "TestOp, worker 0: RUNNING -> ENDED",
        "TestOp, worker 1: STARTING -> FAILED: killed by signal 9",
    ]
