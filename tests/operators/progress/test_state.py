"""From statuses to the line of an operator."""

from __future__ import annotations

from typing import Any

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import (
    DATA,
    ENDED,
    EXPORT,
    EXPORTING,
    FEEDING,
    LOST,
    PEERS,
    READ,
    START,
    STARTING,
    TRAINING,
    WORK,
)
from operators.progress.state import OperatorState, Shown
from tests.support.statuses import status_of


def _status(index: int = 0, **known: Any) -> MemberStatus:
    return status_of("g", index, f"worker {index}", **known)


def _after(state: OperatorState, *looks: tuple[float, list[MemberStatus] | None]) -> OperatorState:
    for now, statuses in looks:
        state.look(now, statuses)
    return state


def test_progress_before_any_member_says_that_flink_starts() -> None:
    assert str(OperatorState(Shown("train.py"), 0.0).line()) == "train.py: Flink starts, 0 s"


def test_a_group_that_starts_is_counted() -> None:
    state = _after(
        OperatorState(Shown("a.py", 3), 0.0),
        (1.0, [_status(0, phase=FEEDING), _status(1, phase=STARTING)]),
    )
    assert str(state.line()) == "a.py: starting, 1 of 3 processes"


def test_progress_of_a_feed_names_the_bottleneck() -> None:
    feeds = {"phase": FEEDING, "age_s": 12.0}
    slow_script = _status(
        rows_in=2000,
        rows_read=1000,
        time_s={START: 2.0, WORK: 5.0, READ: 1.1, DATA: 1.0, PEERS: 2.9},
        **feeds,
    )
    state = _after(
        OperatorState(Shown("a.py"), 0.0), (1.0, [_status(phase=FEEDING)]), (3.0, [slow_script])
    )
    assert str(state.line()) == (
        "a.py: feeding, 2,000 rows in, 0 out, 1,000 rows/s, script waited 10%, worked 61% (the script is the bottleneck)"
    )
    slow_flink = _status(
        rows_in=2000, rows_read=2000, time_s={START: 2.0, DATA: 9.0, PEERS: 1.0}, **feeds
    )
    state = _after(OperatorState(Shown("a.py"), 0.0), (1.0, [slow_flink]))
    assert state.line().text.endswith("script waited 90%, worked 0% (Flink is the bottleneck)")


def test_progress_of_a_predictor_shows_its_rows() -> None:
    state = OperatorState(Shown("Op", predicts=True), 0.0)
    assert str(_after(state, (1.0, [_status(phase=STARTING)])).line()) == "Op: loading the model"
    predicts = {"phase": FEEDING, "time_s": {WORK: 1.8, DATA: 0.2}, "age_s": 2.0}
    first = [_status(phase=FEEDING, gpus="1")]
    then = [
        _status(rows_in=600, rows_out=600, gpus="1", **predicts),
        _status(1, rows_in=400, rows_out=400, **predicts),
    ]
    assert str(_after(state, (2.0, first), (4.0, then)).line()) == (
        "Op: predicting on GPU 1, 1,000 rows in, 1,000 out, 333 rows/s, model waited 10%, worked 90% (the model is the bottleneck)"
    )
    ends = {**predicts, "phase": ENDED}
    state.look(
        5.0,
        [_status(rows_in=600, rows_out=600, **ends), _status(1, rows_in=400, rows_out=400, **ends)],
    )
    assert (
        str(state.last_line())
        == "Op: 1,000 rows in, 1,000 out, 5 s: useful work 51%, waiting for data 6%, start 43%"
    )


def test_progress_of_a_training_shows_step_metrics_and_remaining_time() -> None:
    def at(step: int) -> MemberStatus:
        return _status(
            phase=TRAINING,
            rows_in=10,
            rows_read=10,
            step=step,
            metrics={"loss": 0.25, "total_steps": 400.0},
        )

    state = _after(
        OperatorState(Shown("a.py", trains=True), 0.0), (1.0, [at(100)]), (3.0, [at(200)])
    )
    line = state.line()
    assert (
        str(line) == "a.py: training, 10 rows in, 0 out, step 200 of 400, loss 0.25, 4 s left"
        and line.done == 0.5
    )


def test_progress_of_a_known_number_of_rows_shows_remaining_time() -> None:
    def at(rows_read: int) -> MemberStatus:
        return _status(phase=TRAINING, rows_in=100_000, rows_read=rows_read)

    state = _after(OperatorState(Shown("a.py"), 0.0), (1.0, [at(0)]), (3.0, [at(1000)]))
    line = state.line()
    assert (
        str(line) == "a.py: running, 100,000 rows in, 0 out, 500 rows/s, 3:18 min left"
        and line.done == 0.01
    )


def test_the_phase_is_that_of_the_worker_that_is_furthest_behind() -> None:
    server = status_of("g", 2, "ps 0", is_worker=False, phase=STARTING)
    members = [_status(0, phase=EXPORTING), _status(1, phase=TRAINING), server]
    assert (
        _after(OperatorState(Shown("a.py", 3, True), 0.0), (1.0, members))
        .line()
        .text.startswith("training")
    )


def test_last_of_several_attempts_counts() -> None:
    first, second = _status(phase=TRAINING, rows_in=9), _status(phase=FEEDING, rows_in=1, attempt=1)
    state = _after(OperatorState(Shown("a.py"), 0.0), (1.0, [second, first]))
    assert state.line().text.startswith("feeding, 1 rows in") and [
        each.attempt for each in state.members
    ] == [1]


def test_a_lost_worker_counts_no_longer() -> None:
    both = [_status(0, phase=TRAINING, rows_in=2000), _status(1, phase=TRAINING, rows_in=2000)]
    state = _after(OperatorState(Shown("a.py", 2), 0.0), (1.0, both), (2.0, None), (3.0, both[:1]))
    assert state.line().text.startswith("starting, 1 of 2 processes, 2,000 rows in")
    again = _status(0, phase=TRAINING, rows_in=4000, attempt=1)
    state.look(4.0, [*both, again])  # what the killed one has left is read again
    assert [(each.index, each.attempt) for each in state.members] == [(0, 1)]
    assert state.last_line().text.startswith("4,000 rows, ")


def test_tasks_of_a_predictor_keep_their_own_attempts() -> None:
    tasks = [
        _status(0, phase=FEEDING, rows_in=20, attempt=1),
        _status(1, phase=FEEDING, rows_in=30),
    ]
    state = _after(OperatorState(Shown("Op", 2, predicts=True), 0.0), (1.0, tasks))
    assert state.line().text.startswith("predicting, 50 rows in")


def test_last_line_shows_the_use_of_the_time() -> None:
    def at(**known: Any) -> MemberStatus:
        time_s = {START: 8.0, DATA: 3.0, WORK: 27.0, EXPORT: 2.0}
        return _status(rows_in=12_000, rows_out=5, time_s=time_s, age_s=40.0, **known)

    state = _after(
        OperatorState(Shown("train.py", trains=True), 0.0),
        (41.0, [at(phase=EXPORTING)]),
        (50.0, [at(phase=ENDED)]),
    )
    assert str(state.last_line()) == (
        "train.py: 12,000 rows, 50 s: useful work 66%, waiting for data 7%, start 22%, export 5%"
    )
    assert str(state.last_line(failed=True)).startswith(
        "train.py: ended early, 12,000 rows, 50 s: "
    )
    rows = _after(
        OperatorState(Shown("a.py"), 0.0),
        (0.1, [_status(phase=ENDED, rows_in=5, rows_out=4, age_s=0.1, time_s={WORK: 0.1})]),
    )
    assert str(rows.last_line()) == "a.py: 5 rows in, 4 out, 0 s: useful work 100%"
    assert str(OperatorState(Shown("a.py"), 0.0).last_line()) == "a.py: 0 s", (
        "nothing is known of rows"
    )


def test_time_is_that_of_all_attempts_and_steps_are_those_of_the_group() -> None:
    def at(index: int, attempt: int, step: int, **time_s: float) -> MemberStatus:
        return _status(
            index,
            attempt=attempt,
            step=step,
            first_step=min(step, 50),
            time_s=time_s,
            age_s=sum(time_s.values()),
            phase=TRAINING,
        )

    state = _after(
        OperatorState(Shown("a.py", 2, True), 0.0),
        (4.0, [at(0, 0, 40, work=4.0), at(1, 0, 0, work=4.0)]),
        (10.0, [at(0, 0, 90, work=10.0), at(1, 0, 0, work=10.0)]),
        (14.0, [at(0, 1, 50, start=2.0, work=2.0), at(1, 1, 0, start=2.0, work=2.0)]),
    )  # only the chief reports
    expected = {WORK: 6.0, LOST: 8.0}
    assert [
        {use: spent for use, spent in each.time_s.items() if spent} for each in state.members
    ] == [expected, expected]
