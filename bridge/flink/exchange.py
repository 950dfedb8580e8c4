"""Keyed function between Flink and one TensorFlow process, step 3 on the path of a row.

Addresses and chunks come in, and chunks of the rows that the script has written go out. Each
subtask has a single key, so a member gets exactly its own chunks, and Flink's keyed state and
timers, which need a key, belong to that member. This module has the exchange of bounded inputs;
`stream_exchange` adds what streams need.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyflink.common import Types
from pyflink.datastream import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.fn_execution.coder_impl_fast import InternalRow
from pyflink.metrics import MetricGroup

from akdl.wire import Report
from bridge.codec.ipc import read_batch
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import BridgeError
from bridge.files.parts import share_of
from bridge.files.reading import FileParts, FileTable
from bridge.flink.elements import Element, element, pieces
from bridge.flink.event_time import time_of
from bridge.flink.keys import keys_of_subtasks
from bridge.group.addresses import Address, hold, label, release
from bridge.host.allocator import give_large_blocks_back
from bridge.host.console import warn
from bridge.member import registry
from bridge.member.member import Member
from bridge.member.written_rows import WrittenRows
from bridge.settings import GroupSettings
from bridge.workarounds.beam_workers import close_with_worker
from bridge.workarounds.pyflink_defects import keys_in_turn

# Flink's watermark after the last row of a bounded input has this time.
END_OF_INPUT = 2**63 - 1
# Output of one call at the end of input. The JVM keeps the output of a call in memory until the
# call returns.
SLICE_BYTES = 4 << 20
# Each subtask has several keys, see `keys_of_subtasks`. The first one is the key of its elements.
Keys = Sequence[Sequence[int]]
# A streaming job looks at its process this often while no rows arrive.
LOOK_MS = 500


class Exchange(KeyedCoProcessFunction):  # type: ignore[misc]
    """Owner of the TensorFlow process of its subtask.

    Input 1 has STARTs, input 2 all other elements. The process starts in `open` and ends in
    `close`, which may come before `open` has succeeded, and twice. Elements and timers are handled
    one at a time, and each call blocks while the process is too slow: this is how a slow script
    holds up its input. A blocked call is not interrupted when the job fails, so `_ask_flink`
    gives the member a way to notice that.
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        keys: Keys,
        is_streaming: bool,
        files: FileTable | None = None,
        from_savepoint: bool = True,
    ) -> None:
        self._settings = settings
        self._group = group
        self._keys = keys
        # A savepoint may be of a job with other keys. A visit of each takes a millisecond, so other
        # jobs visit their own key alone.
        self._from_savepoint = from_savepoint
        self._is_streaming = is_streaming
        # A subclass has its own interval, because it returns a stream's rows at these timers.
        self._look_ms = LOOK_MS
        # A subclass keeps unfinished rows in Flink's state, for a restart.
        self._keeps_rows = False
        self._files = files  # if not None, the chunks of input 0 are parts of files

    def open(self, runtime_context: RuntimeContext) -> None:
        """Start the process; TensorFlow can be imported while the first rows are on their way."""
        give_large_blocks_back()
        if self._settings.least_workers is None:
            check_parallelism(runtime_context, self._settings.operator, len(self._keys))
        else:
            # The jobs of an elastic training share this pickled function and differ in their
            # parallelism, so a member learns the size of its group only here.
            size = runtime_context.get_number_of_parallel_subtasks()
            self._settings = replace(self._settings, num_workers=size - self._settings.num_ps)
            self._keys = keys_of_subtasks(size)
        self._index = runtime_context.get_index_of_this_subtask()
        self._key, *others = self._keys[self._index]
        self._all_keys = functools.partial(keys_in_turn, runtime_context, [*others, self._key])
        self._each_key = self._all_keys if self._from_savepoint else lambda: iter([self._key])
        self._is_checked = False
        self._addresses: dict[int, Address] = {}
        self._has_timers = False
        self._ended = False
        # This is the state that the script has saved, which a restart gives to the next process.
        self._saved = b""
        # The output that is left at the end of input.
        self._last_output: Iterator[InternalRow] | None = None
        self._beats = runtime_context.get_map_state(
            MapStateDescriptor("akdl_heartbeat", Types.LONG(), Types.LONG())
        )
        # So many rows were handed to this process. A part of files counts as one row.
        self._rows = 0
        self._parts: list[bytes] = []
        self._rows_ever = runtime_context.get_state(ValueStateDescriptor("akdl_rows", Types.LONG()))
        source = f"{self._settings.operator}: {self._settings.main_script}"
        self._decoder = ColumnDecoder(self._settings.output_schema, source)
        self._attempt = runtime_context.get_attempt_number()
        # Flink may restart a stream endlessly, and the program would see nothing of it.
        if failure := registry.take_failure(self._group, self._attempt):
            attempt = f"attempt {self._attempt + 1}"
            warn(
                f"{self._settings.operator}: Flink has restarted it, {attempt}, because of a"
                f" failure:\n{failure}"
            )
        # Beam closes no function when its worker loses Flink, as in jobs that fail, or when `open`
        # fails.
        close_with_worker(self.close)
        self._start_member()
        self._gauges = ReportGauges(
            runtime_context.get_metrics_group(), lambda: self._member.report
        )

    def close(self) -> None:
        # There is no member if it could not be started.
        if hasattr(self, "_member"):
            self._member.stop()
        # `open` may have failed before it had set the attempt.
        if hasattr(self, "_attempt"):
            address = self._addresses.get(self._index)
            release(self._group, self._index, self._attempt, address)

    def process_element1(
        self, value: Any, ctx: KeyedCoProcessFunction.Context
    ) -> Iterable[InternalRow]:
        """Do nothing: the first element of all has opened this function, and so started the
        process.
        """
        return ()

    def process_element2(
        self, value: Any, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[InternalRow]:
        """Take a chunk, an address or a watermark, and yield the rows that the script has written.

        Raises:
            BridgeError: An element arrived out of order, or with the key of another member.
            TaskError: The script, its process or its group has failed.
        """
        if ctx.get_current_key() != self._key:
            raise BridgeError(
                f"{self._settings.operator}: rows in flight of an unaligned checkpoint cannot go to"
                " other workers. Use its numWorkers and numPSs, or a savepoint"
            )
        if not self._has_timers:
            # Timers need a key, so they are registered with the first element and not in `open`.
            self._has_timers = True
            if ctx.timer_service().current_watermark() == END_OF_INPUT:
                raise BridgeError(
                    f"{self._settings.operator}: the input ended before the addresses of the group"
                    " arrived"
                )
            ctx.timer_service().register_event_time_timer(END_OF_INPUT)
            self._look_again(ctx)
        kind, number, size, content = value
        if kind == Element.CHUNK:
            return self._feed_chunk(number, size, content)
        if kind in (Element.WATERMARK, Element.IDLE):
            return self._take_time(
                number, size, time_of(content) if kind == Element.WATERMARK else None
            )
        if kind == Element.ADDRESS:
            self._add_address(number, Address(*json.loads(content)))
        return iter(())

    def _take_time(self, subtask: int, of: int, watermark: int | None) -> Iterator[InternalRow]:
        raise BridgeError(
            f"{self._settings.operator}: a watermark arrived from an input without watermarks"
        )

    def _add_address(self, index: int, address: Address) -> None:
        self._addresses[index] = address
        if index == self._index:
            # Announce reserved the ports, perhaps in another Python process of this host, which
            # ends with its task. This process lives as long as TensorFlow needs them.
            hold(self._group, index, self._attempt, address)
        if len(self._addresses) == len(self._keys):
            self._complete_cluster()

    def _feed_chunk(self, extra_input: int, rows: int, arrow: bytes) -> Iterator[InternalRow]:
        if self._ended:
            raise BridgeError(
                f"{self._settings.operator}: {rows} rows arrived after the end of input"
            )
        self._check_complete()
        self._rows += rows
        # A restart from a checkpoint finds this number, and `_check_complete` refuses to go on
        # without these rows. A negative one says that they are in the state, if they are needed.
        self._rows_ever.update(-1 if self._keeps_rows else self._rows)
        if self._files is not None and not extra_input:
            # The share can be computed only from the parts of all files, so they wait for the end.
            self._parts.append(arrow)
            return iter(())
        give_large_blocks_back(rows, len(arrow))
        return self._chunks(self._member.feed(read_batch(arrow), extra_input))

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterator[InternalRow]:
        """At the end of input, wait for the script to end and yield the rest of its rows; before,
        check the process.
        """
        if not self._is_own(ctx):
            return iter(())
        if timestamp != END_OF_INPUT:
            if self._ended:
                return iter(())
            self._look_again(ctx)
            return self._chunks(self._member.poll())
        # This timer fires once for each slice, so the iterator has to outlive a call.
        if self._last_output is None:
            self._last_output = itertools.chain(
                self._chunks(self._end_input()), [element(Element.END, None, b"")]
            )
        return self._slice(self._last_output, ctx)

    def _start_member(self, before: Member | None = None) -> None:
        self._member = Member(
            self._settings,
            self._group,
            self._index,
            self._attempt,
            # PyFlink offers no question "does my task still run?". A key that was never asked for
            # before is in no cache of the worker, so the request goes to the JVM. It blocks when
            # the task has ended, and `bridge.member.registry` then stops the member from its own
            # thread.
            lambda: self._beats.contains(time.monotonic_ns()),
            before,
            self._keeps_rows,
        )
        self._member.addressed = self._addresses.keys()

    def _complete_cluster(self) -> None:
        self._member.set_cluster(
            # Addresses arrive in any order, and the cluster lists them by the numbers of the
            # members.
            [address for _, address in sorted(self._addresses.items())],
            self._saved,
        )

    def _end_input(self) -> Iterator[WrittenRows]:
        """Yield what the script writes from the last row on, until its process has ended."""
        self._ended = True
        self._check_complete()
        # Flink passes addresses before the last watermark, so one is missing only if the task
        # that sends it had ended before a checkpoint, and did not run again.
        missing = [
            label(index, self._settings.num_workers)
            for index in range(len(self._keys))
            if index not in self._addresses
        ]
        if missing:
            raise BridgeError(
                f"{self._settings.operator}: the input ended without the address of"
                f" {', '.join(missing)}. If the job continues from a checkpoint at which some of"
                " its tasks had ended, start it from an earlier checkpoint"
            )
        return itertools.chain(self._read_share(), self._finish())

    def _finish(self) -> Iterator[WrittenRows]:
        return self._member.finish()

    def _read_share(self) -> Iterator[WrittenRows]:
        """Read this member's share of the files; all parts and all addresses are known."""
        settings = self._settings
        if self._files is None or self._index not in settings.fed:
            return
        files = FileParts(self._files)
        parts = self._parts
        self._parts = []
        for part in share_of(
            parts, settings.fed.index(self._index), len(settings.fed), settings.shuffle_parts
        ):
            for batch in files.batches_of(part):
                give_large_blocks_back(batch.num_rows, batch.nbytes)
                if len(settings.script_schema.columns) > batch.num_columns:
                    # Rows of tables get this column in the graph, see `_chunks` in script_graph.py.
                    weights = pa.array(np.ones(batch.num_rows, np.float32))
                    batch = pa.record_batch(
                        [*batch.columns, weights], names=settings.script_schema.names
                    )
                yield from self._member.feed(batch)

    def _slice(
        self, chunks: Iterator[InternalRow], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[InternalRow]:
        """Yield the next rows; the timer at the end of time is set again, and fires again, as long
        as there are more.

        A slice may end within the output of a cut. No barrier of a checkpoint comes between slices,
        because Flink's last watermark fires all timers of the end in one go.
        """
        size = 0
        for piece in chunks:
            # The third field of an element is its content.
            size += len(piece[2])
            yield piece
            if size >= SLICE_BYTES:
                ctx.timer_service().register_event_time_timer(END_OF_INPUT)
                return

    def _look_again(self, ctx: KeyedCoProcessFunction.Context) -> None:
        # In batch mode all rows arrive before any timer, and processing-time timers would fire at
        # once.
        if self._is_streaming:
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + self._look_ms)

    def _chunks(self, outputs: Iterable[WrittenRows]) -> Iterator[InternalRow]:
        """Convert written rows to elements, and act on the cuts between them."""
        self._gauges.look()
        for written in outputs:
            self._gauges.look()
            if written.count:
                yield from pieces(
                    pa.record_batch(
                        self._decoder.decode(written.take()), schema=self._decoder.arrow_schema
                    )
                )
            if written.cut:
                yield from self._pass_cut(written)

    def _pass_cut(self, cut: WrittenRows) -> Iterable[InternalRow]:
        return ()

    def _check_complete(self) -> None:
        """Refuse to continue from a checkpoint without its rows: they went to a process that has
        ended, and are not in the state, or this job does not read them from there.
        """
        before = (
            0 if self._is_checked else sum(self._rows_ever.value() or 0 for _ in self._each_key())
        )
        self._is_checked = True
        if before > 0 or (before and not self._keeps_rows):
            raise BridgeError(f"{self._settings.operator}: {self._loss(before)}")

    def _loss(self, rows: int) -> str:
        return (
            f"Flink restarted the job from a checkpoint, but the {rows} rows before it are lost"
            " with the process that read them. Run this job without checkpoints, so that it"
            " restarts from the beginning"
        )

    def _is_own(self, ctx: KeyedCoProcessFunction.OnTimerContext) -> bool:
        """Return False for the timers of a savepoint, which return with the keys of its own job."""
        is_own = bool(ctx.get_current_key() == self._key)
        if not is_own and not self._from_savepoint:
            raise BridgeError(
                f"{self._settings.operator}: the savepoint is from a job with other numWorkers,"
                " numPSs or parallelism, and the program did not know of it when it linked this"
                " operator: set execution.state-recovery.path before"
            )
        return is_own


def check_parallelism(runtime_context: RuntimeContext, operator: str, size: int) -> None:
    """Refuse to run with more or fewer subtasks than keys, as after a change by an autoscaler.

    Rows are dealt to the keys of the planned members, so some would go to members that do not
    exist.
    """
    found = runtime_context.get_number_of_parallel_subtasks()
    if found != size:
        raise BridgeError(
            f"{operator}: Flink started {found} tasks instead of {size}. Exclude this operator from"
            " autoscaling (job.autoscaler.vertex.exclude.ids), and set jobmanager.scheduler to"
            " default"
        )


# The largest long of Java.
_LARGEST = 2**63 - 1


class ReportGauges:
    """Gauges `akdl.step` and `akdl.<metric>Millionths` of each reported metric."""

    def __init__(self, group: MetricGroup | None, latest: Callable[[], Report]) -> None:
        self._group = group and group.add_group("akdl")
        self._latest = latest
        self._known: set[str] = set()
        if self._group is not None:
            self._group.gauge("step", lambda: latest().step)

    def look(self) -> None:
        """Register gauges for new metrics, which a script names only when it reports them."""
        if self._group is None:
            return
        for name in self._latest().metrics:
            if name not in self._known:
                self._known.add(name)
                self._group.gauge(f"{name}Millionths", self._gauge_of(name))

    def _gauge_of(self, name: str) -> Callable[[], int]:
        return lambda: millionths(self._latest().metrics.get(name, 0.0))


def millionths(value: float) -> int:
    """A number in millionths, within the range of a gauge; 0 for one that is not finite."""
    if not abs(value) < float("inf"):
        return 0
    # A gauge is a long of Java, and a metric may be larger in millionths.
    return max(-_LARGEST, min(_LARGEST, round(value * 1e6)))
