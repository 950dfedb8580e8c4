"""One start of a job's tasks: sources, the members of a group, the channels between them, and
aligned checkpoints.

`sources` upstream subtasks read six partitions of ids. Chunks, addresses and barriers reach the
members over channels of limited size, each in order, and the seed decides which channel a member
reads next.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import pyarrow as pa

from bridge.codec.ipc import read_batch, write_batch
from bridge.flink.elements import Element
from bridge.flink.event_time import LAST_TIME, time_bytes
from bridge.flink.exchange import Exchange
from bridge.flink.keys import keys_of_subtasks
from bridge.flink.stream_exchange import StreamExchange
from bridge.settings import GroupSettings
from tests.simulation.history import BrokenPromise, Checkpoint
from tests.simulation.subtask import BARRIER, ENDED, KEY_GROUPS, Channel, Subtask
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.job import Job

PARTITIONS = 6


@dataclass(frozen=True)
class Shape:
    """Numbers of tasks of a job."""

    settings: GroupSettings
    sources: int
    is_local: bool  # one Python worker has all members


class Attempt:
    """One start of a job's tasks."""

    def __init__(
        self, job: Job, number: int, group: str, shape: Shape, restored: Optional[Checkpoint]
    ) -> None:
        self.job, self.number, self.group, self.shape = job, number, group, shape
        self.world = job.world
        self.settings = dataclasses.replace(shape.settings, token=group)
        size = self.settings.size
        self.keys = keys_of_subtasks(size)
        self._groups = [{KEY_GROUPS[key] for key in keys} for keys in self.keys]
        self.is_over = False
        self._checkpoint: Optional[Checkpoint] = None
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
        self.subtasks = [
            Subtask(self, index, workers[index % len(workers)]) for index in range(size)
        ]
        self.positions = (
            dict(restored.positions) if restored else dict.fromkeys(range(PARTITIONS), 0)
        )
        for subtask in self.subtasks:
            subtask.channels = [Channel() for _ in range(shape.sources + size)]
            for channel in subtask.channels:
                channel.reader = subtask
            if restored is not None:
                subtask.restore(restored)
        for index in set(range(size)) - set(self.settings.fed):
            if unfinished_ids(self.subtasks[index].keyed):
                self.must_fail = (
                    r"rows in flight of the savepoint went to ps \d, which takes no rows"
                )
                self.culprits.append(self.must_fail)
        self.ended_sources: set[int] = set()
        self.source_tasks = [
            self.world.spawn(
                lambda source=source: self._source(source), self.jvm, f"source {source}"
            )  # type: ignore[misc]
            for source in range(shape.sources)
        ]
        for member in range(size):
            self.world.spawn(
                lambda member=member: self._announce(member), self.jvm, f"announce {member}"
            )  # type: ignore[misc]
        for subtask in self.subtasks:
            subtask.task = self.world.spawn(
                subtask.run, subtask.process, f"subtask {subtask.index}"
            )

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
        mine = [
            partition
            for partition in range(plan.partitions)
            if partition % self.shape.sources == source
        ]
        turn = random.randrange(len(fed))
        world.sleep(random.random() * plan.start_s)
        quiet_s = plan.quiet_s
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
            world.sleep(random.random() * plan.pace_s + quiet_s)
            quiet_s = 0.0
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
        self.subtasks[member].channels[source].put(
            (Element.CHUNK, 0, len(ids), write_batch(batch), ids), task
        )

    def _send_time(self, source: int, time: int, task: Any) -> None:
        for subtask in self.subtasks:
            subtask.channels[source].put(
                (Element.WATERMARK, source, self.shape.sources, time_bytes(time)), task
            )

    def _announce(self, member: int) -> None:
        world = self.world
        world.sleep(world.random.random() * self.job.plan.start_s)
        address = json.dumps(
            [f"host-{0 if self.shape.is_local else member}", 1, self.job.ports + member, "disk"]
        ).encode()
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
        self,
        number: int,
        subtask: Subtask,
        keyed: dict[int, Any],
        timers: set[tuple[str, int, int]],
        output: list[int],
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

    def got(self, subtask: Subtask, id: int, state: tuple[Any, ...]) -> None:
        if self.is_over:
            return
        history, longest_s = self.job.history, self.job.plan.longest_s
        history.output(id)
        if state:
            history.states[id] = state
            waited_s = self.world.now - history.learnt_at[id]
            if longest_s and waited_s > longest_s:
                raise BrokenPromise(
                    f"the output of {id} waited for a save for {waited_s:.1f} s, expected at most {longest_s:.1f} s"
                )
        if (
            self.settings.carries_event_time
            and len(self.times) == len(self.subtasks)
            and id % 1000 <= min(self.times.values())
        ):
            raise BrokenPromise(
                f"{id} is late: its time is {id % 1000}, and that of the output {min(self.times.values())}"
            )

    def got_time(self, member: int, time: int, is_idle: bool) -> None:
        if not is_idle:
            if time < self.times.get(member, time):
                raise BrokenPromise(
                    f"event time of member {member} goes back from {self.times[member]} to {time}"
                )
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
