"""What modules of the product find under the names `threading`, `time` and `queue`."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, Optional

from tests.simulation.world import Task, here


class Lock:
    """A lock of one task."""

    is_reentrant = False

    def __init__(self) -> None:
        self.owner: Any = None
        self.depth = 0
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = here()
        world.maybe_pause()
        return self.take(blocking, timeout)

    def take(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = here()
        task = world.running or world.tester
        if self.is_reentrant and self.owner is task:
            self.depth += 1
            return True
        end = None if timeout < 0 else world.now + timeout
        while self.owner is not None and not _is_dead(self.owner):
            if not blocking or (end is not None and world.now >= end):
                return False
            self._waiting.append(task)
            world.park(None if end is None else end - world.now)
            if task in self._waiting:
                self._waiting.remove(task)
        self.owner, self.depth = task, 1
        return True

    def release(self) -> None:
        if self.owner is not (here().running or here().tester):
            return  # a task that was ended while it waited does not have the lock
        self.depth -= 1
        if self.depth == 0:
            self.owner = None
            if self._waiting:
                here().random.choice(self._waiting).wake()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _is_dead(owner: Any) -> bool:
    return isinstance(owner, Task) and (owner.is_done or owner.process.is_dead)


class RLock(Lock):
    """A lock that its task may take again."""

    is_reentrant = True


class Condition(RLock):
    """A lock, and tasks that wait for a notification."""

    def __init__(self) -> None:
        super().__init__()
        self._sleeping: list[Task] = []

    def wait(self, timeout: Optional[float] = None) -> bool:
        world, depth = here(), self.depth
        task = world.running
        assert self.owner is task, "waits for a condition without its lock"
        self._sleeping.append(task)
        self.depth = 1
        self.release()
        was_woken = world.park(timeout)
        if task in self._sleeping:
            self._sleeping.remove(task)
        self.take()
        self.depth = depth
        return was_woken

    def wait_for(self, predicate: Callable[[], Any], timeout: Optional[float] = None) -> Any:
        end = None if timeout is None else here().now + timeout
        result = predicate()
        while not result:
            left = None if end is None else end - here().now
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify_all(self) -> None:
        assert self.owner is (here().running or here().tester), "notifies without the lock"
        sleeping, self._sleeping = self._sleeping, []
        for task in sleeping:
            task.wake()

    notify = notify_all


class Event:
    """A flag that tasks wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Task] = []

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.wake()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: Optional[float] = None) -> bool:
        if not self._is_set:
            self._waiting.append(here().running)
            here().park(timeout)
        return self._is_set


class Thread:
    """A task of the process whose task makes it."""

    def __init__(
        self,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = True,
    ) -> None:
        self._run = lambda: target(*args)
        self._name = name
        self._task: Optional[Task] = None

    def start(self) -> None:
        world = here()
        self._task = world.spawn(self._run, world.running.process, self._name)

    def join(self, timeout: Optional[float] = None) -> None:
        assert self._task is not None
        self._task.join(timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done


class Queue:
    """`queue.Queue` with its waits."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: list[Any] = []
        self._changed = Condition()

    def __class_getitem__(cls, item: object) -> type[Queue]:
        return cls

    def put(self, item: object, timeout: Optional[float] = None) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._items) < self._size, timeout):
                raise queue.Full
            self._items.append(item)
            self._changed.notify_all()

    def get(self, timeout: Optional[float] = None) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout):
                raise queue.Empty
            self._changed.notify_all()
            return self._items.pop(0)

    def empty(self) -> bool:
        return not self._items


class Threading:
    """The module `threading`."""

    Lock, RLock, Condition, Event, Thread = Lock, RLock, Condition, Event, Thread


class Time:
    """The module `time`."""

    @staticmethod
    def monotonic() -> float:
        return here().now

    @staticmethod
    def monotonic_ns() -> int:
        return int(here().now * 1e9)

    @staticmethod
    def sleep(seconds: float) -> None:
        here().sleep(seconds)


class Queues:
    """The module `queue`."""

    Queue, Full, Empty = Queue, queue.Full, queue.Empty
