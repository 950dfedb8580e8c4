"""What could be better about a run."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import EXPORTING, FEEDING, STARTING, TRAINING
from operators.progress.advice import advise
from operators.progress.record import Record
from tests.support.statuses import status_of


def _record(*members: list[MemberStatus], total_s: float = 60.0, **phase_s: float) -> Record:
    samples = {statuses[0].label: [(10.0 * place, each) for place, each in enumerate(statuses)] for statuses in members}
    return Record("a.py", "", len(members), samples, phase_s, total_s, False)


def _status(index: int = 0, **known: Any) -> MemberStatus:
    return status_of("g", index, f"worker {index}", **known)


def _with_memory(*megabytes: int) -> list[MemberStatus]:
    return [_status(memory_bytes=each << 20) for each in megabytes]


@pytest.mark.parametrize(
    ("record", "text", "evidence"),
    [
        (_record([_status()]), "Nothing stands out.", "1 processes"),
        (_record([_status(phase_s={FEEDING: 10.0}, script_waited_s=8.0)]), "Flink is the bottleneck", "8 of 10 seconds"),
        (_record([_status(phase_s={FEEDING: 10.0}, flink_waited_s=6.0)]), "The script is the bottleneck", "6 of 10 seconds"),
        (_record([_status()], total_s=20.0, **{STARTING: 12.0, TRAINING: 8.0}), "Start-up took most", "12 of 20 seconds"),
        (_record([_status()], total_s=20.0, **{EXPORTING: 12.0}), "The export took most", "12 s"),
        (_record([_status(0, rows_in=4)], [_status(1, rows_in=10)]), "set equalSteps", "from 4 to 10 rows"),
        (_record([_status(cpu_s=3.0, phase_s={TRAINING: 30.0})]), "waited while it trained", "3 processor seconds in 30"),
        (_record(_with_memory(400, 500, 600, 1200)), "Memory grows", "600 MB after 20 seconds and 1,200 MB"),
        (_record([_status(step=7, metrics={"loss": float("nan")})]), "loss is not finite", "step 7"),
    ],
)
def test_advice_has_its_evidence(record: Record, text: str, evidence: str) -> None:
    (advice,) = advise(record)
    assert text in advice.text and evidence in advice.evidence
