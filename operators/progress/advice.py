"""Advice on a run, each with its evidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import EXPORTING, FEEDING, STARTING, TRAINING
from operators.progress.record import Record

_HALF = 0.5
_WORTH_S = 2.0
_UNEVEN = 1.5  # the largest share, as a multiple of the smallest
_IDLE = 0.3  # of one processor
_GROWTH = 1.5
_MEMORY_BYTES = 500 << 20


@dataclass(frozen=True)
class Advice:
    text: str
    evidence: str


def advise(record: Record) -> list[Advice]:
    last = [samples[-1][1] for samples in record.samples.values()]
    workers = [status for status in last if status.is_worker]
    found = [*_of_waits(workers), *_of_phases(record), *_of_shares(workers), *_of_processors(workers)]
    found += [*_of_memory(record), *_of_metrics(record)]
    return found or [Advice("Nothing stands out.", f"{len(last)} processes were checked.")]


def _of_waits(workers: list[MemberStatus]) -> Iterator[Advice]:
    moved = sum(status.phase_s.get(FEEDING, 0.0) for status in workers)
    script, flink = sum(status.script_waited_s for status in workers), sum(status.flink_waited_s for status in workers)
    if moved < _WORTH_S:
        return
    if script >= _HALF * moved:
        yield Advice(
            "Flink is the bottleneck: give the query more parallelism, or a faster source.",
            f"While rows arrived, scripts waited for rows for {script:.0f} of {moved:.0f} seconds.",
        )
    elif flink >= _HALF * moved:
        yield Advice(
            "The script is the bottleneck: raise numWorkers, or make its steps cheaper, as with larger batches.",
            f"While rows arrived, Flink waited for scripts for {flink:.0f} of {moved:.0f} seconds.",
        )


def _of_phases(record: Record) -> Iterator[Advice]:
    start = sum(seconds for phase, seconds in record.phase_s.items() if phase not in (FEEDING, TRAINING, EXPORTING))
    if start >= _HALF * record.total_s and start >= _WORTH_S:
        begun = record.phase_s.get(STARTING, 0.0)
        yield Advice(
            "Start-up took most of the time: combine several short jobs into one.",
            f"{start:.0f} of {record.total_s:.0f} seconds passed before rows moved; processes took {begun:.0f} to start.",
        )
    export = record.phase_s.get(EXPORTING, 0.0)
    if export >= _HALF * record.total_s and export >= _WORTH_S:
        yield Advice("The export took most of the time: export fewer signatures or a smaller model.", f"{export:.0f} seconds.")


def _of_shares(workers: list[MemberStatus]) -> Iterator[Advice]:
    fed = [status.rows_in for status in workers if status.rows_in]
    if len(fed) > 1 and max(fed) >= _UNEVEN * min(fed):
        yield Advice(
            "Shares of the workers differ in size: set equalSteps where workers train in step.",
            f"The shares had from {min(fed):,} to {max(fed):,} rows.",
        )


def _of_processors(workers: list[MemberStatus]) -> Iterator[Advice]:
    for status in workers:
        trained_s = status.phase_s.get(TRAINING, 0.0)
        if trained_s >= 5 * _WORTH_S and status.cpu_s < _IDLE * trained_s:
            yield Advice(
                "A process waited while it trained: check its input pipeline, locks, and downloads.",
                f"{status.label} used {status.cpu_s:.0f} processor seconds in {trained_s:.0f} seconds of training.",
            )
            return


def _of_memory(record: Record) -> Iterator[Advice]:
    for label, samples in record.samples.items():
        held = [(seconds, status.memory_bytes) for seconds, status in samples if status.memory_bytes]
        if len(held) < 4:
            continue
        (middle_s, middle), (last_s, last) = held[len(held) // 2], held[-1]
        if last > _GROWTH * middle and last > _MEMORY_BYTES:
            yield Advice(
                "Memory grows: look for tensors or histories that the script keeps.",
                f"{label} held {middle >> 20:,} MB after {middle_s:.0f} seconds and {last >> 20:,} MB after {last_s:.0f}.",
            )
            return


def _of_metrics(record: Record) -> Iterator[Advice]:
    for label, samples in record.samples.items():
        for _, status in samples:
            for name, value in sorted(status.metrics.items()):
                if not math.isfinite(value):
                    yield Advice(
                        f"{name} is not finite: lower the learning rate, or look for nulls in the rows.",
                        f"{label} reported it at step {status.step:,}.",
                    )
                    return
