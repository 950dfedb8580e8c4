"""How the cost of a group grows with its size: the real classes, fed by peers that are no processes.

    python benchmarks/scale.py [--members 2,16,128] [--seconds S] [--chunks N] [--folder FOLDER]

No Flink and no TensorFlow run here. Member 0's end of the group line is in this process, and so its processor time is that of
this process. All other members are threads of a second one.
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

from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.wire import RUNNING, Chunk, GroupState, MemberState
from bridge.codec.to_columns import to_columns
from bridge.group.addresses import release, reserve
from bridge.group.line import GroupLink, GroupServer, OwnWord
from bridge.member.session import Session
from bridge.schema import Schema, table_columns

TOKEN = "scale"
ROW_BYTES = 100_000
_HOST = "127.0.0.1"
_SETTLE_S = 30.0


@dataclass
class GroupCost:
    """What a group of so many members costs member 0, per second.

    Args:
        members: How many.
        reports: Reports that were answered.
        states: States in the answers.
        answer_bytes: Bytes of the answers.
        processor_s: Processor seconds of member 0's end.
        formed_s: Seconds until every member knew all others; not per second.
        sample_s: Seconds until every other member had a row of 100 KB; not per second.
    """

    members: int
    reports: float
    states: float
    answer_bytes: float
    processor_s: float
    formed_s: float
    sample_s: float


class _Peer:
    """A member whose script reads rows all the time."""

    def __init__(self, port: int, index: int, size: int) -> None:
        self.known: set[int] = set()
        self.reports = self.states = self.bytes = 0
        self._index = index
        self._size = size
        self.link = GroupLink(f"{_HOST}:{port}", TOKEN, size, self._word, self._on_answer)

    @property
    def has_formed(self) -> bool:
        return len(self.known) == self._size

    def _word(self) -> OwnWord:
        rows = time.monotonic_ns() // 1000
        state = MemberState(index=self._index, phase=RUNNING, rows=rows, rows_read=rows, dataset_file="/tmp/akdl/dataset")
        return OwnWord(state, is_urgent=not self.has_formed)

    def _on_answer(self, answer: GroupState, word: OwnWord) -> None:
        self.known.update(state.index for state in answer.members)
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
    """Be all members of a group, and print what they were told."""
    started = time.monotonic()
    peers = [_Peer(port, index, size) for index in range(size)]
    _wait(lambda: all(peer.has_formed for peer in peers))
    formed_s = time.monotonic() - started
    started = time.monotonic()
    peers[0].link.give_sample(bytes(ROW_BYTES))
    for peer in peers[1:]:
        peer.link.ask_for_sample()
    _wait(lambda: all(peer.link.sample for peer in peers[1:]))
    print(json.dumps([formed_s, time.monotonic() - started]), flush=True)
    before = [_counted(peers)]
    time.sleep(seconds)
    print(json.dumps([after - first for first, after in zip(before[0], _counted(peers))]), flush=True)
    stops = [threading.Thread(target=peer.link.stop) for peer in peers]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join()


@dataclass
class ChunkCost:
    """What a script's process keeps of chunks that it has taken.

    Args:
        kind: "stream" or "file".
        chunks: How many passed the session and were taken.
        chunks_per_s: How fast.
        grown_bytes: By how much the memory of the process grew from the first tenth of them to the last.
    """

    kind: str
    chunks: int
    chunks_per_s: float
    grown_bytes: int


def chunk_cost(kind: str, count: int, folder: str) -> ChunkCost:
    """Pass chunks of 80 rows through a session into the rows of a script, which takes each once, in this process."""
    batch = pa.record_batch([pa.array(np.arange(80.0, dtype="f4"))] * 10, names=[f"c{number}" for number in range(10)])
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
class StreamShape:
    """How a stream of so many rows a second reaches its workers: a reckoning from the rule by which chunks are dealt.

    Args:
        workers: How many.
        whole_chunks: Chunks a second and worker, dealt as wholes, as they are.
        single_rows: The same if rows were dealt one by one.
        turn_s: Seconds between two chunks of one worker.
    """

    workers: int
    whole_chunks: float
    single_rows: float
    turn_s: float


def stream_shape(workers: int, rows_per_s: float, wait_s: float = 0.01, chunk_rows: int = 8000) -> StreamShape:
    """Reckon for one subtask that gathers rows."""
    chunks = max(1 / wait_s, rows_per_s / chunk_rows)
    single = min(max(1 / wait_s, rows_per_s / workers / chunk_rows), rows_per_s / workers)
    return StreamShape(workers, chunks / workers, single, workers / chunks)


def _counted(peers: list[_Peer]) -> tuple[int, int, int]:
    return sum(peer.reports for peer in peers), sum(peer.states for peer in peers), sum(peer.bytes for peer in peers)


def _wait(is_so) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + _SETTLE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"the group was not complete within {_SETTLE_S:g} s")
        time.sleep(0.01)


def main() -> None:
    """Print a table per part, and write all figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default="2,16,128")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--chunks", type=int, default=100_000)
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
            f"{cost.members:7d}  {cost.reports:9.0f}  {cost.states:8.0f}  {cost.answer_bytes / 1000:4.0f}  "
            f"{cost.processor_s * 100:11.1f}  {cost.formed_s:8.2f}  {cost.sample_s:.2f}"
        )
    print("rows in the process  chunks  chunks/s  growth of memory MB")
    held = []
    for kind in ("stream", "file"):
        with tempfile.TemporaryDirectory() as place:
            held.append(chunk_cost(kind, arguments.chunks, place))
        print(f"{kind:19s}  {held[-1].chunks:6d}  {held[-1].chunks_per_s:8.0f}  {held[-1].grown_bytes / 1e6:.1f}")
    print("reckoned: workers  chunks/s and worker  (rows dealt singly)  s between chunks of a worker")
    streams = [stream_shape(workers, 100_000) for workers in (1, 10, 100)]
    for shape in streams:
        print(f"{shape.workers:17d}  {shape.whole_chunks:19.1f}  {shape.single_rows:20.0f}  {shape.turn_s:.2f}")
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {"groups": groups, "chunks": held, "streams": streams}
    text = {name: [asdict(each) for each in part] for name, part in found.items()}
    (folder / "scale.json").write_text(json.dumps(text, indent=1))


if __name__ == "__main__":
    main()
