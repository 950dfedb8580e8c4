"""What could be better about a run."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire.status_pb2 import MemberStatus
from operators.progress.record import Record
from operators.tools.advice import advise
from tests.support.statuses import status_of


def _record(*members: list[MemberStatus]) -> Record:
    samples = {
        statuses[0].label: [(10.0 * place, each) for place, each in enumerate(statuses)]
        for statuses in members
    }
    return Record("a.py", "", len(members), samples, 60.0, False)


def _status(index: int = 0, **known: Any) -> MemberStatus:
    return status_of("g", index, f"worker {index}", **known)


def _used(
    index: int = 0,
    step: int = 0,
    attempt: int = 0,
    cpu_s: float = 99.0,
    place_s: Any = None,
    **time_s: float,
) -> MemberStatus:
    return _status(index, step=step, attempt=attempt, cpu_s=cpu_s, place_s=place_s, time_s=time_s)


def _with_memory(*megabytes: int) -> list[MemberStatus]:
    return [_status(memory_bytes=each << 20) for each in megabytes]


@pytest.mark.parametrize(
    ("record", "text", "evidence"),
    [
        (_record([_status()]), "Nothing stands out.", "1 processes"),
        (_record([_used(work=1.0, data=0.9)]), "Nothing stands out.", "1 processes"),
        (
            _record([_used(work=1.0, data=2.0)]),
            "Flink is the bottleneck",
            "useful work 33%, waiting for data 67%.",
        ),
        (
            _record([_used(work=1.0, read=2.0)]),
            "Making tensors of the rows is the bottleneck",
            "reading rows 67%",
        ),
        (
            _record([_used(work=3.0, data=1.0)]),
            "The script is the bottleneck",
            "useful work 75%, waiting for data 25%.",
        ),
        (
            _record([_used(work=9.0, place_s={"parse (a.py)": 6.0, "step (a.py)": 2.0})]),
            "The script is the bottleneck",
            "worker 0 worked for 6 s in parse (a.py). worker 0 used 99 s of processors.",
        ),
        (
            _record([_used(step=10, work=3.0), _used(step=20, work=9.0)]),
            "The script is the bottleneck",
            "A step worked for 600 ms.",
        ),
        (
            _record([_used(step=10, work=3.0), _used(step=20, work=15.0)]),
            "The script is the bottleneck",
            "A step worked for 1.2 s.",
        ),
        (
            _record(
                [_used(step=0, work=0.1), _used(step=1000, work=1.0), _used(step=3000, work=3.0)]
            ),
            "Steps are short, and mostly fixed costs: take larger batches.",
            "A step took 1.0 ms.",
        ),
        (
            _record(
                [_used(0, work=4.0, peers=16.0)],
                [_used(1, work=19.0, peers=1.0)],
                [_used(2, work=4.0, peers=16.0)],
            ),
            "worker 1 holds up the other workers",
            "waited for its peers for 80% of its time after the start. worker 1: useful work 95%, waiting for peers 5%.",
        ),
        (
            _record([_used(0, work=4.0, peers=16.0)], [_used(1, work=6.0, peers=14.0)]),
            "Workers wait for each other",
            "waiting for peers 75%",
        ),
        (_record([_used(work=1.0, start=12.0)]), "Start-up took most", "start 92%"),
        (_record([_used(work=1.0, export=12.0)]), "The export took most", "export 92%"),
        (
            _record([_used(attempt=3, work=1.5, lost=12.0)]),
            "Restarts cost much time",
            "3 restarts. ",
        ),
        (
            _record([_status(0, rows_in=4)], [_status(1, rows_in=10)]),
            "set equalSteps",
            "from 4 to 10 rows",
        ),
        (
            _record(_with_memory(400, 500, 600, 1200)),
            "Memory grows",
            "600 MB after 20 seconds and 1,200 MB",
        ),
        (
            _record([_status(step=7, metrics={"loss": float("nan")})]),
            "loss is not finite",
            "step 7",
        ),
    ],
)
def test_advice_has_its_evidence(record: Record, text: str, evidence: str) -> None:
    assert any(text in advice.text and evidence in advice.evidence for advice in advise(record))


def test_advice_names_the_slow_worker_and_not_the_waiting_ones() -> None:
    """Half of the time of these workers is work, because one works while the others wait for it."""
    advice = advise(_record([_used(0, work=4.0, peers=16.0)], [_used(1, work=19.0, peers=1.0)]))
    assert [each.text.partition(":")[0] for each in advice] == [
        "worker 1 holds up the other workers"
    ]
