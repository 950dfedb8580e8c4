"""Flink around the product's functions: sources, keyed state, timers, aligned checkpoints, restarts with other numbers of tasks.

A job has `sources` upstream subtasks, which read six partitions of ids, and a group of members. Chunks, addresses and barriers
reach the members over channels of limited size, each in order, and the seed decides which channel a member reads next.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import pyarrow as pa
from pyflink.common import Row

from bridge.codec.ipc import read_batch, write_batch
from bridge.flink.elements import Element
from bridge.flink.event_time import LAST_TIME, time_bytes, time_of
from bridge.flink.exchange import END_OF_INPUT, Exchange
from bridge.flink.keys import LEAST_KEYS, keys_of_subtasks
from bridge.flink.stream_exchange import StreamExchange
from bridge.group.roles import label
from bridge.member.session import Stage
from bridge.settings import GroupSettings
from tests.simulation.history import BrokenPromise, Checkpoint, History
from tests.simulation.scripts import Steps
from tests.simulation.world import Process, World

PARTITIONS = 6
ROOM = 3  # chunks in a channel
PIECES = ("akdl_pending", "akdl_done")


@dataclass(frozen=True)
class Shape:
    """Numbers of tasks of a job."""

    settings: GroupSettings
    sources: int
    is_local: bool  # one Python worker has all members


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
        if LEAST_KEYS.index(self.key) not in self.attempt.key_groups(self.index):
            raise BrokenPromise(f"subtask {self.index} used the state of key {self.key}, which Flink keeps elsewhere")
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
            place for place, each in enumerate(self.channels) if each.elements and place not in self._blocked | self._ended
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
                for id in read_batch(content)["id"].to_pylist():
                    self.output.append(id)
                    self.attempt.got(self, id)
            else:
                self.attempt.got_time(self.index, time_of(content), kind == Element.IDLE)

    def _snapshot(self, number: int) -> None:
        self._last_barrier = number
        keyed = {
            key: {name: content.copy() for name, content in states.items()} for key, states in self.keyed.items() if states
        }
        timers = {("event", *timer) for timer in self.event_timers} | {("time", *timer) for timer in self.processing_timers}
        output, self.output = self.output, []
        self.attempt.acknowledge(number, self, keyed, timers, output)

    def restore(self, checkpoint: Checkpoint) -> None:
        groups = self.attempt.key_groups(self.index)
        for key, states in checkpoint.keyed.items():
            if LEAST_KEYS.index(key) in groups:
                self.keyed[key] = {name: content.copy() for name, content in states.items()}
        for kind, key, timestamp in sorted(checkpoint.timers):
            if LEAST_KEYS.index(key) in groups:
                (self.event_timers if kind == "event" else self.processing_timers).add((key, timestamp))


class Attempt:
    """One start of a job's tasks."""

    def __init__(self, job: Job, number: int, group: str, shape: Shape, restored: Optional[Checkpoint]) -> None:
        self.job, self.number, self.group, self.shape = job, number, group, shape
        self.world = job.world
        self.settings = dataclasses.replace(shape.settings, token=group)
        size = self.settings.size
        self.keys = keys_of_subtasks(size)
        self._groups = [{LEAST_KEYS.index(key) for key in keys} for keys in self.keys]
        self.is_over = False
        self._checkpoint: Optional[Checkpoint] = None
        self._acknowledged: set[str] = set()
        self._triggered = 0
        self._barriers: dict[int, int] = {}  # of each source
        self.times: dict[int, int] = {}  # watermark of each member's output
        self.children: list[Any] = []
        self.culprits: list[str] = []  # patterns of which one has to be in the verdict
        self.must_fail = ""
        self.started_at = self.world.now
        self.jvm = self.world.process(f"jvm of attempt {number}", "jobmanager")
        workers = [self.world.process("worker 0", "host-0")] if shape.is_local else [
            self.world.process(f"worker {index}", f"host-{index}") for index in range(size)
        ]  # fmt: skip
        self.workers = workers
        self.subtasks = [Subtask(self, index, workers[index % len(workers)]) for index in range(size)]
        self.positions = dict(restored.positions) if restored else dict.fromkeys(range(PARTITIONS), 0)
        for subtask in self.subtasks:
            subtask.channels = [Channel() for _ in range(shape.sources + size)]
            for channel in subtask.channels:
                channel.reader = subtask
            if restored is not None:
                subtask.restore(restored)
        self.ended_sources: set[int] = set()
        self.source_tasks = [
            self.world.spawn(lambda source=source: self._source(source), self.jvm, f"source {source}")  # type: ignore[misc]
            for source in range(shape.sources)
        ]
        for member in range(size):
            self.world.spawn(lambda member=member: self._announce(member), self.jvm, f"announce {member}")  # type: ignore[misc]
        for subtask in self.subtasks:
            subtask.task = self.world.spawn(subtask.run, subtask.process, f"subtask {subtask.index}")

    def key_groups(self, index: int) -> set[int]:
        return self._groups[index]

    def make_function(self) -> Exchange:
        settings, from_savepoint = self.settings, self.job.is_from_savepoint
        if settings.kind == "stream":
            return StreamExchange(settings, self.group, self.keys, True, from_savepoint)
        return Exchange(settings, self.group, self.keys, False, None, from_savepoint)

    # Upstream of the members.

    def _source(self, source: int) -> None:
        world, plan, random = self.world, self.job.plan, self.world.random
        task, fed = world.running, self.settings.fed
        mine = [partition for partition in range(plan.partitions) if partition % self.shape.sources == source]
        turn = random.randrange(len(fed))
        world.sleep(random.random() * plan.start_s)
        while True:
            self._pass_barrier(source)
            left = [partition for partition in mine if self.positions[partition] < plan.rows]
            if not left:
                break
            partition = random.choice(left)
            first = self.positions[partition]
            count = min(random.randint(1, 4), plan.rows - first)
            ids = [partition * 1000 + first + number for number in range(count)]
            if self.settings.kind == "stream":
                self._send(source, fed[turn % len(fed)], ids, task)
                turn += 1
            else:  # dealt row by row
                for id in ids:
                    self._send(source, fed[turn % len(fed)], [id], task)
                    turn += 1
            self.positions[partition] = first + count
            if self.settings.carries_event_time:
                self._send_time(source, min(self.positions[each] for each in left) - 1, task)
            world.sleep(random.random() * plan.pace_s)
        if self.settings.carries_event_time:
            self._send_time(source, LAST_TIME, task)
        while self._barriers.get(source, 0) < self._triggered:
            self._pass_barrier(source)
        self.ended_sources.add(source)
        for subtask in self.subtasks:
            subtask.channels[source].put(ENDED)
        if len(self.ended_sources) == self.shape.sources:
            for subtask in self.subtasks:
                for channel in subtask.channels[self.shape.sources :]:
                    self.world.spawn(lambda channel=channel: self._end_announced(channel), self.jvm)  # type: ignore[misc]

    def _end_announced(self, channel: Channel) -> None:
        while not channel.is_announced:
            self.world.sleep(0.05)
        channel.put(ENDED)

    def _send(self, source: int, member: int, ids: list[int], task: Any) -> None:
        columns = [pa.array(ids, pa.int64()), pa.array([1.0] * len(ids), pa.float32())]
        names = self.settings.script_schema.names
        batch = pa.record_batch(columns[: len(names)], names=names)
        self.subtasks[member].channels[source].put((Element.CHUNK, 0, len(ids), write_batch(batch), ids), task)

    def _send_time(self, source: int, time: int, task: Any) -> None:
        for subtask in self.subtasks:
            subtask.channels[source].put((Element.WATERMARK, source, self.shape.sources, time_bytes(time)), task)

    def _announce(self, member: int) -> None:
        world = self.world
        world.sleep(world.random.random() * self.job.plan.start_s)
        address = json.dumps([f"host-{0 if self.shape.is_local else member}", 1, self.job.ports + member, "disk"]).encode()
        for subtask in self.subtasks:
            channel = subtask.channels[self.shape.sources + member]
            channel.put((Element.ADDRESS, member, 0, address))
            channel.is_announced = True

    # Checkpoints.

    def trigger(self, number: int) -> None:
        if self._checkpoint is not None or self.is_over:
            return
        self._triggered = number
        self._checkpoint = Checkpoint(number, self.number, dict(self.positions))
        self._acknowledged = set()
        if len(self.ended_sources) == self.shape.sources:
            for subtask in self.subtasks:
                subtask.barrier_by_call = number
                subtask.look()
        for source in self.ended_sources:
            self._barriers[source] = number

    def _pass_barrier(self, source: int) -> None:
        if self._checkpoint is None or self._barriers.get(source, 0) >= self._triggered:
            return
        number = self._triggered
        self._barriers[source] = number
        for partition in range(PARTITIONS):
            if partition % self.shape.sources == source:
                self._checkpoint.positions[partition] = self.positions[partition]
        for subtask in self.subtasks:
            subtask.channels[source].put((BARRIER, number))
        if all(self._barriers.get(each, 0) >= number for each in range(self.shape.sources)):
            for subtask in self.subtasks:
                for channel in subtask.channels[self.shape.sources :]:
                    channel.put((BARRIER, number))

    def acknowledge(
        self, number: int, subtask: Subtask, keyed: dict[int, Any], timers: set[tuple[str, int, int]], output: list[int]
    ) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.number != number:
            raise BrokenPromise(f"checkpoint {number} was taken twice")
        checkpoint.keyed.update(keyed)
        checkpoint.timers |= timers
        checkpoint.output += output
        checkpoint.taken_at[subtask.index] = self.world.now
        checkpoint.unfinished |= unfinished_ids(keyed)
        if len(checkpoint.taken_at) == len(self.subtasks):
            self.world.after(self.world.random.random() * 0.2, lambda: self._complete(checkpoint))

    def _complete(self, checkpoint: Checkpoint) -> None:
        if not self.is_over:
            self._checkpoint = None
            self.job.completed(checkpoint)

    # The end.

    def got(self, subtask: Subtask, id: int) -> None:
        if self.is_over:
            return
        self.job.history.output(id)
        if self.settings.carries_event_time and len(self.times) == len(self.subtasks) and id % 1000 <= min(self.times.values()):
            raise BrokenPromise(f"{id} is late: its time is {id % 1000}, and that of the output {min(self.times.values())}")

    def got_time(self, member: int, time: int, is_idle: bool) -> None:
        if not is_idle:
            if time < self.times.get(member, time):
                raise BrokenPromise(f"event time of member {member} goes back from {self.times[member]} to {time}")
            self.times[member] = time

    def ended(self, subtask: Subtask) -> None:
        if not self.is_over and all(each.is_done for each in self.subtasks):
            self.is_over = True
            on_its_way = self._checkpoint.output if self._checkpoint is not None else []
            self.job.succeeded(on_its_way + [id for each in self.subtasks for id in each.output])

    def failed(self, verdict: str, subtask: Optional[Subtask] = None) -> None:
        """Fail the job, once the error reaches the JobManager."""
        if self.is_over:
            return
        if subtask is not None and subtask.process.host in self.job.network.cut:
            self.world.after(0.5, lambda: self.failed(verdict, subtask))
            return
        self.is_over = True
        self.job.failed(verdict)

    def cancel(self, gently: bool) -> None:
        """End all tasks: as Flink closes functions, or as a host is lost."""
        self.is_over = True
        self.world.after(0.0, self.jvm.kill)
        for process in self.workers:
            if gently:
                self.world.spawn(lambda process=process: self._close(process), process, "closes")  # type: ignore[misc]
            else:
                self.world.after(0.0, process.kill)

    def _close(self, process: Process) -> None:
        for subtask in self.subtasks:
            if subtask.process is process and subtask.function is not None:
                subtask.function.close()
        process.kill()


def unfinished_ids(keyed: dict[int, dict[str, Any]]) -> set[int]:
    """Ids that a checkpoint keeps for the next scripts."""
    found: set[int] = set()
    for states in keyed.values():
        done = (states.get("akdl_done") or [None])[0] or 0
        for first, (_, arrow) in states.get("akdl_pending", {}).items():
            found.update(read_batch(bytes(arrow)).slice(max(0, done - first))["id"].to_pylist())
    return found


class Job:
    """The JobManager: starts attempts, from the last checkpoint after a failure, and knows how the job ended."""

    def __init__(self, world: World, network: Any, plan: Any, history: History) -> None:
        self.world, self.network, self.plan, self.history = world, network, plan, history
        world.job = self  # type: ignore[attr-defined]
        self.is_over = False
        self.has_succeeded = False
        self.error: Optional[BrokenPromise] = None
        self.is_from_savepoint = False
        self.ports = 7000
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
        """Flink misses the host of a member, as the chief should before, or the others that still run if it is the chief's."""
        if self.is_over or self.attempt.is_over or self.attempt.number:
            return
        waiting = [each for each in self.attempt.subtasks if each.index != index and not each.is_done]
        if any(each.index == 0 or (not index and each.function._member._session.stage < Stage.ENDED) for each in waiting):
            self.broken(BrokenPromise(f"nobody has named member {index}, whose host is cut off"))
        self.blame("Flink lost a worker")
        self.attempt.failed("Flink lost a worker")

    def failed(self, verdict: str) -> None:
        self.history.verdicts.append(verdict)
        if not any(re.search(pattern, verdict) for pattern in self.attempt.culprits):
            self.broken(BrokenPromise(f"expected a verdict with one of {self.attempt.culprits}, got: {verdict}"))
        self.attempt.cancel(self.world.random.random() < 0.5)
        if self.restarts_left <= 0:
            self.is_over = True
            return
        self.restarts_left -= 1
        self.world.after(self.world.random.random() * 3, self._restart)

    def stop_and_continue(self) -> None:
        """Stop the job, and start another from its last checkpoint, which may have other numbers of tasks."""
        if self.is_over or self.attempt.is_over or self.last is None:
            return
        self.attempt.cancel(self.world.random.random() < 0.5)
        if self._shapes:
            self._shape = self._shapes.pop(0)
        self._jobs += 1
        self.is_from_savepoint = True
        self.world.after(self.world.random.random() * 3, lambda: self._restart(new=True))

    def _restart(self, new: bool = False) -> None:
        try:
            self.history.restored(self.last, self.plan.commits)
        except BrokenPromise as error:
            self.broken(error)
            return
        if self.world.random.random() < 0.8:
            self.ports += 100
        number = 0 if new else self.attempt.number + 1
        self.network.cut.clear()  # Flink takes another host
        self.steps = Steps()
        self.attempt = Attempt(self, number, f"group-{self._jobs}", self._shape, self.last)

    # For the processes of scripts.

    def script_of(self, index: int, attempt: int) -> Any:
        if self.scripts.get(index, 0) and self.settings.on_return == "restart":
            self.history.restarts += 1  # of this script, which may get rows again that it did not commit
        self.scripts[index] = self.scripts.get(index, 0) + 1
        return self.plan.script(self, index)

    def started(self, index: int, child: Any) -> None:
        self.children.append(child)
        self.attempt.children.append(child)

    @property
    def settings(self) -> GroupSettings:
        return self._shape.settings
