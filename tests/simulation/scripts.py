"""Scripts for simulated processes: streams that commit in several ways, and groups that train in
step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from akdl.wire.cells import read_cells
from bridge.group.addresses import label
from tests.simulation.world import here

EACH, PARTS, PLAIN = "each", "parts", "plain"


class UnavailableError(Exception):
    """TensorFlow's error for a peer that has gone."""


class Stream:
    """A script of a stream: writes what it reads, perhaps some chunks later, and commits what it
    has written.
    """

    def __init__(
        self, job: Any, index: int, style: str, lag: int, pace_s: float, returns_after: int
    ) -> None:
        self._job, self._index, self._style, self._lag = job, index, style, lag
        self._pace_s, self._returns_after = pace_s, returns_after
        self._commits = job.plan.commits

    def __call__(self, config: Any, child: Any) -> None:
        self._ids: list[int] = []  # in the order in which they were read
        self._committed = 0
        waiting: list[list[int]] = []
        random = here().random
        if self._commits:
            # or the request for the next chunk commits the one before, which may not be written yet
            config.commit(0)
        for chunk, rows in enumerate(config.tf_context.rows.columns(), 1):
            ids = ids_of(rows)
            self._ids += ids
            self._job.plan.fault.strikes(self._job, child, chunk - 1)
            child.do("works", random.random() * self._pace_s)
            child.do("sleeps")
            waiting.append(ids)
            while len(waiting) > self._lag:
                self._write(config, waiting.pop(0))
            if chunk == self._returns_after:
                break
        for ids in waiting:
            self._write(config, ids)

    def _write(self, config: Any, ids: list[int]) -> None:
        parts = [ids[:1], ids[1:]] if self._style == PARTS else [ids]
        for part in parts:
            if not part:
                continue
            config.output_writer.write_batch({"id": np.array(part)})
            if self._commits and self._style != PLAIN:
                config.commit(len(part))
                self._note(self._committed + len(part))
        if self._commits and self._style == PLAIN:
            config.commit()
            self._note(max(self._committed, config.tf_context.rows.passed))

    def _note(self, rows: int) -> None:
        for id in self._ids[self._committed : rows]:
            self._job.history.committed.setdefault(id, here().now)
        self._committed = rows


class Steps:
    """The steps that scripts of a group make together, as with a collective operation."""

    def __init__(self) -> None:
        self._children: dict[int, Any] = {}
        self._made: dict[int, int] = {}
        self._waiting: list[Any] = []

    def join(self, child: Any, members: Any) -> None:
        self._children[child.index] = child
        self._members = members
        self._made.setdefault(child.index, 0)
        child.steps = self
        child.process.on_death.append(self.notify)

    def make(self, child: Any, waits_as: str) -> None:
        """Make a step with all others; an error of TensorFlow when one of them has gone."""
        world = here()
        number = self._made[child.index] = self._made[child.index] + 1
        self.notify()
        child.do(waits_as)
        while any(self._made.get(member, 0) < number for member in self._members):
            cut = here().network.cut  # type: ignore[attr-defined]  # nobody hears of a death there
            children = [each for each in self._children.values() if each.process.host not in cut]
            gone = [each for each in children if each.exit_status not in (None, 0)]
            if child.is_aborted or gone:
                world.sleep(world.random.random() * 2)
                raise UnavailableError("a peer has gone")
            self._waiting.append(world.running)
            world.park()
        child.do("sleeps")

    def notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.wake()


class Training:
    """A script that makes a step for each chunk, or each row, with the other workers, and then
    writes its rows.
    """

    def __init__(self, job: Any, index: int, waits_as: str, steps: int) -> None:
        self._job, self._index, self._waits_as, self._steps = job, index, waits_as, steps

    def __call__(self, config: Any, child: Any) -> None:
        job, random, made = self._job, here().random, 0
        job.steps.join(child, job.settings.fed)
        ids: list[int] = []
        for rows in config.tf_context.rows.columns():
            for id, weight in zip(ids_of(rows), weights_of(rows)):
                child.do("works", random.random() * 0.2)
                child.do("sleeps")
                job.plan.fault.strikes(job, child, made)
                if made == job.plan.fault.step and job.plan.fault.others_work_s:
                    child.do("works", job.plan.fault.others_work_s)
                if job.plan.in_step:
                    job.steps.make(child, self._waits_as)
                made += 1
                if weight:
                    ids.append(id)
                if job.plan.fault.returns(job, child, made):
                    return
        if ids:
            config.output_writer.write_batch({"id": np.array(ids)})


class Serving:
    """A parameter server."""

    def __init__(self, job: Any, index: int) -> None:
        self._job, self._index = job, index

    def __call__(self, config: Any, child: Any) -> None:
        self._job.plan.fault.strikes(self._job, child, 0)
        here().park()


def ids_of(rows: Any) -> list[int]:
    found: list[int] = np.asarray(read_cells(rows.columns[0], rows.rows).values).tolist()
    return found


def weights_of(rows: Any) -> list[float]:
    if len(rows.columns) == 1:
        return [1.0] * rows.rows
    found: list[float] = np.asarray(read_cells(rows.columns[1], rows.rows).values).tolist()
    return found


def named(job: Any, index: int) -> str:
    return label(index, job.settings.num_workers)
