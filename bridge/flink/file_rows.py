"""The Flink graph of a table in files: small steps, between which checkpoints complete, however
slow the reader of the rows is.

    numbers --ReadNumbered--> elements --ArrowToRows--> table
    ticks --WatchFiles--> files --keyed--> ReadWatched --elements--> ArrowToRows --> table

PyFlink keeps the output of a bundle in a queue without a bound, and completes no checkpoint inside
one, so one part of about 1 MB is a bundle. No queue may hold elements that stand for many rows, as
a checkpoint waits for all that is ahead of it. The parts of files that are known when the job is
planned have numbers, and a source of Flink counts them in the task that reads them: its position is
the state. Files that appear later wait in Flink's state, and timers read one part at a time. A
table with an end cannot use timers, since its end does not wait for them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, ProcessFunction
from pyflink.datastream.data_stream import DataStream
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor
from pyflink.table import StreamTableEnvironment, Table

from bridge.files.listing import list_files
from bridge.files.parts import NumberedFiles, parts_to_arrow
from bridge.files.reading import PART_BYTES, FileParts, FileTable
from bridge.flink.arrow_operators import (
    keyed,
    logical_type,
    sent_at_once,
    table_of,
)
from bridge.flink.elements import (
    BYTES,
    ELEMENT,
    KEY_AND_ELEMENT,
    Element,
    Origin,
    element,
    named_row,
    pieces,
    with_origin,
)
from bridge.flink.keys import keys_of_subtasks
from bridge.flink.time_attributes import event_time
from bridge.formats.formats import FORMATS
from bridge.host.allocator import give_large_blocks_back
from bridge.host.shipped import ship_own_packages
from bridge.settings import MAX_PARALLELISM
from bridge.table_env import is_streaming, parallelism_of, planning, starts_from_savepoint, uids
from bridge.workarounds.java_text import flink_classes
from bridge.workarounds.pyflink_defects import keys_in_turn

if TYPE_CHECKING:
    from pyflink.fn_execution.coder_impl_fast import InternalRow

# The state of WatchFiles has a digest for each file it has ever listed; paths would take more.
_DIGEST_BYTES = 16
# A damaged file may claim any number of parts, so an element has a bound of its own.
_SENT_PARTS = 1 << 12
_PATH = named_row(key=Types.LONG(), path=Types.STRING())
_numbers = itertools.count()


@planning()
def table_of_files(
    table_env: StreamTableEnvironment,
    files: FileTable,
    scan_s: float | None = None,
    watermark: tuple[str, str] | None = None,
    members_read: bool = False,
) -> Table:
    """Table of the rows in files.

    Args:
        scan_s: Seconds between looks for further files; None for the files that are there now.
        watermark: Column of the event time and SQL expression, which batch mode ignores.
        members_read: Let a script operator that is linked to the table read the files itself.
    """
    uid = uids(table_env, files.where, "files")
    if scan_s is None:
        numbers, numbered = _numbers_of(table_env, files, uid)
        rows = numbers.process(ReadNumbered(files, numbered), output_type=ELEMENT)
    else:
        parallelism = parallelism_of(table_env)
        # Timers, with which ReadWatched reads, and state belong to a key, so each of its subtasks
        # has one.
        keys = keys_of_subtasks(parallelism)
        # One subtask lists the files, so each of them is found once.
        watch = WatchFiles(files, scan_s, list(map(min, keys)))
        paths = keyed(_ticks(table_env, scan_s), Types.LONG()).process(watch, output_type=_PATH)
        paths.name(f"{files.where}, list").uid(uid("list")).set_parallelism(1)
        visited = keys if starts_from_savepoint(table_env) else [[min(each)] for each in keys]
        rows = keyed(paths, Types.STRING()).process(
            ReadWatched(files, visited), output_type=ELEMENT
        )
        rows.set_parallelism(parallelism).set_max_parallelism(max(parallelism, MAX_PARALLELISM))
    in_small_bundles(rows.name(f"{files.where}, read").uid(uid("read")))
    columns = [(column.name, logical_type(column.sql)) for column in files.columns]
    schema = event_time(watermark if is_streaming(table_env) else None)
    table = table_of(table_env, rows, columns, schema, uid=uid("rows"))
    source = (
        # Members compute their shares from exact numbers of rows, which formats with groups have.
        files if members_read and FORMATS[files.format].has_groups else None
    )
    return with_origin(table, Origin(rows, [name for name, _ in columns], source))


def parts_of_files(
    table_env: StreamTableEnvironment, files: FileTable, uid: Callable[[str], str]
) -> DataStream:
    """Elements whose content is Arrow of parts, see `parts_from`."""
    # An element is a bundle of several functions, which costs 5 ms, so it stands for about 8 MB of
    # rows.
    numbers, numbered = _numbers_of(table_env, files, uid, 8)
    parts = (
        numbers.process(SendParts(files, numbered), output_type=ELEMENT)
        .name(f"{files.where}, parts")
        .uid(uid("parts"))
    )
    return sent_at_once(in_small_bundles(parts))


def parts_for_members(
    table_env: StreamTableEnvironment,
    files: FileTable,
    fed: Sequence[int],
    members: Sequence[int],
    uid: Callable[[str], str],
) -> DataStream:
    """Stream of (key, element): a START for each of `members`, and all parts for each of `fed`,
    which take shares.
    """
    tick = DataStream(table_env._j_tenv.execEnv().fromSequence(0, 0)).set_parallelism(1)
    starts = tick.process(SendStarts(members), output_type=KEY_AND_ELEMENT)
    starts.name(f"{files.where}, starts").uid(uid("starts")).set_parallelism(1)
    # These elements go to every member, so each has the groups of up to 64 numbers.
    numbers, numbered = _numbers_of(table_env, files, uid, 64)
    parts = numbers.process(SendParts(files, numbered, fed), output_type=KEY_AND_ELEMENT)
    return sent_at_once(parts.name(f"{files.where}, parts").uid(uid("parts"))).union(
        sent_at_once(starts)
    )


def _numbers_of(
    table_env: StreamTableEnvironment, files: FileTable, uid: Callable[[str], str], most: int = 1
) -> tuple[DataStream, NumberedFiles]:
    """Numbers for all files that are there now, each of which stands for about 1 MB of rows.

    A number is a bundle of a Python function, which takes about 5 ms. So up to `most` parts share
    one, as long as each subtask has four numbers or more.
    """
    ship_own_packages(table_env)
    found = list_files(files.where, files.addresses)
    # If there is no file, the listing raises an error, so there is a first one.
    first = next(found)
    numbered = NumberedFiles(
        itertools.chain([first], found), FileParts(files).bytes_per_part(first, PART_BYTES)
    )
    numbered.join(max(1, min(most, numbered.count // (4 * parallelism_of(table_env)))))
    numbers = DataStream(table_env._j_tenv.execEnv().fromSequence(0, numbered.count - 1))
    return numbers.name(f"{files.where}, numbers").uid(uid("list")), numbered


@dataclass
class SendStarts(ProcessFunction):  # type: ignore[misc]
    """Turns one tick into a START for each member, which RowsToArrow does for tables of rows."""

    members: Sequence[int]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        for index, key in enumerate(self.members):
            yield Row(key, Row(Element.START.value, index, 0, b""))


class ReadNumbered(ProcessFunction):  # type: ignore[misc]
    """Turns numbers into elements with the rows that they stand for.

    It has no state: the position of Flink's source of numbers, which runs in the same chain, is
    in the checkpoint. The list of files is part of this pickled function.
    """

    def __init__(
        self, files: FileTable, numbered: NumberedFiles, part_bytes: int | None = PART_BYTES
    ) -> None:
        # The files are in `numbered`, and a resumed prediction has thousands of addresses.
        self._files = replace(files, addresses=())
        self._numbered = numbered
        self._part_bytes = part_bytes

    def open(self, runtime_context: Any) -> None:
        give_large_blocks_back()
        self._parts = FileParts(self._files)
        # A subtask has numbers in a row, so mostly of the file that it asked for last.
        parts_of = functools.lru_cache(1)(lambda path: self._parts.parts_of(path, self._part_bytes))
        self._parts_at = functools.partial(self._numbered.parts_at, parts_of=parts_of)

    def process_element(self, value: int, ctx: Any) -> Iterator[InternalRow | Row]:
        for part in self._parts_at(value):
            for batch in self._parts.batches_of(part):
                yield from pieces(batch)


class SendParts(ReadNumbered):
    """Turns numbers into elements of parts, for an operator behind it that reads the files.

    With `fed`, the keys of the members that get rows, the parts are whole groups of rows, and
    every member gets all of them, because each computes its own share from the complete list.
    """

    def __init__(
        self, files: FileTable, numbered: NumberedFiles, fed: Sequence[int] | None = None
    ) -> None:
        super().__init__(files, numbered, PART_BYTES if fed is None else None)
        self._fed = fed

    def process_element(self, value: int, ctx: Any) -> Iterator[InternalRow | Row]:
        found = self._parts_at(value)
        while parts := list(itertools.islice(found, _SENT_PARTS)):
            content = parts_to_arrow(parts)
            if self._fed is None:
                yield element(Element.CHUNK, None, content)
            yield from (
                Row(key, Row(Element.CHUNK.value, 0, len(parts), content))
                for key in self._fed or ()
            )


@dataclass
class WatchFiles(KeyedProcessFunction):  # type: ignore[misc]
    """Turns ticks into the paths of files that were not there before.

    Digests of the paths that it has listed are in Flink's state. An empty path for each key
    follows every scan: timers of an earlier attempt did not fire after a restart, so ReadWatched
    needs an element to set the next one.
    """

    files: FileTable
    scan_s: float
    keys: Sequence[int]

    def open(self, runtime_context: Any) -> None:
        self._state = runtime_context.get_list_state(ListStateDescriptor("akdl_files", BYTES))
        self._known: set[bytes] | None = None
        # Files are dealt in turn, so each subtask of the reader gets about as many as any other.
        self._turns = itertools.cycle(self.keys)
        self._due = 0.0

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        # Ticks arrive at least twice as often as files are listed, so some are too early.
        if time.monotonic() < self._due:
            return
        if self._known is None:
            self._known = {
                digests[start : start + _DIGEST_BYTES]
                for digests in self._state.get()
                for start in range(0, len(digests), _DIGEST_BYTES)
            }
        new: list[bytes] = []
        for file in list_files(self.files.where, self.files.addresses, may_be_empty=True):
            if self._is_new(file.path, new):
                yield Row(next(self._turns), file.path)
        yield from (Row(key, "") for key in self.keys)
        if new:
            self._state.add(b"".join(new))
        # The time counts from the end of a listing, which may take longer than the interval.
        self._due = time.monotonic() + self.scan_s

    def _is_new(self, path: str, new: list[bytes]) -> bool:
        # Names of files on Linux are bytes, which need not be UTF-8. Python has surrogates for the
        # others.
        digest = hashlib.blake2b(
            path.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES
        ).digest()
        assert self._known is not None
        if digest in self._known:
            return False
        self._known.add(digest)
        new.append(digest)
        return True


@dataclass
class ReadWatched(KeyedProcessFunction):  # type: ignore[misc]
    """Turns paths into elements of rows, one part of about 1 MB with each timer.

    Paths wait in Flink's state with the number of their parts that have been read. In a queue of
    Flink, elements that stand for so many rows would hold up each checkpoint behind them.
    """

    files: FileTable
    keys: Sequence[Sequence[int]]

    def open(self, runtime_context: Any) -> None:
        give_large_blocks_back()
        self._parts = FileParts(self.files)
        self._parts_of = functools.lru_cache(1)(lambda path: self._parts.parts_of(path, PART_BYTES))
        self._waiting = runtime_context.get_map_state(
            MapStateDescriptor("akdl_waiting", Types.STRING(), Types.LONG())
        )
        # These keys have a timer. Timers of an earlier attempt do not fire, so there are none yet.
        self._reading = set[int]()
        keys = self.keys[runtime_context.get_index_of_this_subtask()]
        # The least key is the last one, because `keys_in_turn` leaves that one set, and it is the
        # key to which the elements of this subtask are sent.
        self._each_key = functools.partial(
            keys_in_turn, runtime_context, sorted(keys, reverse=True)
        )
        self._is_restored = False

    def process_element(self, value: str, ctx: Any) -> Iterator[InternalRow]:
        if not self._is_restored:
            self._is_restored = True
            self._take_over()
        if value:
            self._waiting.put(value, 0)
        elif ctx.get_current_key() not in self._reading:
            self._read_soon(ctx)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[InternalRow]:
        path, done = next(iter(self._waiting.items()), ("", 0))
        if not path:
            self._reading.discard(ctx.get_current_key())
            return
        parts = self._parts_of(path)
        if done < len(parts):
            for batch in self._parts.batches_of(parts[done][0]):
                yield from pieces(batch)
        # The rows of a part leave in the same call in which its number is stored, so a checkpoint
        # has both or neither.
        if done + 1 < len(parts):
            self._waiting.put(path, done + 1)
        else:
            self._waiting.remove(path)
        self._read_soon(ctx)

    def _take_over(self) -> None:
        """Move the files of a savepoint with another parallelism to the key of this subtask."""
        waiting = {}
        for _ in self._each_key():
            waiting.update(self._waiting.items())
            self._waiting.clear()
        for path, done in waiting.items():
            self._waiting.put(path, done)

    def _read_soon(self, ctx: Any) -> None:
        self._reading.add(ctx.get_current_key())
        timers = ctx.timer_service()
        # The time has to be in the future, or Flink would fire the timer at once, and no
        # checkpoint could complete between two parts.
        timers.register_processing_time_timer(timers.current_processing_time() + 1)


def _ticks(table_env: StreamTableEnvironment, scan_s: float) -> DataStream:
    """Rows of the same key at least as often as files are listed."""
    ship_own_packages(table_env)
    # The tables stay in the environment, so each needs a name of its own.
    name = f"akdl_ticks_{next(_numbers)}"
    options = (
        "'connector' = 'datagen', 'scan.parallelism' = '1', 'rows-per-second' ="
        f" '{max(1, round(2 / scan_s))}'"
    )
    table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} (tick BIGINT) WITH ({options})")
    ticks = table_env.sql_query(f"SELECT CAST(0 AS BIGINT) AS `key`, tick FROM {name}")
    return table_env.to_append_stream(ticks, named_row(key=Types.LONG(), tick=Types.LONG()))


def in_small_bundles(stream: DataStream) -> DataStream:
    """Let each element be a bundle of a Python function.

    PyFlink keeps the output of a bundle in a queue without a bound, and completes no checkpoint
    inside one. A size that the user has set for the environment overrides this.
    """
    option = flink_classes().python.PythonOptions.MAX_BUNDLE_SIZE
    operator = stream._j_data_stream.getTransformation().getOperatorFactory().getOperator()
    operator.getConfiguration().set(option, 1)
    return stream
