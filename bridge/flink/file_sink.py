"""The graph of a sink of files.

    table --RowsToArrow--> elements --write--> (0, files of a subtask) --keyed--> publish
          --ArrowToRows--> table of files

RowsToArrow and write run in one task. Where a table is made of elements and no SQL stands between,
RowsToArrow passes these as they are. The last function has one subtask, and a state: subtasks that
have ended before a checkpoint do not send their files again after a restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessFunction
from pyflink.datastream.state import MapStateDescriptor
from pyflink.table import StreamTableEnvironment, Table

from bridge.codec.ipc import read_batch, selected
from bridge.exceptions import ConfigurationError, refused_at
from bridge.files.publishing import FileSink, is_published, publish
from bridge.files.writing import PartFiles
from bridge.flink.arrow_operators import (
    chunks_of,
    column_types,
    keyed,
    logical_type,
    table_of,
    whole_chunks,
)
from bridge.flink.elements import (
    ELEMENT,
    KEY_AND_ELEMENT,
    KEYED_ELEMENT,
    Element,
    origin_of,
    pieces,
)
from bridge.flink.event_time import time_of
from bridge.flink.time_attributes import PROCTIME, time_attributes, with_plain_times
from bridge.host.allocator import give_large_blocks_back
from bridge.settings import Gathering
from bridge.table_env import has_checkpoints, uids
from bridge.workarounds.beam_workers import close_with_worker
from bridge.workarounds.java_text import running_jvm

_WRITTEN = {"file": "STRING", "num_rows": "BIGINT"}


def write_files(
    table_env: StreamTableEnvironment, table: Table, sink: FileSink, subtasks: int | None
) -> tuple[Table, FileSink]:
    """Table of the files that a job writes and publishes, and the sink in the form that it takes.

    Rows become files in the job and not in the program, which may have ended by then. Streams
    without an end publish files with each checkpoint, so their sink comes back with `appends`.

    Args:
        subtasks: How many subtasks write files of their own; None for as many as the input has.
    """
    uid = uids(table_env, sink.operator)
    origin = origin_of(table)
    proctimes = [name for name, kind in time_attributes(table).items() if kind == PROCTIME]
    if proctimes:
        raise ConfigurationError(
            f"{sink.operator}: column {proctimes[0]!r} is a processing time: CAST it, or leave"
            " it out"
        )
    columns = None if origin is None else origin.columns
    if origin is not None:
        chunks = origin.elements
        updates = False
        ends = origin.ends
        # Between other numbers of subtasks Flink deals elements one by one, so the pieces of a
        # large chunk would go to different subtasks. They are put together first.
        if subtasks not in (None, chunks._j_data_stream.getParallelism()):
            chunks = whole_chunks(table, chunks, uid("whole"), sends_marks=False, ends=ends)
            ends = False
        chunks = whole_chunks(table, chunks, uid("rows"), sends_marks=True, ends=ends)
    else:
        plain = with_plain_times(
            table_env, table, f"akdl_files_{sink.token}", {name for name, _ in column_types(table)}
        )
        chunks, updates = chunks_of(table_env, plain, Gathering(), uid("rows"), sends_marks=True)
    if updates:
        raise ConfigurationError(
            f"{sink.operator}: the input is a changing table (GROUP BY or JOIN of a stream): it"
            " updates earlier rows, but each row is written once here. Group in windows, for"
            " example with TUMBLE"
        )
    if not _is_bounded(chunks):
        sink = _appending(table_env, sink)
    if subtasks is not None:
        chunks._j_data_stream.getTransformation().setParallelism(subtasks)
    written = (
        chunks.process(_Write(sink, columns), output_type=KEY_AND_ELEMENT)
        .name(sink.operator)
        .uid(uid("files"))
    )
    # With the same parallelism Flink chains the two, so that rows and marks of checkpoints stay in
    # one task.
    written.set_parallelism(chunks._j_data_stream.getParallelism())
    published = keyed(written, KEYED_ELEMENT).process(_Publish(sink), output_type=ELEMENT)
    published.name(f"{sink.operator}: publish").uid(uid("publish")).set_parallelism(
        1
    ).set_max_parallelism(1)
    types = [(name, logical_type(sql)) for name, sql in _WRITTEN.items()]
    return table_of(table_env, published, types, uid=uid("result")), sink


def _is_bounded(rows: DataStream) -> bool:
    """Return False if a source in front of a stream has no end."""
    classes = running_jvm().java.lang.Class
    source = classes.forName("org.apache.flink.streaming.api.transformations.WithBoundedness")
    for each in rows._j_data_stream.getTransformation().getTransitivePredecessors():
        if source.isInstance(each) and each.getBoundedness().name() != "BOUNDED":
            is_legacy = each.getClass().getSimpleName() == "LegacySourceTransformation"
            kind = (
                each.getOperator().getUserFunction().getClass().getSimpleName() if is_legacy else ""
            )
            # Flink calls this source of VALUES unbounded, although it ends.
            if kind != "InputFormatSourceFunction":
                return False
    return True


def _appending(table_env: StreamTableEnvironment, sink: FileSink) -> FileSink:
    """Return the sink of a stream without an end, whose files appear with checkpoints."""
    if sink.is_single:
        raise ConfigurationError(
            f"{sink.operator}: filePath names one file, and the stream has no end: let it end with"
            " '/', so that it is a folder that gets the files of each checkpoint"
        )
    if not has_checkpoints(table_env):
        raise ConfigurationError(
            f"{sink.operator}: files of a stream without end appear with Flink's checkpoints, which"
            " are not enabled: set execution.checkpointing.interval in the environment's config,"
            " such as '1 min'"
        )
    # The token is a hash of the address, not a random one, so that the next run of the program
    # recognizes the unpublished files of this run and continues with them.
    return replace(sink, appends=True, token=hashlib.sha256(sink.address.encode()).hexdigest()[:8])


@dataclass
class _Write(ProcessFunction):  # type: ignore[misc]
    """Writes the chunks of its subtask to files, and sends their names at the end.

    PyFlink's functions without keys have no state, so checkpoints are seen as elements between
    the chunks, and their truth is on disk (`bridge.files.writing`).
    """

    sink: FileSink
    columns: Sequence[str] | None

    def open(self, runtime_context: Any) -> None:
        give_large_blocks_back()
        self._subtask = runtime_context.get_index_of_this_subtask()
        self._subtasks = runtime_context.get_number_of_parallel_subtasks()
        self._files = PartFiles(self.sink, self._subtask, self._subtasks)
        close_with_worker(self.close)

    def close(self) -> None:
        """Safe to call twice."""
        if hasattr(self, "_files"):
            self._files.close()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        with refused_at(f"{self.sink.operator}: filePath", OSError):
            # An error of the system may name only a temporary file, so the operator and the
            # parameter are added.
            yield from self._take(*value)

    def _take(self, kind: Element, _: object, content: bytes) -> Iterator[Row]:
        if kind == Element.CHUNK:
            batch = read_batch(content)
            give_large_blocks_back(batch.num_rows, len(content))
            self._files.write(batch if self.columns is None else selected(batch, self.columns))
        elif kind == Element.END:
            files = json.dumps(self._files.end()).encode()
            # All subtasks send to the same key, because one function publishes the files of all.
            yield Row(0, Row(Element.END.value, self._subtask, self._subtasks, files))
        else:
            # START, CHECKPOINT and COMPLETE have the names of methods, which take the number of a
            # checkpoint.
            getattr(self._files, Element(kind).name.lower())(time_of(content))


@dataclass
class _Publish(KeyedProcessFunction):  # type: ignore[misc]
    """Publishes the files of all subtasks once the last of them has ended.

    A job that fails behind this point publishes again after its restart, so publication is a
    rename or a manifest, both of which can be repeated.
    """

    sink: FileSink

    def open(self, runtime_context: Any) -> None:
        self._ended = runtime_context.get_map_state(
            MapStateDescriptor("akdl_files", Types.INT(), Types.STRING())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, subtask, subtasks, files = value
        # A subtask that ended before a checkpoint does not run again in a job that continues from
        # it, so its files have to be in the state.
        self._ended.put(subtask, bytes(files).decode())
        ended = [json.loads(each) for each in self._ended.values()]
        if len(ended) < subtasks:
            return
        # A subtask sends None if an earlier attempt of the job has published already.
        if None not in ended and not self.sink.appends:
            written = {name: size for each in ended for name, size in each.items()}
            with refused_at(f"{self.sink.operator}: filePath", OSError):
                if not written and not is_published(self.sink):
                    # A table without rows has no partition, so one file has all columns for sources
                    # to find.
                    written = PartFiles(replace(self.sink, partition_by=()), 0, 1).end() or {}
                publish(self.sink, written)
            rows = [size for size, _ in written.values()]
            cells = [pa.array(list(written), pa.string()), pa.array(rows, pa.int64())]
            yield from pieces(pa.record_batch(cells, list(_WRITTEN)))
