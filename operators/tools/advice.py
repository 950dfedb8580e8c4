"""Advice on a run, each with its evidence. Pure.

Each second of a worker has one use (`time_split.py`), so that one cause of a slow run can be named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, EXPORT, LOST, PEERS, READ, START, WORK
from operators.progress.record import Record
from operators.progress.time_split import added, described

# A use that takes this share of the time is the bottleneck, because all others together take less.
_HALF = 0.5
# Time lost to restarts is worth advice from this share on.
_LOST = 0.2
# Shorter times get no advice, because any run has them.
_WORTH_S = 2.0
# A step costs some milliseconds, however few rows it has, so shorter ones than this are mostly
# fixed costs.
_SHORT_STEP_S = 0.01
# Shares differ if the largest one is at least this multiple of the smallest one.
_UNEVEN = 1.5
# Memory grows if the last value is above this multiple of the middle one, and above
# `_MEMORY_BYTES`: a process with TensorFlow needs hundreds of MB without any fault.
_GROWTH = 1.5
_MEMORY_BYTES = 500 << 20


class Advice(NamedTuple):
    """A remedy, and the measured values that speak for it."""

    text: str
    evidence: str


def advise(record: Record) -> list[Advice]:
    """Advice on a run, in the order of time, shares, memory and metrics; at least one."""
    workers = [status for status in record.last if status.is_worker]
    found = [
        *_of_time(record, workers),
        *_of_shares(workers),
        *_of_memory(record),
        *_of_metrics(record),
    ]
    return found or [Advice("Nothing stands out.", f"{len(record.last)} processes were checked.")]


def _of_time(record: Record, workers: list[MemberStatus]) -> Iterator[Advice]:
    """Advice on the use of the workers' time."""
    time_s = added(status.time_s for status in workers)
    total_s = sum(time_s.values())
    active_s = _active(time_s)
    words = f"The time of the workers: {described(time_s)}."
    if time_s[LOST] >= max(_LOST * total_s, _WORTH_S):
        restarts = max(status.attempt for status in workers)
        yield Advice(
            "Restarts cost much time: look for the reason, and save more often.",
            f"{restarts} restarts. {words}",
        )
    if time_s[START] >= max(_HALF * total_s, _WORTH_S):
        yield Advice("Start-up took most of the time: combine several short jobs into one.", words)
    if time_s[EXPORT] >= max(_HALF * total_s, _WORTH_S):
        yield Advice(
            "The export took most of the time: export fewer signatures or a smaller model.", words
        )
    # The uses below are shares of the time between start and export. If that time is short, they
    # say nothing.
    if active_s < _WORTH_S:
        return
    by_waits = sorted(workers, key=_waited)
    if _waited(by_waits[-1]) >= _HALF:
        yield _of_peers(by_waits[0], by_waits[-1], words)
    elif time_s[DATA] >= _HALF * active_s:
        yield Advice(
            "Flink is the bottleneck: give the query more parallelism, or a faster source.", words
        )
    elif time_s[WORK] + time_s[READ] >= _HALF * active_s:
        yield _of_work(record, workers, words)


def _active(time_s: Mapping[str, float]) -> float:
    """Seconds between start and export, in which a worker could have worked."""
    return sum(time_s.get(use, 0.0) for use in (WORK, READ, DATA, PEERS))


def _waited(status: MemberStatus) -> float:
    """Return the share of the time between its start and its export that a worker has waited for
    its peers.
    """
    return status.time_s.get(PEERS, 0.0) / (_active(status.time_s) or 1.0)


def _of_peers(slow: MemberStatus, fast: MemberStatus, words: str) -> Advice:
    """Advice for workers that wait for each other: one slow worker, or all of them in turn."""
    # If also the member that waits least waits much, the members wait for each other in turn, and
    # no single one is slow.
    if _waited(slow) >= _HALF * _waited(fast):
        return Advice(
            "Workers wait for each other: take larger batches, fewer workers, or a faster network.",
            words,
        )
    return Advice(
        f"{slow.label} holds up the other workers: look at its host, its share of the rows, and"
        " what it does.",
        f"{fast.label} waited for its peers for {_waited(fast):.0%} of its time after the start. "
        f"{slow.label}: {described(slow.time_s)}.",
    )


def _of_work(record: Record, workers: list[MemberStatus], words: str) -> Advice:
    # Workers in step make the same steps, so the samples of the member that is ahead show the pace.
    ahead = max(record.samples.values(), key=lambda samples: samples[-1][1].step)
    stepped = [
        (status.step, status.time_s[WORK], status.time_s[READ])
        for _, status in ahead
        if status.step
    ]
    steps, worked_s, read_s = (
        (end - begin for begin, end in zip(stepped[0], stepped[-1])) if stepped else (0, 0.0, 0.0)
    )
    if steps > 0 and 0.0 < worked_s + read_s < _SHORT_STEP_S * steps:
        pace = f"A step took {1000 * (worked_s + read_s) / steps:.1f} ms. "
        return Advice("Steps are short, and mostly fixed costs: take larger batches.", pace + words)
    time_s = added(status.time_s for status in workers)
    if time_s[READ] > time_s[WORK]:
        return Advice(
            "Making tensors of the rows is the bottleneck: do it in SQL, for whole batches, or with"
            " num_parallel_calls.",
            words,
        )
    busiest = max(workers, key=lambda status: status.time_s[WORK])
    place = max(busiest.place_s, key=lambda each: busiest.place_s[each], default="")
    places = (
        f" {busiest.label} worked for {busiest.place_s[place]:.0f} s in {place}." if place else ""
    )
    pace = ""
    if steps > 0:
        step_s = worked_s / steps
        shown = f"{step_s:.1f} s" if step_s >= 1.0 else f"{1000 * step_s:.0f} ms"
        pace = f" A step worked for {shown}."
    return Advice(
        "The script is the bottleneck: raise numWorkers, or make its work cheaper.",
        words + places + pace + f" {busiest.label} used {busiest.cpu_s:.0f} s of processors.",
    )


def _of_shares(workers: list[MemberStatus]) -> Iterator[Advice]:
    fed = [status.rows_in for status in workers if status.rows_in]
    if len(fed) > 1 and max(fed) >= _UNEVEN * min(fed):
        yield Advice(
            "Shares of the workers differ in size: set equalSteps where workers train in step.",
            f"The shares had from {min(fed):,} to {max(fed):,} rows.",
        )


def _of_memory(record: Record) -> Iterator[Advice]:
    """Advice on memory that has grown much between the middle and the end of a run."""
    for label, samples in record.samples.items():
        held = [
            (seconds, status.memory_bytes) for seconds, status in samples if status.memory_bytes
        ]
        # Memory always grows at the start of a run, so its middle is compared with its end, for
        # which a few samples are not enough.
        if len(held) < 4:
            continue
        (middle_s, middle), (last_s, last) = held[len(held) // 2], held[-1]
        if last > _GROWTH * middle and last > _MEMORY_BYTES:
            yield Advice(
                "Memory grows: look for tensors or histories that the script keeps.",
                f"{label} held {middle >> 20:,} MB after {middle_s:.0f} seconds and {last >> 20:,}"
                f" MB after {last_s:.0f}.",
            )
            return


def _of_metrics(record: Record) -> Iterator[Advice]:
    """Advice on the first metric that is NaN or infinite."""
    for label, samples in record.samples.items():
        for _, status in samples:
            for name, value in sorted(status.metrics.items()):
                if not math.isfinite(value):
                    yield Advice(
                        f"{name} is not finite: lower the learning rate, or look for nulls in the"
                        " rows.",
                        f"{label} reported it at step {status.step:,}.",
                    )
                    return
