"""Damaged control messages: a bridge, a group and a model process refuse them and go on, and no
member is lost for others.
"""

from __future__ import annotations

import pathlib
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from akdl.wire import (
    RUNNING,
    BadRow,
    Chunk,
    EndOfInput,
    ExtraInputsRequest,
    Failure,
    GroupState,
    Hello,
    MemberReport,
    MemberState,
    Outcome,
    Output,
    Prediction,
    Progress,
    Report,
    Rows,
    Success,
    Task,
    Wishes,
)
from akdl.wire.columns import encode_columns
from akdl.wire.service import GROUP_SERVICE, PROTOCOL, SERVICE
from akdl.wire.token import TOKEN
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import BridgeError
from bridge.group.addresses import Address, release, reserve
from bridge.group.chunk_log import ChunkLog
from bridge.group.diagnosis import Situation, fault_of
from bridge.group.membership import GroupServer
from bridge.group.states import KnownStates
from bridge.member.bridge_server import BridgeServer
from bridge.member.session import ProtocolError, Session
from bridge.schema import Schema, table_columns
from bridge.serving.model_process import ModelSettings
from bridge.serving.outputs import PredictionSettings, with_outputs
from bridge.settings import GroupSettings
from tests.bridge.member.test_extra_input_delivery import HOSTS, Place
from tests.support.deadline import DEADLINE_S
from tests.support.fuzzing import cases, damage_message, damaged, outcomes

SCHEMA = Schema.parse("id BIGINT")
SETTINGS = GroupSettings(
    operator="Op", kind="batch", num_workers=3, num_ps=0, input_schema=SCHEMA, output_schema=SCHEMA, main_script="s.py",
    user_files=(), start_timeout_s=60.0, stall_timeout_s=100.0,
)  # fmt: skip


def spoilt(rng: random.Random, message: Any) -> Any:
    """Return a message that a process may have sent, whole or damaged."""
    if rng.random() < 0.3:
        return message
    if rng.random() < 0.5:
        damage_message(rng, message)
        return message
    try:
        return type(message).FromString(damaged(rng, message.SerializeToString()))
    except DecodeError:
        return message


@pytest.mark.fault("data", "A process that calls out of order is refused, and no row is lost")
def test_a_session_in_any_order_loses_no_rows() -> None:
    found = outcomes()
    for rng in cases():
        session = Session(attempt=1, queue_bytes=1000)
        written, taken = 0, 0
        for _ in range(rng.randrange(1, 12)):
            try:
                step = rng.randrange(8)
                if step == 0:
                    session.connect(spoilt(rng, Hello(pid=1, attempt=1, protocol=PROTOCOL)))
                elif step == 1:
                    session.report(
                        spoilt(
                            rng,
                            Progress(rows_read=3, report=Report(number=1, metrics={"loss": 0.5})),
                        )
                    )
                elif step == 2:
                    output = spoilt(rng, Output(rows=Rows(rows=2), cut=1))
                    session.add_rows(output)
                    written += output.rows.rows
                elif step == 3:
                    session.finish(
                        spoilt(rng, Outcome(success=Success(rows_read=1, rows_written=written)))
                    )
                    if session.outcome is not None and session.outcome.HasField("success"):
                        assert session.outcome.success.rows_written == written
                elif step == 4:
                    session.finish(spoilt(rng, Outcome(failure=Failure(type="E", message="m"))))
                elif step == 5:
                    session.offer(rng.randrange(5), b"x" * rng.randrange(600))
                elif step == 6:
                    session.end_input()
                else:
                    session.next_chunk()
                taken += sum(output.count for output in session.take_rows())
                found["taken"] += 1
            except ProtocolError:
                found["refused"] += 1
        assert taken == written == session.rows_out
    assert min(found["taken"], found["refused"]) > found.total() / 50, found


@pytest.mark.fault(
    "security", "Malformed calls of a process are refused, and the process still served"
)
def test_bridge_refuses_malformed_calls_and_goes_on(tmp_path: pathlib.Path) -> None:
    session, changed, found = (
        Session(attempt=1, queue_bytes=1 << 20),
        threading.Condition(),
        outcomes(),
    )
    server = BridgeServer(
        session, changed, lambda: None, Wishes, Task(operator="Op"), "secret", str(tmp_path)
    )
    server.start()
    channel = grpc.insecure_channel(server.address)
    hello = Hello(pid=1, attempt=1, protocol=PROTOCOL)
    messages = {
        "Connect": hello,
        "Report": Progress(
            rows_read=3, dataset_file="/x", report=Report(number=1, metrics={"a": 1.0})
        ),
    }
    connect = channel.unary_unary(f"/{SERVICE}/Connect", response_deserializer=Task.FromString)
    assert connect(hello.SerializeToString(), metadata=[(TOKEN, "secret")]).operator == "Op"
    for rng in cases(150):
        name = rng.choice(sorted(messages))
        try:
            call = channel.unary_unary(f"/{SERVICE}/{name}")
            call(
                damaged(rng, messages[name].SerializeToString()),
                metadata=[(TOKEN, "secret")],
                timeout=DEADLINE_S,
            )
            found[name] += 1
        except grpc.RpcError as error:
            found[error.code().name] += 1
    assert session.hello == hello
    assert found["Report"] and set(found) <= {
        "Report",
        "INTERNAL",
        "UNKNOWN",
        "FAILED_PRECONDITION",
    }, found
    channel.close()
    server.stop()


@pytest.mark.fault("data", "Predictions for other rows than were sent are an error")
def test_malformed_answers_of_a_model_process_are_refused() -> None:
    outputs, found = Schema.parse("y DOUBLE, z STRING"), outcomes()
    batch = pa.record_batch([pa.array([1, 2, 3])], names=["id"])
    for rng in cases():
        error_column = rng.choice([None, "error"])
        rows = encode_columns(
            {"y": [0.5, None, 1.5], "z": ["a", "ż", None]}, table_columns(outputs)
        )
        message = spoilt(rng, Prediction(rows=rows, bad_rows=[BadRow(row=1, message="bad")]))
        settings = PredictionSettings(
            ModelSettings("Op", "group", "{}", "secret"),
            "/model",
            SCHEMA,
            outputs,
            (("y", True),),
            error_column,
        )
        try:
            result = with_outputs(batch, message, ColumnDecoder(outputs), settings)
        except BridgeError:
            found["refused"] += 1
            continue
        result.validate(full=True)
        assert result.num_rows == 3
        found["rows"] += 1
    assert min(found["rows"], found["refused"]) > found.total() / 20, found


@contextmanager
def group_channel(**given: Any) -> Iterator[grpc.Channel]:
    """Yield a channel to a real group's server, which is made with what is given."""
    port = reserve("fuzz", 0, 0)[1]
    server = GroupServer("127.0.0.1", port, "secret", size=3, **given)
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel
    finally:
        channel.close()
        server.stop()
        release("fuzz", 0, 0)


@pytest.fixture
def group_call() -> Iterator[Callable[[bytes], bytes]]:
    """Call a real group's server with bytes."""
    with group_channel(attempt=0) as channel:
        call = channel.unary_unary(f"/{GROUP_SERVICE}/Report")
        yield lambda data: call(data, metadata=[(TOKEN, "secret")], timeout=DEADLINE_S)


@pytest.mark.fault(
    "security", "Malformed calls of a group are refused and its members still served"
)
def test_malformed_calls_of_a_group_are_refused_and_members_still_served(
    group_call: Callable[[bytes], bytes],
) -> None:
    state, found = MemberState(index=1, phase=RUNNING, rows=5, dataset_file="/tmp/x"), outcomes()
    report = MemberReport(state=state, version=1, wants_all=True)
    for rng in cases():
        try:
            answer = GroupState.FromString(group_call(damaged(rng, report.SerializeToString())))
            found["answered"] += 1
        except grpc.RpcError as error:
            found[error.code().name] += 1
            continue
        assert all(member.index < 3 for member in answer.members)
        known = KnownStates(SETTINGS)
        known.hosts = ["a", "b", "c"]
        known.update(answer.members)
        look_at(known)
    whole = GroupState.FromString(
        group_call(MemberReport(state=state, wants_all=True).SerializeToString())
    )
    assert state.rows in [member.rows for member in whole.members if member.index == 1]
    assert min(found["answered"], found.total() - found["answered"]) > found.total() / 50, found


def chunks_of_extra_inputs(count: int) -> list[Chunk]:
    """Return the chunks that member 0 keeps, with their end mark."""
    chunks = [
        Chunk(rows=number + 1, columns=b"%04d" % number * 20, input=1) for number in range(count)
    ]
    checksum = zlib.crc32(b"".join(chunk.columns for chunk in chunks))
    return [
        *chunks,
        Chunk(end=EndOfInput(rows=sum(chunk.rows for chunk in chunks), checksum=checksum)),
    ]


def test_requests_for_extra_inputs_are_refused_or_answered_to_the_end(
    tmp_path: pathlib.Path,
) -> None:
    *chunks, end = chunks_of_extra_inputs(5)
    chunk_log, found = ChunkLog(str(tmp_path / "log")), outcomes()
    for chunk in chunks:
        chunk_log.append(chunk.rows, chunk.columns, chunk.input)
    chunk_log.end()
    request = ExtraInputsRequest(attempt=2, taken=3)
    given: dict[str, Any] = {"metadata": [(TOKEN, "secret")], "timeout": 30}
    with group_channel(attempt=2, chunk_log=chunk_log) as channel:
        take = channel.unary_stream(
            f"/{GROUP_SERVICE}/TakeExtraInputs", response_deserializer=Chunk.FromString
        )
        for rng in cases():
            try:
                answer = list(take(damaged(rng, request.SerializeToString()), **given))
            except grpc.RpcError as error:
                found[error.code().name] += 1
                continue
            assert answer in [[*chunks, end][start:] for start in range(7)]
            found["answered"] += 1
        assert list(take(request.SerializeToString(), **given)) == [*chunks[3:], end]
    chunk_log.close()
    assert min(found["answered"], found.total() - found["answered"]) > found.total() / 50, found


class Refusal(grpc.RpcError):  # type: ignore[misc]
    """An error of the line that is not tried again."""

    def code(self) -> grpc.StatusCode:
        """Return its kind."""
        return grpc.StatusCode.INTERNAL

    def details(self) -> str:
        """Return its reason."""
        return "cut"


class Line:
    """A call that yields messages, and then an error."""

    def __init__(self, messages: list[Chunk]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[Chunk]:
        yield from self._messages
        raise Refusal

    def cancel(self) -> None:
        """Nothing waits here."""


@pytest.mark.fault("jobs", "Extra inputs whose chunks are lost, doubled or damaged are an error")
def test_extra_inputs_come_whole_or_not_at_all(tmp_path: pathlib.Path) -> None:
    addresses, found = [Address(host, 1, 2) for host in HOSTS], outcomes()
    for rng in cases():
        sent = chunks_of_extra_inputs(4)
        stream = [
            spoilt(rng, Chunk.FromString(chunk.SerializeToString()))
            if rng.random() < 0.1
            else chunk
            for chunk in sent
        ]
        place = rng.randrange(5)
        edit = rng.randrange(6)
        if edit == 0:
            del stream[place]
        elif edit == 1:
            stream.insert(place, stream[rng.randrange(5)])
        elif edit == 2:
            del stream[place:]
        taker = Place(1, tmp_path / "1")
        taker.extra.settle(addresses, "{}")
        taker.extra.fetch(lambda taken, stream=stream: Line(stream))
        with taker.changed:
            taker.changed.wait_for(
                lambda taker=taker: taker.extra.is_complete or taker.extra.error is not None
            )
        if taker.extra.error is None:
            assert taker.take() == sent[:-1], "rows were lost, doubled or changed"
            found["whole"] += 1
        else:
            found["refused"] += 1
        taker.leave()
    assert min(found["whole"], found["refused"]) > found.total() / 20, found


@pytest.mark.fault("security", "A group is described even where its states make no sense")
def test_states_of_any_content_are_described() -> None:
    for rng in cases():
        known = KnownStates(SETTINGS)
        known.hosts = ["a", "b", "c"]
        for index in range(3):
            state = MemberState(
                index=index, phase=RUNNING, rows=5, rows_read=1, failure="x", idle_s=20, silent_s=40
            )
            damage_message(rng, state)
            known.update([state])
        look_at(known)


def look_at(known: KnownStates) -> None:
    """Ask everything that follows from states."""
    situation = Situation(
        index=0, age_s=1e6, is_connected=True, has_addresses=True, is_running=True, has_outcome=True
    )
    fault = fault_of(situation, known, SETTINGS)
    assert fault is None or fault.what
    assert known.describe()
    assert known.shares is None or len(known.shares.shares) == 3
    assert len(known.share_sizes) <= 3
    assert known.can_do_without(2) in (True, False)
