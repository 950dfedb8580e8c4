"""The Flink graph of a table in files: parts of files travel, and are read where their rows are needed.

    ticks --ListFiles--> units of files --MakeParts--> parts --ReadParts--> elements --ArrowToRows--> table

One subtask lists the files, and all subtasks open them. ListFiles knows only their sizes: a large file becomes several units,
each for some of its row groups. MakeParts finds the groups of a unit, and ReadParts, in the same slot, reads the parts of a
group one after the other.

PyFlink keeps the output of a bundle in a queue without a bound, and completes no checkpoint inside one. So a bundle of these
functions has few elements, and an element has parts of about 4 MB.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, ProcessFunction
from pyflink.datastream.data_stream import DataStream
from pyflink.datastream.state import ListStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table

from bridge.codec.ipc import read_batch
from bridge.files.listing import list_files
from bridge.files.parts import FilePart, parts_from, parts_to_arrow, units_from, units_of, units_to_arrow
from bridge.files.reading import PART_BYTES, FileParts, FileTable, SourceFiles
from bridge.flink.arrow_operators import keyed, logical_type, parallelism_of, sent_at_once, table_of
from bridge.flink.elements import ELEMENT, KEY_AND_ELEMENT, Element, element, pieces
from bridge.flink.time_attributes import event_time
from bridge.folders.shipped import ship_own_packages
from bridge.host.allocator import give_large_blocks_back
from bridge.table_env import is_streaming, planning, uids

if TYPE_CHECKING:
    from pyflink.fn_execution.coder_impl_fast import InternalRow

_BUNDLE_PARTS = 2  # elements of ReadParts: one is read while the JVM has the rows of the other
_MOST_PARTS, _MOST_ROWS = 256, 1 << 17  # of an element; encoded sizes tell little of repeated text
_DIGEST_BYTES = 16
_numbers = itertools.count()


@planning()
def table_of_files(
    table_env: StreamTableEnvironment,
    files: FileTable,
    addresses: Sequence[str],
    scan_s: float | None = None,
    watermark: tuple[str, str] | None = None,
) -> Table:
    """Table of the rows in files; with `scan_s`, files that appear later follow."""
    uid = uids(table_env, files.where, "files")
    parts = parts_of_files(table_env, files, addresses, uid, scan_s)
    rows = parts.process(ReadParts(files), output_type=ELEMENT).name(f"{files.where}, read").uid(uid("read"))
    # In a chain with MakeParts it would share its bundles.
    rows = in_small_bundles(rows.set_parallelism(parallelism_of(parts)).start_new_chain(), _BUNDLE_PARTS)
    columns = [(column.name, logical_type(column.sql)) for column in files.columns]
    schema = event_time(watermark if is_streaming(table_env) else None)
    return table_of(table_env, rows, columns, schema, uid=uid("rows"))


def parts_of_files(
    table_env: StreamTableEnvironment,
    files: FileTable,
    addresses: Sequence[str],
    uid: Callable[[str], str],
    scan_s: float | None = None,
    part_bytes: int | None = PART_BYTES,
) -> DataStream:
    """Elements whose content is Arrow of parts, see `parts_from`; whole groups of rows without `part_bytes`."""
    ship_own_packages(table_env)
    ticks = _ticks(table_env, scan_s)
    if scan_s is None:
        units = ticks.process(ListFiles(files, addresses), output_type=ELEMENT)
    else:
        units = keyed(ticks, Types.LONG()).process(WatchFiles(files, addresses, scan_s), output_type=ELEMENT)
    units.name(f"{files.where}, list").uid(uid("list")).set_parallelism(1)
    parallelism = int(table_env._j_tenv.execEnv().getParallelism())
    parts = sent_at_once(units).rebalance().process(MakeParts(files, part_bytes), output_type=ELEMENT)
    parts.name(f"{files.where}, parts").uid(uid("parts")).set_parallelism(parallelism)
    return sent_at_once(in_small_bundles(parts, 1))


def parts_for_members(
    table_env: StreamTableEnvironment,
    source: SourceFiles,
    fed: Sequence[int],
    members: Sequence[int],
    uid: Callable[[str], str],
) -> DataStream:
    """Stream of (key, element): a START for each of `members`, and all parts for each of `fed`, which take shares."""
    starts = _ticks(table_env, None).process(SendStarts(members), output_type=KEY_AND_ELEMENT)
    starts.name(f"{source.table.where}, starts").uid(uid("starts")).set_parallelism(1)
    parts = parts_of_files(table_env, source.table, source.addresses, uid, part_bytes=None)
    sent = parts.process(SendParts(fed), output_type=KEY_AND_ELEMENT).uid(uid("send")).set_parallelism(parallelism_of(parts))
    return sent_at_once(sent.name(f"{source.table.where}, send")).union(sent_at_once(starts))


class SendStarts(ProcessFunction):  # type: ignore[misc]
    """A tick to STARTs."""

    def __init__(self, members: Sequence[int]) -> None:
        self._members = members

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        for index, key in enumerate(self._members):
            yield Row(key, Row(Element.START.value, index, 0, b""))


class SendParts(ProcessFunction):  # type: ignore[misc]
    """Elements of parts to elements with the keys of all members that are fed."""

    def __init__(self, fed: Sequence[int]) -> None:
        self._fed = fed

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        count = read_batch(value[2]).num_rows
        for key in self._fed:
            yield Row(key, Row(Element.CHUNK.value, 0, count, value[2]))


class ListFiles(ProcessFunction):  # type: ignore[misc]
    """A tick to elements of units."""

    def __init__(self, files: FileTable, addresses: Sequence[str]) -> None:
        self._files, self._addresses = files, list(addresses)

    def process_element(self, value: Any, ctx: Any) -> Iterator[InternalRow]:
        files = list_files(self._files.where, self._addresses)
        for units in units_of(files, self._files.has_groups):
            yield element(Element.CHUNK, None, units_to_arrow(units))


class WatchFiles(KeyedProcessFunction):  # type: ignore[misc]
    """Ticks to elements of units of files that were not there before; digests of their paths are in Flink's state."""

    def __init__(self, files: FileTable, addresses: Sequence[str], scan_s: float) -> None:
        self._files, self._addresses, self._scan_s = files, list(addresses), scan_s

    def open(self, runtime_context: Any) -> None:
        self._state = runtime_context.get_list_state(ListStateDescriptor("akdl_files", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        self._known: set[bytes] | None = None
        self._due = 0.0

    def process_element(self, value: Any, ctx: Any) -> Iterator[InternalRow]:
        if time.monotonic() < self._due:
            return
        if self._known is None:
            self._known = {
                digests[start : start + _DIGEST_BYTES]
                for digests in self._state.get()
                for start in range(0, len(digests), _DIGEST_BYTES)
            }
        new: list[bytes] = []
        files = list_files(self._files.where, self._addresses, may_be_empty=True)
        unseen = (file for file in files if self._is_new(file.path, new))
        for units in units_of(unseen, self._files.has_groups):
            yield element(Element.CHUNK, None, units_to_arrow(units))
        if new:
            self._state.add(b"".join(new))
        self._due = time.monotonic() + self._scan_s

    def _is_new(self, path: str, new: list[bytes]) -> bool:
        digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()
        assert self._known is not None
        if digest in self._known:
            return False
        self._known.add(digest)
        new.append(digest)
        return True


class MakeParts(ProcessFunction):  # type: ignore[misc]
    """Units of files to elements of parts, in their order."""

    def __init__(self, files: FileTable, part_bytes: int | None) -> None:
        self._files, self._part_bytes = files, part_bytes

    def open(self, runtime_context: Any) -> None:
        self._parts = FileParts(self._files)

    def process_element(self, value: Any, ctx: Any) -> Iterator[InternalRow]:
        waiting: list[FilePart] = []
        size = rows = 0
        for unit in units_from(read_batch(value[2])):
            for part, part_size in self._parts.parts_of(unit, self._part_bytes):
                size, rows = size + part_size, rows + max(part.rows, 0)
                if waiting and (size > PART_BYTES or rows > _MOST_ROWS or len(waiting) == _MOST_PARTS):
                    yield element(Element.CHUNK, None, parts_to_arrow(waiting))
                    waiting, size, rows = [], part_size, max(part.rows, 0)
                waiting.append(part)
        if waiting:
            yield element(Element.CHUNK, None, parts_to_arrow(waiting))


class ReadParts(ProcessFunction):  # type: ignore[misc]
    """Elements of parts to elements of rows."""

    def __init__(self, files: FileTable) -> None:
        self._files = files

    def open(self, runtime_context: Any) -> None:
        give_large_blocks_back()
        self._parts = FileParts(self._files)

    def process_element(self, value: Any, ctx: Any) -> Iterator[InternalRow]:
        for part in parts_from(read_batch(value[2])):
            for batch in self._parts.batches_of(part):
                yield from pieces(batch)


def _ticks(table_env: StreamTableEnvironment, scan_s: float | None) -> DataStream:
    """One row, or rows of the same key at least as often as files are listed."""
    name = f"akdl_ticks_{next(_numbers)}"
    options = {"connector": "datagen", "scan.parallelism": "1"}
    if scan_s is None:
        options["number-of-rows"] = "1"
    else:
        options["rows-per-second"] = str(max(1, round(2 / scan_s)))
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} (tick BIGINT) WITH ({settings})")
    ticks = table_env.sql_query(f"SELECT CAST(0 AS BIGINT) AS `key`, tick FROM {name}")
    return table_env.to_append_stream(ticks, Types.ROW_NAMED(["key", "tick"], [Types.LONG(), Types.LONG()]))


def in_small_bundles(stream: DataStream, elements: int) -> DataStream:
    """Limit the bundles of a Python function; a size that the user has set for the environment wins."""
    option = get_gateway().jvm.org.apache.flink.python.PythonOptions.MAX_BUNDLE_SIZE
    operator = stream._j_data_stream.getTransformation().getOperatorFactory().getOperator()
    operator.getConfiguration().set(option, elements)
    return stream
