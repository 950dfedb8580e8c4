"""What happened in a schedule, and the promises that it has to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional


class BrokenPromise(AssertionError):
    """A history that breaks a promise."""


@dataclass
class Checkpoint:
    """A completed checkpoint, or one on its way."""

    number: int
    attempt: int
    positions: dict[int, int]  # of each partition of the source
    keyed: dict[int, dict[str, Any]] = field(default_factory=dict)
    timers: set[tuple[str, int, int]] = field(default_factory=set)
    output: list[int] = field(default_factory=list)
    unfinished: set[int] = field(default_factory=set)  # ids that the next script gets
    taken_at: dict[int, float] = field(default_factory=dict)  # of each member


class History:
    """The life of each id, over all attempts. After `settled_s` a commit has reached Flink's side,
    in whatever message.
    """

    def __init__(self, settled_s: float) -> None:
        self.settled_s = settled_s
        self.fed: set[int] = set()  # by the source, to whom it may be fed again after a restart
        self.received: Counter[int] = Counter()  # by scripts' processes
        self.committed: dict[int, float] = {}  # when a script first committed it
        self.durable: Counter[int] = Counter()  # written, as a sink with transactions has it
        self.written: Counter[int] = Counter()  # as any sink has it
        self.learnt_at: dict[int, float] = {}  # by a script that keeps a state
        # of such a script, with the id's output: rows, their sum, batches
        self.states: dict[int, tuple[int, int, int]] = {}
        self.failed_saves = 0
        self.checkpoints: list[Checkpoint] = []
        # id -> checkpoint after which it may not be written again
        self.settled: dict[int, int] = {}
        self.restarts = 0  # of the job, or of a script
        self.verdicts: list[str] = []  # the first error of each attempt

    def output(self, id: int) -> None:
        self.written[id] += 1
        if id in self.settled:
            raise BrokenPromise(
                f"{id} was written again, though its output and its commit were in checkpoint {self.settled[id]}"
            )

    def complete(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)
        self.durable.update(checkpoint.output)

    def restored(self, checkpoint: Optional[Checkpoint], commits: bool) -> None:
        """A job goes on from a checkpoint: what was written after it has not been written."""
        self.restarts += 1
        if checkpoint is None:
            self.durable.clear()
            self.committed.clear()
            return
        for id, when in self.committed.items():
            settled = when + self.settled_s < min(checkpoint.taken_at.values())
            if commits and settled and self.durable[id] and id in checkpoint.unfinished:
                raise BrokenPromise(
                    f"{id} was committed at {when:.2f}, but checkpoint {checkpoint.number} would repeat it"
                )
        for id in self.durable:
            if id not in checkpoint.unfinished and self.is_before(id, checkpoint):
                self.settled[id] = checkpoint.number
        self.committed = {id: when for id, when in self.committed.items() if id in self.settled}

    @staticmethod
    def is_before(id: int, checkpoint: Checkpoint) -> bool:
        return id % 1000 < checkpoint.positions[id // 1000]


def check_rows(history: History, repeats: bool, ids: Iterable[int]) -> None:
    """Check that the sink has each id once, whatever ended in between; or at least once, with a
    script that `repeats` output.
    """
    expected = set(ids)
    strangers = set(history.durable) - expected
    if strangers:
        raise BrokenPromise(f"written, but never fed: {sorted(strangers)}")
    lost = {id for id in expected if not history.durable[id]}
    if lost:
        raise BrokenPromise(f"lost: {sorted(lost)}")
    doubled = {id: count for id, count in history.durable.items() if count > 1}
    if doubled and not (repeats and history.restarts):
        raise BrokenPromise(f"doubled: {doubled}")
    most = 1 + history.restarts
    if any(count > most for count in doubled.values()):
        raise BrokenPromise(
            f"written more often than the {most} times that scripts started: {doubled}"
        )
