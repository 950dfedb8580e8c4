"""The exchange of a stream, in which rows return as soon as the script writes them.

A bounded job starts over after a failure. A stream continues from a checkpoint, but the process
that had read its latest rows is gone. So this module stores the rows that the script has not
finished in Flink's state (`Pending`), gives them to the next process, and keeps watermarks behind
the rows that precede them (`event_time`).

Output leaves in the same call in which the rows that it came from leave the state, up to a cut of
the script. PyFlink lets no barrier of a checkpoint pass inside a call, so a checkpoint has both or
neither, whenever it comes. A state that the script saved (`Cuts.checkpoint`) is stored in the same
call too.

Flink's keyed state holds the chunks as they arrived, and a chunk leaves it as a whole. Where one is
half finished, a restart skips its finished rows by their number, which the state has too.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyflink.common import Row, Types
from pyflink.datastream import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from bridge.codec.ipc import read_batch, write_batch
from bridge.exceptions import BridgeError
from bridge.flink.elements import BYTES, Element, element, named_row
from bridge.flink.event_time import LAST_TIME, Watermarks, time_bytes
from bridge.flink.exchange import END_OF_INPUT, Exchange, Keys
from bridge.member.written_rows import WrittenRows
from bridge.settings import DRAIN, FAIL, RESTART, UNCOMMITTED, GroupSettings

logger = logging.getLogger(__name__)

# A process repeats a warning after this time.
WARNING_S = 60.0

_CHUNK = named_row(rows=Types.INT(), arrow=BYTES)


class Pending:
    """Unfinished rows of one member, in states of its key.

    Args:
        chunks: MapState from the number of a chunk's first row to ROW(rows, arrow). The numbers
            run over all restarts, so a restart sorts by them to have the rows in their order.
        done: ValueState with the number of finished rows, in the same count.
    """

    def __init__(self, chunks: Any, done: Any) -> None:
        self._chunks = chunks
        self._done_state = done
        # It has (number of the first row, rows, bytes) of each chunk in the state.
        self._held: deque[tuple[int, int, int]] = deque()
        self.bytes = 0  # of all chunks in the state
        # Both count rows over all restarts.
        self.arrived = self.done = 0
        # So many rows were finished when the script started, from which on it counts its own.
        self._base = 0

    @property
    def rows(self) -> int:
        return self.arrived - self.done

    def restore(self) -> list[pa.RecordBatch]:
        """Return the unfinished rows of the state in their order, and count from there on.

        For a new process too, within one attempt: `drop` counts from the latest start.
        """
        found = sorted((first, chunk[0], chunk[1]) for first, chunk in self._chunks.items())
        self._base = self.done = self._done_state.value() or 0
        self._held = deque((first, rows, len(arrow)) for first, rows, arrow in found)
        self.bytes = sum(size for _, _, size in self._held)
        self.arrived = found[-1][0] + found[-1][1] if found else self.done
        return [
            # A chunk stays in the state until all of its rows are finished, so the first one may
            # begin with finished rows.
            read_batch(bytes(arrow)).slice(max(0, self.done - first))
            for first, _, arrow in found
        ]

    def take(self) -> list[pa.RecordBatch]:
        """Take the rows out of the state."""
        if self._chunks.is_empty():
            return []
        taken = self.restore()
        self._chunks.clear()
        return taken

    def add(self, rows: int, arrow: bytes) -> None:
        """Store a chunk behind all others; `arrow` is a stream of one batch with this many rows."""
        self._chunks.put(self.arrived, Row(rows, arrow))
        self._held.append((self.arrived, rows, len(arrow)))
        self.bytes += len(arrow)
        self.arrived += rows

    def drop(self, rows: int) -> None:
        """Remove finished rows from the state; `rows` is their number since this start of the
        script.
        """
        done = self._base + rows
        if done <= self.done:
            return
        self.done = done
        self._done_state.update(done)
        while self._held and self._held[0][0] + self._held[0][1] <= done:
            first, _, size = self._held.popleft()
            self._chunks.remove(first)
            self.bytes -= size


class StreamExchange(Exchange):
    """Exchange of a stream.

    With `keeps_rows`, unfinished rows are in Flink's state, for a restart of the job as well as
    for the next start of the script under onReturn="restart". Without it a savepoint would lack
    these rows, so a job that continues from one is refused (`_check_complete`).
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        keys: Keys,
        keeps_rows: bool,
        from_savepoint: bool = True,
    ) -> None:
        super().__init__(settings, group, keys, is_streaming=True, from_savepoint=from_savepoint)
        # With rows in the state, output leaves in step with them; without, it leaves at once.
        self._keeps_rows = keeps_rows
        self._look_ms = max(1, int(settings.chunk_wait_s * 1000))

    def open(self, runtime_context: RuntimeContext) -> None:
        self._pending: Pending | None = None
        self._is_restored = False
        self._warns_next = 0.0
        self._holds_since = time.monotonic()
        self._watermarks: Watermarks | None = None
        # The script has finished so many rows in all, and so many before its latest start.
        self._done = self._done_before = 0
        if self._settings.carries_event_time:
            ended = MapStateDescriptor("akdl_ended", Types.INT(), Types.INT())
            # Subtask of the input -> number of subtasks: a job that continues from a checkpoint
            # does not run them again.
            self._ended_inputs = runtime_context.get_map_state(ended)
        if self._keeps_rows:
            chunks = runtime_context.get_map_state(
                MapStateDescriptor("akdl_pending", Types.LONG(), _CHUNK)
            )
            done = runtime_context.get_state(ValueStateDescriptor("akdl_done", Types.LONG()))
            self._pending = Pending(chunks, done)
            saved = ValueStateDescriptor("akdl_script_state", BYTES)
            self._saved_state = runtime_context.get_state(saved)
        super().open(runtime_context)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Row]:
        # State can be read only while an element or a timer has set a key, so not in `open`.
        yield from self._restore()
        yield from super().process_element2(value, ctx)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Row]:
        if not self._is_own(ctx) or (timestamp != END_OF_INPUT and self._ended):
            return
        yield from self._restore()
        yield from super().on_timer(timestamp, ctx)
        if timestamp != END_OF_INPUT:
            yield from self._settle()
            self._look_for_held_watermarks()

    def _feed_chunk(self, extra_input: int, rows: int, arrow: bytes) -> Iterator[Row]:
        if self._pending is not None:
            yield from self._wait_for_commits(len(arrow))
            self._pending.add(rows, arrow)
        yield from super()._feed_chunk(extra_input, rows, arrow)
        yield from self._settle()

    def _finish(self) -> Iterator[WrittenRows]:
        yield from self._member.end_input()
        self._drop_done()
        if self._settings.on_return == FAIL and self._member.rows_unread:
            self._refuse_return()
        # The other members would take the end of this member for the end of its work, so it
        # restarts before it reports one.
        while self._has_to_restart():
            yield from self._restart()
            yield from self._member.end_input()
            self._drop_done()
        yield from self._member.finish()

    def _restore(self) -> Iterator[Row]:
        """Give the rows of a checkpoint or savepoint to the script, before any newer row.

        A savepoint of another parallelism has rows under several keys, which are all moved to
        this member's own. That happens within one bundle, so no checkpoint has a row twice.
        """
        if self._is_restored or self._pending is None:
            return
        self._is_restored = True
        self._saved = bytes(self._saved_state.value() or b"")
        moved = [
            chunk for key in self._each_key() if key != self._key for chunk in self._pending.take()
        ]
        kept = self._kept()
        for batch in moved:
            self._pending.add(batch.num_rows, write_batch(batch))
        if self._pending.rows and self._index not in self._settings.fed:
            raise BridgeError(
                f"{self._settings.operator}: {self._pending.rows} rows in flight of the savepoint"
                f" went to {self._member.label}, which takes no rows. Continue with more numWorkers"
                " or fewer numPSs"
            )
        yield from self._chunks(self._feed([*kept, *moved]))

    def _kept(self) -> list[pa.RecordBatch]:
        """Return the unfinished rows of the state, and count from them on.

        A process counts the rows that it has done from its own start, while `_done` counts over
        all starts, as the watermarks do.
        """
        assert self._pending is not None
        kept = self._pending.restore()
        self._done_before = self._pending.done
        self._done = max(self._done, self._done_before)
        return kept

    @property
    def _arrived(self) -> int:
        """Number of rows that have arrived, in the same count as `_done`."""
        return self._rows if self._pending is None else self._pending.arrived

    def _take_time(self, subtask: int, of: int, watermark: int | None) -> Iterator[Row]:
        if self._watermarks is None:
            self._watermarks = Watermarks(
                {key: value for _ in self._each_key() for key, value in self._ended_inputs.items()}
            )
        # An ended subtask does not run in a job that continues from a checkpoint, and would hold
        # event time back indefinitely, because it sends no watermark again.
        if watermark == LAST_TIME:
            # A later job may have another parallelism, and each of its subtasks reads the state of
            # its own keys.
            for _ in self._all_keys() if self._keeps_rows else self._each_key():
                self._ended_inputs.put(subtask, of)
        self._watermarks.add(subtask, of, watermark, self._arrived)
        return self._pass_time()

    def _pass_cut(self, cut: WrittenRows) -> Iterator[Row]:
        """Remove the rows before a cut from the state; the output that they led to has just been
        yielded.
        """
        if self._pending is not None:
            self._pending.drop(cut.cut)
            if cut.state:
                self._saved = cut.state
                self._saved_state.update(cut.state)
        self._done = max(self._done, self._done_before + cut.cut)
        yield from self._pass_time()

    def _pass_time(self) -> Iterator[Row]:
        found = None if self._watermarks is None else self._watermarks.pass_rows(self._done)
        if found is not None:
            yield element(
                Element.IDLE if found.is_idle else Element.WATERMARK, None, time_bytes(found.time)
            )

    def _look_for_held_watermarks(self) -> None:
        """Warn where watermarks wait for a script that has taken all rows before them but does not
        finish them.
        """
        position = None if self._watermarks is None else self._watermarks.waits_for
        if position is None or self._done_before + self._member.rows_done < position:
            self._holds_since = time.monotonic()
        elif time.monotonic() - self._holds_since > WARNING_S:
            self._holds_since = time.monotonic()
            logger.warning(
                "%s, %s: event time waits for %d rows that the script took more than %d s ago. It"
                " has to ask for more rows of tf_context.batches(n), with a small n and without"
                " prefetch; or set replay to 'uncommitted' and call task_config.commit(), as with"
                " dataset_fn()",
                self._settings.operator,
                self._member.label,
                position - self._done,
                WARNING_S,
            )

    def _feed(self, batches: list[pa.RecordBatch]) -> Iterator[WrittenRows]:
        for batch in batches:
            yield from self._member.feed(batch)

    def _settle(self) -> Iterator[Row]:
        """Remove finished rows from the state, and act on a script that has returned early."""
        self._drop_done()
        if self._member.has_returned and self._settings.on_return == DRAIN:
            # A script that has returned finishes no more rows, so event time would wait for them
            # indefinitely.
            self._done = self._arrived
            yield from self._pass_time()
        self._refuse_return()
        while self._has_to_restart():
            yield from self._chunks(self._restart())
            self._drop_done()

    def _refuse_return(self) -> None:
        if self._member.has_returned and self._settings.on_return == FAIL:
            raise self._member.error(
                'the script returned before its input ended. onReturn="drain" drops the remaining'
                ' rows, "restart" starts it again'
            )

    def _wait_for_commits(self, size: int) -> Iterator[Row]:
        """Block the input while uncommitted rows fill `max_uncommitted` bytes.

        Flink writes these rows with each checkpoint, so without a limit a script that never
        commits would let checkpoints and memory grow with the stream.
        """
        # Rows that arrive before the last address are taken: the address would wait behind them.
        pending = self._pending
        member = self._member
        limit = self._settings.max_uncommitted
        assert pending is not None
        if self._settings.replay != UNCOMMITTED or len(self._addresses) < len(self._keys):
            return
        while pending.rows and pending.bytes + size > limit and not member.has_returned:
            if time.monotonic() >= self._warns_next:
                self._warns_next = time.monotonic() + WARNING_S
                logger.warning(
                    "%s, %s: %d rows (%d bytes) are not committed, and maxUncommitted is %d bytes:"
                    " the script gets no more rows until it calls task_config.commit(). Call it"
                    " when the results of the rows are safe, or raise maxUncommitted",
                    self._settings.operator,
                    member.label,
                    pending.rows,
                    pending.bytes,
                    limit,
                )
            yield from self._chunks(member.poll(has_to_commit=True))
            self._drop_done()

    def _drop_done(self) -> None:
        if self._pending is not None:
            self._pending.drop(self._member.rows_done)

    def _has_to_restart(self) -> bool:
        has_rows = self._pending is not None and self._pending.rows > 0
        return self._settings.on_return == RESTART and self._member.has_returned and has_rows

    def _restart(self) -> Iterator[WrittenRows]:
        """Start the script again within the same attempt of the task, with the unfinished rows.

        The other members go on, and members that have left do not report again, so the new one
        continues with the view of the group that the old one had, and with the same addresses.
        """
        assert self._pending is not None
        if self._member.rows_done == 0:
            raise self._member.error(
                f"the script returned without finishing any of its {self._pending.rows} rows;"
                " restarts would be endless"
            )
        logger.info(
            "%s, %s: the script returned and is started again",
            self._settings.operator,
            self._member.label,
        )
        self._member.end_process()
        self._member.stop()
        self._start_member(self._member)
        self._complete_cluster()
        yield from self._feed(self._kept())

    def _loss(self, rows: int) -> str:
        return (
            "the savepoint lacks the rows that the script had not finished. Turn on Flink's"
            " checkpoints (execution.checkpointing.interval) before you take a savepoint"
        )
