"""Reports of a training as lines of a log."""

from __future__ import annotations

import json

from akdl.wire import Report
from bridge.member.report_log import PREFIX, ReportLog


def test_a_line_every_few_seconds_and_the_last_report_at_once() -> None:
    lines: list[str] = []
    log = ReportLog("worker 1", 2, lines.append)
    log.look(100.0, Report())
    for number in range(1, 8):
        log.look(100.0 + number, Report(number=number, step=10 * number, metrics={"loss": 1 / number}))
    log.look(116.0, Report(number=8, step=80, metrics={"loss": 0.125, "nan": float("nan")}))
    log.look(116.1, Report(number=9, step=90))
    log.look(116.2, Report(number=9, step=90), is_last=True)
    log.look(116.3, Report(number=9, step=90), is_last=True)
    assert all(line.startswith(PREFIX) for line in lines)
    found = [json.loads(line[len(PREFIX) :]) for line in lines]
    assert [one["step"] for one in found] == [10, 60, 80, 90]
    assert found[2] == {"member": "worker 1", "attempt": 2, "step": 80, "metrics": {"loss": 0.125, "nan": None}}
