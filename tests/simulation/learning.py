"""A script that keeps a state, which its output shows, and the check of both."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from akdl.rows.batches import RowBatches
from akdl.rows.stream_rows import StreamRows
from akdl.wire import TableColumn
from bridge.schema import Schema
from tests.simulation.history import BrokenPromise, History
from tests.simulation.scripts import ids_of, named
from tests.simulation.world import here

SCHEMA = Schema.parse(
    "id BIGINT NOT NULL, learnt BIGINT NOT NULL, total BIGINT NOT NULL, batch BIGINT NOT NULL"
)
MOST_FAILED = 6  # saves of a job, which would not end otherwise
REFUSED = "expected a script without a group"


@dataclass(frozen=True)
class Learning:
    """How a script learns, and saves what it has learnt."""

    batch: int  # rows; 0 for a script that commits parts of chunks
    every_rows: Optional[int] = None
    work_s: float = 0.1  # of a batch
    save_s: float = 0.0
    fails: float = 0.0  # probability, of a save
    returns_after: int = 0  # batches


class Learner:
    """A script whose state is the ids that it has learnt, in their order; each row of output has
    their number and sum.
    """

    def __init__(self, job: Any, index: int, learning: Learning) -> None:
        self._job, self._index, self._how = job, index, learning
        self._learnt: list[int] = []
        self._batches = self._saved_bytes = 0
        self._has_returned = False

    def __call__(self, config: Any, child: Any) -> None:
        how, self._rows, self._child = self._how, config.tf_context.rows, child
        if self._job.settings.size > 1:
            self._job.blame(REFUSED)
        config.checkpoint(self._save, self._restore, how.every_rows)
        batches = (
            batches_of(self._rows, how.batch) if how.batch else map(ids_of, self._rows.columns())
        )
        for number, ids in enumerate(batches, 1):
            for part in filter(None, (ids[:1], ids[1:])):
                self._work(how.work_s)
                self._learn(config, part)
                if not how.batch:
                    config.commit(len(part))
            self._batches += 1
            if number == how.returns_after:
                break
        self._has_returned = True

    def _work(self, seconds: float) -> None:
        self._child.do("works", here().random.random() * seconds)
        self._child.do("sleeps")

    def _learn(self, config: Any, ids: list[int]) -> None:
        before = len(self._learnt)
        self._learnt += ids
        counts = np.arange(before + 1, len(self._learnt) + 1)
        totals = np.cumsum(self._learnt)[before:]
        config.output_writer.write_batch(
            {
                "id": np.array(ids),
                "learnt": counts,
                "total": totals,
                "batch": np.full(len(ids), self._batches),
            }
        )
        self._job.history.learnt_at.update(dict.fromkeys(ids, here().now))

    def _save(self, folder: str) -> None:
        path, rows = pathlib.Path(folder) / "state.json", self._rows
        path.write_text("[")
        self._work(self._how.save_s)
        history = self._job.history
        if here().random.random() < self._how.fails and history.failed_saves < MOST_FAILED:
            history.failed_saves += 1
            failed = rf"{named(self._job, self._index)} \(script\.py\): .*the script's state could not be saved since row"
            if (
                self._has_returned
                or rows.taken_bytes - self._saved_bytes > self._job.settings.max_uncommitted
            ):
                self._job.blame(failed)
            raise OSError("planted")
        path.write_text(json.dumps([self._learnt, self._batches]))
        self._saved_bytes = rows.taken_bytes

    def _restore(self, folder: str) -> None:
        self._learnt, self._batches = json.loads((pathlib.Path(folder) / "state.json").read_text())


def batches_of(rows: StreamRows, size: int) -> Iterator[list[int]]:
    return (
        batch["id"].tolist()
        for batch in RowBatches([TableColumn(name="id", type="BIGINT")]).arrays(rows, size)
    )


def check_states(history: History, batch: int, is_alone: bool) -> None:
    """Check that each row of output has the state of a run that nothing disturbs."""
    learnt = sorted(history.states.items(), key=lambda item: item[1])
    total, latest = 0, dict[int, int]()
    for place, (id, found) in enumerate(learnt):
        total += id
        of_batch = place // batch if batch else found[2]
        if found != (place + 1, total, of_batch):
            raise BrokenPromise(
                f"wrong state: expected {(place + 1, total, of_batch)} with row {id}, got {found}"
            )
        # two workers would have read the rows side by side
        if is_alone and id < latest.get(id // 1000, 0):
            raise BrokenPromise(f"wrong order: {id} was learnt after {latest[id // 1000]}")
        latest[id // 1000] = id
