"""Threads and a clock that a seed drives: one task runs at a time, and which one goes on is drawn.

A task is a greenlet. It gives up its turn where a thread could lose it: before it takes a lock, and
where it waits. Time stands still while a task runs, and moves to the next timer when none can.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import greenlet

PAUSE = 0.15  # the probability with which a task that could take a lock lets another one go first


class Over(greenlet.GreenletExit):
    """Ends a task whose process has been killed, or whose world has ended."""


class Process:
    """What is killed at once: tasks, and servers that listen."""

    def __init__(self, name: str, host: str) -> None:
        self.name, self.host = name, host
        self.is_dead = False
        self.tasks: dict[Task, None] = {}  # in order: a set's differs from run to run
        self.on_death: list[Callable[[], None]] = []

    def kill(self) -> None:
        if self.is_dead:
            return
        self.is_dead = True
        killers = [task for task in self.tasks if task.world.running is task]
        for task in list(self.tasks):
            if task not in killers:
                task.end()
        for call in self.on_death:
            call()
        for task in killers:  # last, as its end raises
            task.end()


class Task:
    """A thread of a process."""

    def __init__(
        self, world: World, run: Callable[[], object], process: Process, name: str
    ) -> None:
        self.world, self.process, self.name = world, process, name
        self.is_done = False
        self.waits = 0  # number of the wait, so that a late timer does not end a later one
        self.is_parked = False
        self.was_woken = False
        self._run = run
        self._joining: list[Task] = []
        self.greenlet = greenlet.greenlet(self._body, world.hub)
        process.tasks[self] = None

    def _body(self) -> None:
        try:
            self._run()
        except Over:
            pass
        except Exception as error:
            self.world.errors.append((self.name, error))
        finally:
            self.is_done = True
            self.process.tasks.pop(self, None)
            for task in self._joining:
                task.wake()

    def wake(self) -> None:
        if self.is_parked:
            self.is_parked, self.was_woken = False, True
            self.world.ready.append(self)

    def end(self) -> None:
        """End it where it stands, as a kill does: nothing of it runs any more."""
        self.process.tasks.pop(self, None)
        self.is_parked = False
        if self in self.world.ready:
            self.world.ready.remove(self)
        if self.world.running is self:
            raise Over
        self.world.to_end.append(self)

    def join(self, timeout: Optional[float] = None) -> None:
        if not self.is_done:
            self._joining.append(self.world.running)
            self.world.park(timeout)


class World:
    """Everything of one schedule that happens, in an order that the seed decides."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0  # not 0, which code could take for no time
        self.hub = greenlet.getcurrent()
        self.ready: list[Task] = []
        self.running: Any = None
        self.is_over = False
        self.turns = 0
        # that ended a thread: the program would go on without it
        self.errors: list[tuple[str, Exception]] = []
        self.to_end: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.processes: list[Process] = []
        self.tester = self.process("tester", "tester")

    def process(self, name: str, host: str) -> Process:
        self.processes.append(Process(name, host))
        return self.processes[-1]

    # For tasks.

    def spawn(self, run: Callable[[], object], process: Process, name: str = "") -> Task:
        task = Task(self, run, process, name or getattr(run, "__name__", "task"))
        if process.is_dead:
            process.tasks.pop(task, None)
        else:
            self.ready.append(task)
        return task

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call in so many seconds; the call may not wait."""
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), call))

    def park(self, timeout: Optional[float] = None) -> bool:
        """Wait to be woken; False at the timeout."""
        task = self._current()
        task.is_parked, task.was_woken = True, False
        task.waits += 1
        if timeout is not None:
            number = task.waits

            def expire() -> None:
                if task.is_parked and task.waits == number:
                    task.is_parked = False
                    self.ready.append(task)

            self.after(max(timeout, 0.0), expire)
        self._switch()
        return task.was_woken

    def sleep(self, seconds: float) -> None:
        self.park(seconds)

    def maybe_pause(self) -> None:
        """Let another task go first, sometimes."""
        if self.running is not None and self.random.random() < PAUSE:
            self.ready.append(self._current())
            self._switch()

    def _current(self) -> Task:
        if self.is_over or self.running is None or self.running.process.is_dead:
            raise Over
        task: Task = self.running
        return task

    def _switch(self) -> None:
        task = self.running
        self.hub.switch()
        if self.is_over or task.process.is_dead:
            raise Over

    # For the test.

    def run_until(self, is_done: Callable[[], bool], limit_s: float) -> bool:
        """Let tasks take turns until `is_done`; False when the time or the tasks run out."""
        end = self.now + limit_s
        while not is_done():
            self._end_killed()
            if not self.ready:
                if not self._timers or self._timers[0][0] > end:
                    return False
                self.now = max(self.now, self._timers[0][0])
                while self._timers and self._timers[0][0] <= self.now:
                    heapq.heappop(self._timers)[2]()
                continue
            place = self.random.randrange(len(self.ready)) if len(self.ready) > 1 else 0
            task = self.ready.pop(place)
            self.turns += 1
            self.running = task
            task.greenlet.switch()
            self.running = None
        return True

    def close(self) -> None:
        """End all tasks: nothing of this world may run in the next one."""
        self.is_over = True
        self._end_killed()

    def _end_killed(self) -> None:
        while self.to_end:
            _throw(self.to_end.pop())


def _throw(task: Task) -> None:
    if not task.greenlet.dead and task.greenlet:  # one that has not started has nothing to end
        for _ in range(20):
            task.greenlet.throw(Over)
            if task.greenlet.dead:
                return
        raise AssertionError(f"{task.name} goes on though it has been killed")


_world: Optional[World] = None


def here() -> World:
    assert _world is not None, "outside of a schedule"
    return _world


@contextmanager
def world_of(seed: object) -> Iterator[World]:
    """Make the world that tasks find."""
    global _world
    world = _world = World(seed)
    try:
        yield world
    finally:
        for process in world.processes:
            world.to_end.extend(process.tasks)
        world.close()
        _world = None
