"""A Python function of Flink in a test's own process: its runtime context, keyed state and timers,
as far as ours use them.

The real ones exist only inside Flink's Python workers.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.fn_execution.metrics.process.metric_impl import GenericMetricGroup

from bridge.codec.ipc import read_batch, write_batch
from bridge.flink.elements import Element
from bridge.flink.event_time import EventTime, time_bytes, time_of
from bridge.flink.exchange import END_OF_INPUT
from bridge.group.addresses import Address, release, reserve
from tests.support.leftovers import DEADLINE_S

States = dict[str, Any]
_ELSEWHERE = "elsewhere"


class MapState(dict[int, Any]):
    """Map state, kept over restarts."""

    put = dict.__setitem__
    remove = dict.__delitem__
    contains = dict.__contains__

    def is_empty(self) -> bool:
        return not self

    def swap(self, content: Any) -> Any:
        """Take the content of another key, and return the one of the current key."""
        before = dict(self)
        self.clear()
        self.update(content or {})
        return before


class ValueState:
    """Value state, kept over restarts."""

    def __init__(self) -> None:
        self._value: Any = None

    def value(self) -> Any:
        return self._value

    def update(self, value: Any) -> None:
        self._value = value

    def swap(self, content: Any) -> Any:
        """As of a map state."""
        before, self._value = self._value, content
        return before


class Subtask:
    """A subtask of a keyed function: its runtime context, and the context and timers of each of its
    calls.

    Args:
        function: The function, which is opened.
        key: The key of the elements that it gets.
        states: What a checkpoint has kept; none at the first start.
        index: Number of the subtask.
        attempt: Number of the attempt.
        others: What a checkpoint of a job with another parallelism has kept, by the key.
        parallelism: Number of subtasks; by default as many as the function has planned.
    """

    def __init__(
        self,
        function: Any,
        key: int,
        states: States | None = None,
        index: int = 0,
        attempt: int = 0,
        others: dict[int, States] | None = None,
        parallelism: int = 0,
    ) -> None:
        self.function = function
        self.parallelism = parallelism
        self.key = self._current_key = key
        self.others = {
            other: {name: state.swap(None) for name, state in found.items()}
            for other, found in (others or {}).items()
        }
        self._keyed_state_backend = self._internal_state_cache = self
        self.states: States = {} if states is None else states
        self.addresses: dict[int, Address] = {}  # that were announced
        self.event_timers: set[int] = set()
        self.processing_timers: set[int] = set()
        self.watermark = -(2**63)
        self.output: list[int | EventTime] = []  # ids and watermarks, in their order
        self.has_ended = False  # with an END
        self._index = index
        self._attempt = attempt
        function.open(self)

    # The runtime context.

    def get_index_of_this_subtask(self) -> int:
        return self._index

    def get_number_of_parallel_subtasks(self) -> int:
        keys = vars(self.function)
        return self.parallelism or len(keys["keys"] if "keys" in keys else keys["_keys"])

    def get_attempt_number(self) -> int:
        return self._attempt

    def get_metrics_group(self) -> GenericMetricGroup:
        return GenericMetricGroup(None, None)

    def get_state(self, descriptor: Any) -> ValueState:
        state: ValueState = self.states.setdefault(descriptor.get_name(), ValueState())
        return state

    def get_map_state(self, descriptor: Any) -> MapState:
        state: MapState = self.states.setdefault(descriptor.get_name(), MapState())
        return state

    def set_current_key(self, row: Row) -> None:
        """Let the states be those of another key."""
        (key,) = row
        if key != self._current_key:
            found = self.others.pop(key, {})
            self.others[self._current_key] = {
                name: state.swap(found.get(name)) for name, state in self.states.items()
            }
            self._current_key = key

    def evict_all(self) -> None:
        """Nothing is cached."""

    # The context of a call, and its timers.

    def get_current_key(self) -> int:
        return self.key

    def timer_service(self) -> Subtask:
        return self

    def current_watermark(self) -> int:
        return self.watermark

    def current_processing_time(self) -> int:
        return int(time.monotonic() * 1000)

    def register_event_time_timer(self, timestamp: int) -> None:
        self.event_timers.add(timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.processing_timers.add(timestamp)

    # What Flink does.

    def start(self, index: int | None = None) -> list[int]:
        """Say that the job starts, and announce the address of a member, by default of this
        subtask's own.
        """
        of = self._index if index is None else index
        rows = self._got((Element.START, of, 0, b""))
        # By another process of this host, as it were: the function has to hold the ports itself.
        address = Address("127.0.0.1", *reserve(_ELSEWHERE, of, self._attempt))
        release(_ELSEWHERE, of, self._attempt)
        self.addresses[of] = address
        return rows + self._got((Element.ADDRESS, of, 0, json.dumps(address).encode()))

    def feed(self, ids: Iterable[int], extra_input: int = 0) -> list[int]:
        """Give a chunk, and return the ids that come back meanwhile."""
        batch = pa.record_batch([pa.array(list(ids), pa.int64())], names=["id"])
        return self._got((Element.CHUNK, extra_input, batch.num_rows, write_batch(batch)))

    def tell(self, subtask: int, of: int, time: int | None) -> list[int]:
        """Tell the watermark of a subtask of the input, None if it is idle, and return the ids that
        come back.
        """
        kind, content = (
            (Element.IDLE, b"") if time is None else (Element.WATERMARK, time_bytes(time))
        )
        return self._got((kind, subtask, of, content))

    @property
    def told(self) -> list[EventTime]:
        """The watermarks of the output."""
        return [each for each in self.output if isinstance(each, EventTime)]

    def look(self) -> list[int]:
        """Fire the timers of processing time, and return the ids that come back."""
        timers, self.processing_timers = self.processing_timers, set()
        return [
            id
            for timestamp in sorted(timers)
            for id in self._ids(self.function.on_timer(timestamp, self))
        ]

    def look_until(self, count: int) -> list[int]:
        """Fire these timers until so many ids have come back."""
        found: list[int] = []
        end = time.monotonic() + DEADLINE_S
        while len(found) < count:
            assert self.processing_timers and time.monotonic() < end, f"only {found} came back"
            found += self.look()
        return found

    def end_input(self) -> list[list[int]]:
        """Send the last watermark, and return the ids that come back with each call."""
        self.watermark = END_OF_INPUT
        calls = []
        while self.event_timers:
            assert self.event_timers == {END_OF_INPUT}
            self.event_timers.clear()
            calls.append(list(self._ids(self.function.on_timer(END_OF_INPUT, self))))
        return calls

    def checkpoint(self) -> States:
        """Return what a checkpoint of this moment keeps."""
        return copy.deepcopy(self.states)

    def end(self) -> None:
        """Close the function, as Flink does after a failure too."""
        self.function.close()

    def _got(self, element: tuple[Element, int, int, bytes]) -> list[int]:
        return list(
            self._ids(self.function.process_element2(Row(element[0].value, *element[1:]), self))
        )

    def _ids(self, elements: Iterable[Any]) -> Iterator[int]:
        """Return the column `id` of chunks that the function yields, and keep the watermarks
        between them.
        """
        for element in elements:
            kind, row_kinds, content = element.to_row()
            if kind == Element.CHUNK:
                assert row_kinds is None, "all rows are new"
                for id in read_batch(content)["id"].to_pylist():
                    self.output.append(id)
                    yield id
            elif kind == Element.END:
                assert not self.has_ended, "one end"
                self.has_ended = True
            else:
                self.output.append(EventTime(time_of(content), kind == Element.IDLE))
