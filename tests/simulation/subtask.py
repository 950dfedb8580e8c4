"""A subtask of the exchange with what Flink gives its function: channels of limited size, keyed
state and timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyflink.common import Row

from bridge.codec.ipc import read_batch
from bridge.flink.elements import Element
from bridge.flink.event_time import time_of
from bridge.flink.exchange import END_OF_INPUT
from bridge.flink.keys import LEAST_KEYS
from tests.simulation.history import BrokenPromise, Checkpoint
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.attempt import Attempt

ROOM = 3  # chunks in a channel
KEY_GROUPS = {key: group for group, key in enumerate(LEAST_KEYS)}


class MapState:
    """A map of the current key."""

    def __init__(self, task: Subtask, name: str) -> None:
        self._task, self._name = task, name

    @property
    def _map(self) -> dict[Any, Any]:
        found: dict[Any, Any] = self._task.state_of(self._name, dict)
        return found

    def put(self, key: Any, value: Any) -> None:
        self._map[key] = value

    def remove(self, key: Any) -> None:
        del self._map[key]

    def contains(self, key: Any) -> bool:
        return key in self._map

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._map.items())

    def is_empty(self) -> bool:
        return not self._map

    def clear(self) -> None:
        self._map.clear()


class ValueState:
    """A value of the current key."""

    def __init__(self, task: Subtask, name: str) -> None:
        self._task, self._name = task, name

    def value(self) -> Any:
        return self._task.state_of(self._name, lambda: [None])[0]

    def update(self, value: Any) -> None:
        self._task.state_of(self._name, lambda: [None])[0] = value


class Channel:
    """Elements on their way to a member, in order."""

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.reader: Any = None
        self.is_announced = False  # of one with an address: that has been sent
        self.writers: list[Any] = []

    def put(self, element: Any, task: Any = None) -> None:
        """Add an element; `task`, the writer, waits for room."""
        while task is not None and len(self.elements) >= ROOM:
            self.writers.append(task)
            task.world.park()
        self.elements.append(element)
        self.reader.look()

    def take(self) -> Any:
        writers, self.writers = self.writers, []
        for task in writers:
            task.wake()
        return self.elements.pop(0)


BARRIER, ENDED = "barrier", "ended"


class Subtask:
    """A subtask of the exchange: the context of its function, and the loop that Flink runs."""

    def __init__(self, attempt: Attempt, index: int, process: Process) -> None:
        self.attempt, self.index, self.process = attempt, index, process
        self.world = attempt.world
        self.channels: list[Channel] = []
        self.keyed: dict[int, dict[str, Any]] = {}
        self.key = attempt.keys[index][0]
        self.event_timers: set[tuple[int, int]] = set()
        self.processing_timers: set[tuple[int, int]] = set()
        self.watermark = -(2**63)
        self.output: list[int] = []
        self.function: Any = None
        self.is_done = False
        self._is_idle = False
        self._blocked: set[int] = set()
        self._ended: set[int] = set()
        self.barrier_by_call = 0  # once all channels have ended
        self._last_barrier = 0
        self._keyed_state_backend = self._internal_state_cache = self
        self.task: Any = None

    # The runtime context, and the context of calls.

    def get_index_of_this_subtask(self) -> int:
        return self.index

    def get_number_of_parallel_subtasks(self) -> int:
        return len(self.attempt.keys)

    def get_attempt_number(self) -> int:
        return self.attempt.number

    def get_metrics_group(self) -> None:
        return None

    def get_state(self, descriptor: Any) -> ValueState:
        return ValueState(self, descriptor.get_name())

    def get_map_state(self, descriptor: Any) -> MapState:
        return MapState(self, descriptor.get_name())

    def set_current_key(self, row: Row) -> None:
        (self.key,) = row

    def evict_all(self) -> None:
        """Nothing is cached."""

    def state_of(self, name: str, make: Callable[[], Any]) -> Any:
        if KEY_GROUPS[self.key] not in self.attempt.key_groups(self.index):
            raise BrokenPromise(
                f"subtask {self.index} used the state of key {self.key}, which Flink keeps elsewhere"
            )
        return self.keyed.setdefault(self.key, {}).setdefault(name, make())

    def get_current_key(self) -> int:
        return self._called_with

    def timer_service(self) -> Subtask:
        return self

    def current_watermark(self) -> int:
        return self.watermark

    def current_processing_time(self) -> int:
        return int(self.world.now * 1000)

    def register_event_time_timer(self, timestamp: int) -> None:
        self.event_timers.add((self._called_with, timestamp))

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.processing_timers.add((self._called_with, timestamp))

    # The loop.

    def look(self) -> None:
        """There may be something to do."""
        if self._is_idle:
            self._is_idle = False
            self.task.wake()

    def run(self) -> None:
        try:
            self.function = self.attempt.make_function()
            self.function.open(self)
            while not self.is_done:
                self._turn()
            self.function.close()
            self.attempt.ended(self)
        except BrokenPromise as error:
            self.attempt.job.broken(error)
        except Exception as error:  # as Flink does with any
            self.attempt.failed(f"{type(error).__name__}: {error}", self)

    def _turn(self) -> None:
        now_ms = self.current_processing_time()
        open_channels = [
            place
            for place, each in enumerate(self.channels)
            if each.elements and place not in self._blocked | self._ended
        ]
        due = sorted(timer for timer in self.processing_timers if timer[1] <= now_ms)
        choices: list[Any] = [*open_channels, *due]
        if self.barrier_by_call > self._last_barrier and len(self._ended) == len(self.channels):
            self._snapshot(self.barrier_by_call)
        elif choices:
            choice = self.world.random.choice(choices)
            if isinstance(choice, tuple):
                self.processing_timers.discard(choice)
                self._fire(*choice)
            else:
                self._read(choice)
        elif len(self._ended) == len(self.channels):
            self.watermark = END_OF_INPUT
            if self.event_timers:
                timer = min(self.event_timers)
                self.event_timers.discard(timer)
                self._fire(*timer)
                self.world.maybe_pause()
            else:
                self.is_done = True
        else:
            next_ms = min((timestamp for _, timestamp in self.processing_timers), default=None)
            self._is_idle = True
            self.world.park(None if next_ms is None else max(next_ms - now_ms, 0) / 1000 + 0.001)
            self._is_idle = False

    def _read(self, place: int) -> None:
        element = self.channels[place].take()
        if element is ENDED:
            self._ended.add(place)
            self._align()
        elif element[0] is BARRIER:
            self._blocked.add(place)
            self._number = element[1]
            self._align()
        else:
            self._called_with = self.key = self.attempt.keys[self.index][0]
            if element[0] == Element.CHUNK:
                self.attempt.job.history.fed.update(element[4])
            self._emit(self.function.process_element2(Row(int(element[0]), *element[1:4]), self))

    def _align(self) -> None:
        if self._blocked and len(self._blocked | self._ended) == len(self.channels):
            self._blocked.clear()
            self._snapshot(self._number)

    def _fire(self, key: int, timestamp: int) -> None:
        self._called_with = self.key = key
        self._emit(self.function.on_timer(timestamp, self))

    def _emit(self, elements: Any) -> None:
        for element in elements:
            kind, _, content = element.to_row()
            if kind == Element.CHUNK:
                for id, *state in zip(
                    *(column.to_pylist() for column in read_batch(content).columns)
                ):
                    self.output.append(id)
                    self.attempt.got(self, id, tuple(state))
            elif kind != Element.END:
                self.attempt.got_time(self.index, time_of(content), kind == Element.IDLE)

    def _snapshot(self, number: int) -> None:
        self._last_barrier = number
        keyed = {
            key: {name: content.copy() for name, content in states.items()}
            for key, states in self.keyed.items()
            if states
        }
        timers = {("event", *timer) for timer in self.event_timers} | {
            ("time", *timer) for timer in self.processing_timers
        }
        output, self.output = self.output, []
        self.attempt.acknowledge(number, self, keyed, timers, output)

    def restore(self, checkpoint: Checkpoint) -> None:
        groups = self.attempt.key_groups(self.index)
        for key, states in checkpoint.keyed.items():
            if KEY_GROUPS[key] in groups:
                self.keyed[key] = {name: content.copy() for name, content in states.items()}
        for kind, key, timestamp in sorted(checkpoint.timers):
            if KEY_GROUPS[key] in groups:
                (self.event_timers if kind == "event" else self.processing_timers).add(
                    (key, timestamp)
                )
