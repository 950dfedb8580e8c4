"""The JobManager: starts attempts, from the last checkpoint after a failure, and holds how the job
ended.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Optional

from bridge.group.addresses import label
from bridge.member.session import Stage
from bridge.settings import GroupSettings
from tests.simulation.attempt import Attempt
from tests.simulation.history import BrokenPromise, Checkpoint, History
from tests.simulation.learning import REFUSED
from tests.simulation.scripts import Steps
from tests.simulation.world import World


class Job:
    """The JobManager: starts attempts, from the last checkpoint after a failure, and knows how the
    job ended.
    """

    def __init__(self, world: World, network: Any, plan: Any, history: History) -> None:
        self.world, self.network, self.plan, self.history = world, network, plan, history
        world.job = self  # type: ignore[attr-defined]
        self.is_over = False
        self.has_succeeded = False
        self.error: Optional[BrokenPromise] = None
        self.is_from_savepoint = False
        self.ports = 7000
        self.folder = ""  # of files that scripts save
        self._shapes = list(plan.shapes)
        self._shape = self._shapes.pop(0)
        self._checkpoints = 0
        self.last: Optional[Checkpoint] = None
        self._numbers = 0
        self._jobs = 0
        self.restarts_left = plan.restarts
        self.children: list[Any] = []
        self.scripts: dict[int, int] = {}
        self.steps = Steps()
        self.attempt = Attempt(self, 0, "group-0", self._shape, None)
        if plan.checkpoint_s:
            self._plan_checkpoint()

    def _plan_checkpoint(self) -> None:
        def trigger() -> None:
            if self.is_over:
                return
            self._numbers += 1
            self.attempt.trigger(self._numbers)
            self._plan_checkpoint()

        self.world.after(self.plan.checkpoint_s * (0.5 + self.world.random.random()), trigger)

    def completed(self, checkpoint: Checkpoint) -> None:
        self.last = checkpoint
        self.history.complete(checkpoint)

    def broken(self, error: BrokenPromise) -> None:
        self.error = self.error or error
        self.is_over = True

    def succeeded(self, output: list[int]) -> None:
        self.history.durable.update(output)
        self.is_over = self.has_succeeded = True

    def blame(self, *patterns: str) -> None:
        """Something has been broken: the attempt has to fail, and to name it."""
        self.attempt.culprits.extend(patterns)
        self.attempt.must_fail = patterns[0]

    def blame_late(self, index: int) -> None:
        name = label(index, self.settings.num_workers)
        own = rf"{name} \(script\.py\): the process did not connect within"
        self.blame(own, rf"{name} on host-\d did not report or connect")

    def lost(self, index: int) -> None:
        """Flink misses the host of a member, as the chief should before, or the others that still
        run if it is the chief's.
        """
        if self.is_over or self.attempt.is_over or self.attempt.number:
            return
        waiting = [
            each for each in self.attempt.subtasks if each.index != index and not each.is_done
        ]
        if any(
            each.index == 0 or (not index and each.function._member._session.stage < Stage.ENDED)
            for each in waiting
        ):
            self.broken(BrokenPromise(f"nobody has named member {index}, whose host is cut off"))
        self.blame("Flink lost a worker")
        self.attempt.failed("Flink lost a worker")

    def failed(self, verdict: str) -> None:
        self.history.verdicts.append(verdict)
        if not any(re.search(pattern, verdict) for pattern in self.attempt.culprits):
            self.broken(
                BrokenPromise(
                    f"expected a verdict with one of {self.attempt.culprits}, got: {verdict}"
                )
            )
        self.attempt.cancel(self.world.random.random() < 0.5)
        if self.restarts_left <= 0:
            self.is_over = True
            return
        self.restarts_left -= 1
        is_refused = "takes no rows" in verdict or REFUSED in verdict
        if is_refused:  # the user does as the error says
            workers = 1 if REFUSED in verdict else self.settings.num_workers
            settings = dataclasses.replace(self.settings, num_workers=workers, num_ps=0)
            self._shape = dataclasses.replace(self._shape, settings=settings)
        self.world.after(self.world.random.random() * 3, lambda: self._restart(new=is_refused))

    def stop_and_continue(self) -> None:
        """Stop the job, and start another from its last checkpoint, which may have other numbers of
        tasks.
        """
        if self.is_over or self.attempt.is_over or self.last is None:
            return
        self.attempt.cancel(self.world.random.random() < 0.5)
        if self._shapes:
            self._shape = self._shapes.pop(0)
        self.world.after(self.world.random.random() * 3, lambda: self._restart(new=True))

    def _restart(self, new: bool = False) -> None:
        try:
            self.history.restored(self.last, self.plan.commits)
        except BrokenPromise as error:
            self.broken(error)
            return
        if self.world.random.random() < 0.8:
            self.ports += 100
        self._jobs += new
        self.is_from_savepoint = self.is_from_savepoint or new
        number = 0 if new else self.attempt.number + 1
        self.network.cut.clear()  # Flink takes another host
        self.steps = Steps()
        self.attempt = Attempt(self, number, f"group-{self._jobs}", self._shape, self.last)

    # For the processes of scripts.

    def script_of(self, index: int, attempt: int) -> Any:
        if self.scripts.get(index, 0) and self.settings.on_return == "restart":
            # of this script, which may get rows again that it did not commit
            self.history.restarts += 1
        self.scripts[index] = self.scripts.get(index, 0) + 1
        return self.plan.script(self, index)

    def started(self, index: int, child: Any) -> None:
        self.children.append(child)
        self.attempt.children.append(child)

    @property
    def settings(self) -> GroupSettings:
        return self._shape.settings
