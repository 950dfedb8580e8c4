"""Cost of a group by its size: the real classes, with threads as peers.

    python benchmarks/scale.py [--members 2,16,128] [--workers 1,10,100] [--seconds S]
        [--chunks N] [--extra-chunks N] [--folder FOLDER]

Neither Flink nor TensorFlow runs. Member 0's end of the group channel is in this process, so its
processor time is that of this process. All other members are threads of a second process. Workers
of a stream are threads of this process.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import psutil
import pyarrow as pa

from akdl.process.channel import Channel
from akdl.rows.extra_files import ExtraFiles
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.wire import RUNNING, Chunk, GroupState, Hello, MemberReport, MemberState, Task, Wishes
from akdl.wire.cells import Array, read_cells
from akdl.wire.service import PROTOCOL
from bridge.codec.ipc import read_batch, write_batch
from bridge.codec.to_columns import to_columns
from bridge.group.addresses import release, reserve
from bridge.group.membership import GroupServer, Membership
from bridge.member.bridge_server import BridgeServer
from bridge.member.session import Session
from bridge.schema import Schema, table_columns
from bridge.settings import GroupSettings

TOKEN = "scale"
ROW_BYTES = 100_000
_HOST = "127.0.0.1"
_SETTLE_S = 30.0


@dataclass
class GroupCost:
    """Cost of a group for member 0, per second.

    Args:
        members: Number of members.
        reports: Reports that were answered.
        states: States in the answers.
        answer_bytes: Bytes of the answers.
        processor_s: Processor seconds of member 0's end.
        formed_s: Seconds until every member had the addresses of all others; not per second.
        sample_s: Seconds until every other member had a row of 100 KB; not per second.
    """

    members: int
    reports: float
    states: float
    answer_bytes: float
    processor_s: float
    formed_s: float
    sample_s: float


class _Peer(Membership):
    """A member whose script reads rows all the time."""

    def __init__(self, port: int, index: int, size: int) -> None:
        self.reports = self.states = self.bytes = 0
        schema = Schema.parse("id BIGINT")
        settings = GroupSettings("Op", "batch", size, 0, schema, schema, "main.py", (), token=TOKEN)
        super().__init__(settings, index, 0, threading.Condition(), self._reading)
        self.report_to(f"{_HOST}:{port}")

    @property
    def has_formed(self) -> bool:
        with self._changed:
            return self._known.is_formed

    def _reading(self) -> MemberState:
        rows = time.monotonic_ns() // 1000
        return MemberState(
            index=self._index,
            phase=RUNNING,
            rows=rows,
            rows_read=rows,
            dataset_file="/tmp/akdl/dataset",
        )

    def _take_answer(self, answer: GroupState, report: MemberReport) -> None:
        super()._take_answer(answer, report)
        self.reports += 1
        self.states += len(answer.members)
        self.bytes += answer.ByteSize()


def group_cost(size: int, seconds: float) -> GroupCost:
    """Measure member 0's end of a group of `size` members whose scripts all make progress."""
    port = reserve("scale", 0, 0)[1]
    server = GroupServer(_HOST, port, TOKEN, attempt=0, size=size)
    command = [sys.executable, __file__, "--peers", f"{port},{size},{seconds}"]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as peers:
            assert peers.stdout is not None
            formed_s, sample_s = json.loads(peers.stdout.readline())
            started = time.process_time()
            counted = json.loads(peers.stdout.readline())
            used = time.process_time() - started
            peers.stdout.read()
    finally:
        server.stop()
        release("scale", 0, 0)
    return GroupCost(size, *(count / seconds for count in (*counted, used)), formed_s, sample_s)


def run_peers(port: int, size: int, seconds: float) -> None:
    """Run all other members of a group, and print the answers that they received."""
    started = time.monotonic()
    peers = [_Peer(port, index, size) for index in range(size)]
    _wait(lambda: all(peer.has_formed for peer in peers))
    formed_s = time.monotonic() - started
    started = time.monotonic()
    for peer in peers:
        peer.exchange_sample(0, b"" if peer is not peers[0] else bytes(ROW_BYTES))
    _wait(lambda: all(peer.has_sample for peer in peers))
    print(json.dumps([formed_s, time.monotonic() - started]), flush=True)
    before = [_counted(peers)]
    time.sleep(seconds)
    print(
        json.dumps([after - first for first, after in zip(before[0], _counted(peers))]), flush=True
    )
    stops = [threading.Thread(target=peer.leave) for peer in peers]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join()


@dataclass
class ChunkCost:
    """Memory of a script's process for chunks that it has taken.

    Args:
        kind: "stream" or "file".
        chunks: Number of chunks that passed the session and were taken.
        chunks_per_s: Their rate.
        grown_bytes: Growth of the process's memory from the first tenth of them to the last.
    """

    kind: str
    chunks: int
    chunks_per_s: float
    grown_bytes: int


def chunk_cost(kind: str, count: int, folder: str) -> ChunkCost:
    """Pass chunks of 80 rows through a session into the rows of a script, which takes each once;
    all in this process.
    """
    batch = pa.record_batch(
        [pa.array(np.arange(80.0, dtype="f4"))] * 10, names=[f"c{number}" for number in range(10)]
    )
    schema = Schema.parse(", ".join(f"{name} FLOAT NOT NULL" for name in batch.schema.names))
    columns = to_columns(batch, schema)
    session = Session(0, 16 << 20)

    def chunks() -> Iterator[Chunk]:
        for _ in range(count):
            session.offer(batch.num_rows, columns)
            yield Chunk.FromString(session.next_chunk() or b"")
        session.end_input()
        yield Chunk.FromString(session.next_chunk() or b"")

    kinds = {"stream": StreamRows, "file": FileRows}
    rows = kinds[kind](folder, chunks(), table_columns(schema))
    process, first, started = psutil.Process(), 0, time.monotonic()
    for number, _ in enumerate(rows.columns(), 1):
        if number == max(count // 10, 1):
            first = process.memory_info().rss
    grown = process.memory_info().rss - first
    return ChunkCost(kind, count, count / (time.monotonic() - started), grown)


@dataclass
class ExtraCost:
    """Cost of an extra input on a host with several members of a group.

    Args:
        members: Number of members.
        shares: True if the members share its files, which is the default; False if each has its
            own.
        input_bytes: Bytes of its columns.
        peak_bytes: Peak bytes on disk.
        held_bytes: Bytes on disk while the scripts run.
        took_s: Seconds from the first chunk until all members had their files.
    """

    members: int
    shares: bool
    input_bytes: int
    peak_bytes: int
    held_bytes: int
    took_s: float


def extra_cost(members: int, shares: bool, count: int = 40) -> ExtraCost:
    """Write chunks of 10,000 rows of 10 FLOAT to the files of members on one host: of each, or of
    the one that makes them.
    """
    batch = pa.record_batch(
        [pa.array(np.arange(10_000.0, dtype="f4"))] * 10,
        names=[f"c{number}" for number in range(10)],
    )
    schema = Schema.parse(", ".join(f"{name} FLOAT NOT NULL" for name in batch.schema.names))
    columns = to_columns(batch, schema)
    with tempfile.TemporaryDirectory() as place:
        folders = [pathlib.Path(place, str(number)) for number in range(members)]
        for folder in folders:
            folder.mkdir()
        files = [ExtraFiles(str(folder), [table_columns(schema)], False) for folder in folders]
        makers = files[:1] if shares else files
        started, peak = time.monotonic(), 0
        for _ in range(count):
            for each in makers:
                each.append(1, batch.num_rows, columns)
        for each in files:
            waits = each not in makers
            each.complete(
                lambda path, chunks, kinds: None,
                str(pathlib.Path(place, "shared")) if shares else "",
                waits,
            )
            peak = max(peak, _bytes_below(place) + (0 if waits else len(columns) * count))
        took = time.monotonic() - started
        return ExtraCost(members, shares, len(columns) * count, peak, _bytes_below(place), took)


def _bytes_below(place: str) -> int:
    return sum(path.stat().st_size for path in pathlib.Path(place).rglob("*") if path.is_file())


@dataclass
class StreamCost:
    """Delivery of a stream with a given rate to its workers.

    Args:
        workers: Number of workers.
        dealt: "chunk" for whole chunks round-robin, the default; "row" for single rows round-robin.
        chunks_per_s: Chunks per second and worker.
        rows_per_s: Rows per second that reached all scripts together; lower than the given rate if
            the channel is too slow.
        delay_ms: Median delay of a row since it was made.
        delay_p99_ms: 99th percentile of the delay.
        processor: Processor seconds per second of the channels; both ends of all are in this
            process.
    """

    workers: int
    dealt: str
    chunks_per_s: float
    rows_per_s: float
    delay_ms: float
    delay_p99_ms: float
    processor: float


class _StreamLine:
    """The channel to one worker: session, server, client and the rows of its script, which takes
    every row.
    """

    def __init__(self, folder: str, schema: Schema) -> None:
        self.changed = threading.Condition()
        self.session = Session(0, 2 << 20)
        self.delays: list[Array] = []
        self._schema = schema
        task = Task(kind="stream", input_columns=table_columns(schema))
        self._server = BridgeServer(
            self.session, self.changed, lambda: None, Wishes, task, TOKEN, folder
        )
        self._server.start()
        self._channel = Channel(self._server.address, TOKEN)
        self._channel.connect(Hello(attempt=0, protocol=PROTOCOL))
        self._rows = StreamRows(folder, self._channel.read(), table_columns(schema))
        self._script = threading.Thread(target=self._take)
        self._script.start()

    def send(self, arrow: bytes) -> None:
        """Send a chunk as the exchange does: wait for room, convert it to columns and offer it."""
        batch = read_batch(arrow)
        columns = to_columns(batch, self._schema)
        with self.changed:
            self.changed.wait_for(lambda: self.session.has_room(len(columns)))
            self.session.offer(batch.num_rows, columns)
            self.changed.notify_all()

    def end(self) -> None:
        """End the stream and wait for the script."""
        with self.changed:
            self.session.end_input()
            self.changed.notify_all()
        self._script.join()
        self._channel.close()
        self._server.stop()

    def _take(self) -> None:
        for message in self._rows.columns():
            made = read_cells(message.columns[0], message.rows).values
            self.delays.append((time.time_ns() - made) / 1e6)


def stream_cost(
    workers: int, dealt: str, rows_per_s: int, seconds: float, wait_s: float = 0.01
) -> StreamCost:
    """Send rows as one gathering subtask does, a chunk every `wait_s`, in at most twice as long as
    `seconds`.
    """
    schema = Schema.parse(
        "made BIGINT NOT NULL, " + ", ".join(f"c{number} FLOAT NOT NULL" for number in range(10))
    )
    rows, values = int(rows_per_s * wait_s), pa.array(np.zeros(int(rows_per_s * wait_s), "f4"))
    with tempfile.TemporaryDirectory() as place:
        lines = []
        for number in range(workers):
            folder = pathlib.Path(place, str(number))
            folder.mkdir()
            lines.append(_StreamLine(str(folder), schema))
        begun, used, turns = time.monotonic(), time.process_time(), 0
        while turns * wait_s < seconds and time.monotonic() - begun < 2 * seconds:
            turns += 1
            time.sleep(max(0.0, begun + turns * wait_s - time.monotonic()))
            # The rows were made one after the other since the last turn, even if this one is late.
            due = time.time_ns() - int((time.monotonic() - begun - turns * wait_s) * 1e9)
            made = due - np.linspace(wait_s * 1e9, 0, rows, endpoint=False).astype(np.int64)
            batch = pa.record_batch([pa.array(made), *[values] * 10], names=schema.names)
            if dealt == "chunk":
                lines[turns % workers].send(write_batch(batch))
                continue
            for number, line in enumerate(lines):
                line.send(write_batch(batch.take(pa.array(np.arange(number, rows, workers)))))
        for line in lines:
            line.end()
        took, used = time.monotonic() - begun, time.process_time() - used
    delays = np.concatenate([delay for line in lines for delay in line.delays])
    chunks = sum(len(line.delays) for line in lines)
    middle, late = np.percentile(delays, [50, 99])
    return StreamCost(
        workers,
        dealt,
        chunks / took / workers,
        len(delays) / took,
        float(middle),
        float(late),
        used / took,
    )


def _counted(peers: list[_Peer]) -> tuple[int, int, int]:
    return (
        sum(peer.reports for peer in peers),
        sum(peer.states for peer in peers),
        sum(peer.bytes for peer in peers),
    )


def _wait(is_so) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + _SETTLE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"the group was not complete within {_SETTLE_S:g} s")
        time.sleep(0.01)


def main() -> None:
    """Print a table per part and write all figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="2,16,128")
    parser.add_argument("--workers", default="1,10,100")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--extra-chunks", type=int, default=40)
    parser.add_argument("--folder", default="build/benchmarks")
    parser.add_argument("--peers", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peers:
        port, size, seconds = arguments.peers.split(",")
        run_peers(int(port), int(size), float(seconds))
        return
    groups = [group_cost(int(size), arguments.seconds) for size in arguments.members.split(",")]
    print("members  reports/s  states/s  KB/s  processor %  formed s  row of 100 KB to all s")
    for cost in groups:
        print(
            f"{cost.members:7d}  {cost.reports:9.0f}  {cost.states:8.0f} "
            f" {cost.answer_bytes / 1000:4.0f}  {cost.processor_s * 100:11.1f} "
            f" {cost.formed_s:8.2f}  {cost.sample_s:.2f}"
        )
    print("rows in the process  chunks  chunks/s  growth of memory MB")
    held = []
    for kind in ("stream", "file"):
        with tempfile.TemporaryDirectory() as place:
            held.append(chunk_cost(kind, arguments.chunks, place))
        print(
            f"{kind:19s}  {held[-1].chunks:6d}  {held[-1].chunks_per_s:8.0f} "
            f" {held[-1].grown_bytes / 1e6:.1f}"
        )
    print("members of a host  share files  extra input MB  on disk MB  most MB  s")
    extras = []
    for members in (1, 4, 16):
        for shares in (False, True):
            extras.append(extra_cost(members, shares, arguments.extra_chunks))
            cost = extras[-1]
            print(
                f"{cost.members:17d}  {cost.shares!s:11s}  {cost.input_bytes / 1e6:14.1f} "
                f" {cost.held_bytes / 1e6:10.1f}  {cost.peak_bytes / 1e6:7.1f}  {cost.took_s:.1f}"
            )
    print("workers  dealt  chunks/s and worker  rows/s  delay ms  99 of 100 ms  processor %")
    streams = []
    for workers in map(int, arguments.workers.split(",")):
        for dealt in ("chunk", "row"):
            streams.append(stream_cost(workers, dealt, 100_000, arguments.seconds))
            cost = streams[-1]
            print(
                f"{cost.workers:7d}  {cost.dealt:5s}  {cost.chunks_per_s:19.1f} "
                f" {cost.rows_per_s:6.0f}  {cost.delay_ms:8.1f}  {cost.delay_p99_ms:12.1f} "
                f" {cost.processor * 100:11.0f}"
            )
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {"groups": groups, "chunks": held, "extras": extras, "streams": streams}
    text = {name: [asdict(each) for each in part] for name, part in found.items()}
    (folder / "scale.json").write_text(json.dumps(text, indent=1))


if __name__ == "__main__":
    main()
