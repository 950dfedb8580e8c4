"""The Flink graph of one script operator: gather, announce, exchange. Rows are keyed in the JVM.

    table --RowsToArrow--> (key, element) --keyed---------+--> Exchange --ArrowToRows--> table
                   |                                      |
                   +--> (key, START) --> Announce --keyed-+

A table in files sends parts of the files instead of rows: each Exchange gets all of them, and reads
its share.
"""

from __future__ import annotations

import functools
import json
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyflink.common import Row
from pyflink.datastream import ProcessFunction, RuntimeContext
from pyflink.datastream.data_stream import DataStream
from pyflink.table import DataTypes, StreamTableEnvironment, Table
from pyflink.table.expressions import lit

from bridge.exceptions import ConfigurationError
from bridge.files.reading import FileTable
from bridge.flink.arrow_operators import (
    deal_to,
    keyed,
    logical_types,
    rows_for_members,
    sent_at_once,
    table_of,
    with_late_rows_counted,
)
from bridge.flink.elements import (
    ELEMENT,
    KEY_AND_ELEMENT,
    KEYED_ELEMENT,
    Element,
    Origin,
    with_origin,
)
from bridge.flink.event_time import late_counter
from bridge.flink.exchange import Exchange
from bridge.flink.file_rows import parts_for_members
from bridge.flink.keys import keys_of_subtasks
from bridge.flink.stream_exchange import StreamExchange
from bridge.flink.time_attributes import ROWTIME, event_time, time_attributes, with_plain_times
from bridge.group.addresses import folder_id, own_host, reserve
from bridge.host.places import shared_place
from bridge.host.shipped import ship, ship_own_packages
from bridge.settings import MAX_PARALLELISM, RESTART, UNCOMMITTED, Gathering, GroupSettings
from bridge.table_env import (
    described,
    has_checkpoints,
    is_streaming,
    planning,
    starts_from_savepoint,
    uids,
)
from bridge.workarounds.pyflink_defects import column_names

MOST_MEMBERS = 4096  # of one group


@planning()
def run_script(
    table_env: StreamTableEnvironment,
    table: Table,
    extra: Sequence[Table],
    settings: GroupSettings,
    group: str,
    files: FileTable | None = None,
) -> tuple[Table, Callable[[int], None] | None]:
    """Table of the rows that the script writes.

    Args:
        table: Input whose rows are dealt to the workers.
        extra: Inputs that each process gets as a whole.
        group: Unique identifier, which also ties the two co-located operators together.
        files: Files with the rows of `table`, of which the members read their shares themselves.

    Returns:
        The table, and with `settings.least_workers` a function that sets the number of workers of
        the jobs that start from then on; else None.
    """
    if settings.size > MOST_MEMBERS:
        raise ConfigurationError(
            f"numWorkers + numPSs is {settings.size}, but one group has at most {MOST_MEMBERS}"
            " processes"
        )
    all_keys = keys_of_subtasks(settings.size)
    # Each member gets the lowest key of its range. Workers come before parameter servers, so with
    # one more parameter server this key still belongs to a worker, which can take its rows.
    keys = [each[0] for each in all_keys]
    uid = uids(table_env, settings.operator, settings.main_script)
    ship_own_packages(table_env)
    for path in settings.shipped:
        ship(table_env, path)
    if settings.publish_dir:
        # Only published models name a time; in other streams, nothing would ask for the times that
        # are noted.
        rowtimes = [name for name, kind in time_attributes(table).items() if kind == ROWTIME]
        settings = replace(settings, time_column="".join(rowtimes[:1]))
    tables = [
        _without_event_time(table_env, each, f"akdl_input_{group}_{number}")
        for number, each in enumerate([table, *extra])
    ]
    inputs = _chunks(table_env, tables[0], tables[1:], settings, keys, uid, files)
    chunks = inputs[0].union(*inputs[1:]) if extra else inputs[0]
    # Only a job from a savepoint looks for state under other keys: each key takes a millisecond.
    from_savepoint = starts_from_savepoint(table_env)
    if settings.kind == "stream":
        keeps_rows = (
            has_checkpoints(table_env)
            or settings.replay == UNCOMMITTED
            or settings.on_return == RESTART
        )
        exchange = StreamExchange(settings, group, all_keys, keeps_rows, from_savepoint)
    else:
        exchange = Exchange(
            settings, group, all_keys, is_streaming(table_env), files, from_savepoint
        )
    starts = keyed(sent_at_once(starts_of(table_env, chunks, group)), KEYED_ELEMENT)
    # PyFlink's keyed streams take only keyed functions, and Announce has no state.
    announced = DataStream(starts._j_data_stream).process(
        Announce(group, keys, settings.host_network, settings.tmp_dirs), output_type=KEY_AND_ELEMENT
    )
    # The key only selects the member. Batch mode would sort by it, and so wait for the last
    # element, while a script can begin once the addresses have arrived.
    announced._j_data_stream.getTransformation().setStateKeySelector(None)
    sent_at_once(announced)
    # Flink's web page shows this name.
    name = f"{settings.operator}, {posixpath.basename(settings.main_script)}"
    placed(announced, f"{name}, addresses", group, settings.size, uid("addresses"))
    written = starts.connect(keyed(chunks.union(announced), KEYED_ELEMENT)).process(
        exchange, output_type=ELEMENT
    )
    # Operators behind this one are planned once, with its parallelism, and an elastic group
    # changes its size between jobs. Its result has one subtask, as one worker sends the model.
    placed(
        written,
        name,
        group,
        settings.size if settings.least_workers is None else 1,
        uid("exchange"),
    )
    if not is_streaming(table_env):
        # Chunks pass as they arrive. Flink would sort keyed inputs in batch mode, which took as
        # long as the feed. An input without a key selector in the JVM passes unsorted; PyFlink
        # finds the key in the row. Flink reads such an input to its end before the sorted input
        # and its watermark, so the end of input comes after the last row with any plan.
        two_inputs = written._j_data_stream.getTransformation()
        two_inputs.setStateKeySelectors(two_inputs.getStateKeySelector1(), None)
    columns = logical_types(settings.output_schema)
    schema = event_time(settings.watermark)
    takes = settings.carries_event_time
    table = table_of(
        table_env, written, columns, schema, uid=uid("result"), takes_watermarks=takes, ends=True
    )
    if settings.least_workers is not None:
        return table, functools.partial(_resize, settings, inputs, (announced, written))
    if settings.watermark is None:
        return with_origin(table, Origin(written, settings.output_schema.names, ends=True)), None
    column = settings.watermark[0]
    counter = late_counter(settings.operator, settings.main_script, column, takes)
    return with_late_rows_counted(table_env, table, column, counter, uid("late")), None


@dataclass
class Announce(ProcessFunction):  # type: ignore[misc]
    """Turns each START into an ADDRESS for every member, on the TaskManager of that member's
    exchange. It has no state.

    Addresses travel through the dataflow and not through the driver, so that detached jobs and
    restarts work. The function is co-located with the exchange, so that the address is that of the
    host where the member's process runs.
    """

    group: str
    keys: Sequence[int]
    host_network: str | None
    tmp_dirs: str = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = runtime_context.get_attempt_number()
        size = runtime_context.get_number_of_parallel_subtasks()
        # The jobs of an elastic training share this function, and each has its own number of
        # members.
        if size != len(self.keys):
            self.keys = [each[0] for each in keys_of_subtasks(size)]
        self._is_announced = False

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Row]:
        """Reserve two ports at the first START of this attempt, and send them to all members."""
        # Each subtask that gathers rows sends a START, and the first one is enough.
        if self._is_announced:
            return
        self._is_announced = True
        _, (_, index, _, _) = value
        host = own_host(self.host_network)
        place = shared_place(self.tmp_dirs)
        address = json.dumps(
            [host, *reserve(self.group, index, self._attempt), folder_id(place)]
        ).encode()
        for key in self.keys:
            yield Row(key, Row(Element.ADDRESS.value, index, 0, address))


def _resize(
    settings: GroupSettings,
    inputs: Sequence[DataStream],
    members: Sequence[DataStream],
    workers: int,
) -> None:
    """Give the next jobs another number of workers, which the members' functions find as they run.

    Flink's adaptive scheduler was tried first. It hands batch jobs to the adaptive batch
    scheduler, which failed at the co-location of the two operators of a group.
    """
    settings = replace(settings, num_workers=workers)
    keys = [each[0] for each in keys_of_subtasks(settings.size)]
    for number, rows in enumerate(inputs):
        # Extra inputs go to member 0 alone.
        deal_to(rows, keys[:1] if number else [keys[each] for each in settings.fed], keys)
    for stream in members:
        stream.set_parallelism(settings.size)


def _without_event_time(table_env: StreamTableEnvironment, table: Table, view: str) -> Table:
    """Make a table that can become a stream: scripts need no event time, and Flink accepts only
    one.
    """
    if ROWTIME not in time_attributes(table).values():
        return table
    return with_plain_times(table_env, table, view, column_names(table))


def _chunks(
    table_env: StreamTableEnvironment,
    table: Table,
    extra: Sequence[Table],
    settings: GroupSettings,
    keys: list[int],
    uid: Callable[[str], str],
    files: FileTable | None,
) -> list[DataStream]:
    """Return the elements of each input, the extra ones behind the first."""
    # The weight column is the only column that the script has and the input lacks; equal steps
    # later add rows of weight 0.
    for column in settings.script_schema.columns[len(settings.input_schema.columns) :]:
        table = table.add_columns(lit(1.0).cast(DataTypes.FLOAT()).alias(column.name))
    where = f"{settings.operator}: the input"
    fed = [keys[index] for index in settings.fed]
    # Rows of a bounded input are dealt one by one, so that shares differ by one row at most. Rows
    # of a stream leave after milliseconds, and would make a small chunk for each worker, so whole
    # chunks are dealt.
    gathering = Gathering(by_row=True)
    if settings.kind == "stream":
        gathering = Gathering(rows=settings.chunk_rows, wait_s=settings.chunk_wait_s)
    if files is not None:
        chunks = parts_for_members(table_env, files, fed, keys, uid)
    else:
        chunks = rows_for_members(
            table_env,
            table,
            fed,
            gathering,
            0,
            keys,
            uid("rows"),
            where,
            settings.carries_event_time,
        )
    # The rows of a stream have waited in the chunk already, and Flink's buffer would hold the
    # chunk for another 100 ms.
    if settings.kind == "stream":
        sent_at_once(chunks)
    # Flink sends all chunks of these inputs to member 0, which passes each once to every other
    # host: see `bridge.member.extra_input_delivery`.
    whole = [
        rows_for_members(
            table_env, each, keys[:1], Gathering(), number, members=keys, uid=uid(f"extra-{number}")
        )
        for number, each in enumerate(extra, 1)
    ]
    return [chunks, *whole]


def starts_of(table_env: StreamTableEnvironment, chunks: DataStream, group: str) -> DataStream:
    """START elements of a stream of chunks, which end when it ends.

    A source of its own for them would have ended long before a checkpoint, and a job that
    continues from a checkpoint does not run operators that had ended: no member would start.
    """
    view = f"akdl_chunks_{group}"
    table_env.create_temporary_view(view, table_env.from_data_stream(chunks))
    starts = table_env.sql_query(
        f"SELECT `key`, `element` FROM {view} WHERE `element`.`kind` = {Element.START.value}"
    )
    # `to_data_stream` would give a type that keyed Python operators refuse.
    return table_env.to_append_stream(starts, KEY_AND_ELEMENT)


def placed(stream: DataStream, name: str, group: str, parallelism: int, uid: str) -> None:
    """Give an operator one subtask per member, on the TaskManager of the other operator's subtask.

    Operators with the same co-location group share slots subtask by subtask. The description
    names the group, so that the plan of a running job shows which processes belong to it.
    """
    stream.set_parallelism(parallelism).set_max_parallelism(max(parallelism, MAX_PARALLELISM)).name(
        name
    ).uid(uid)
    stream.set_description(
        described(name, group)
    )._j_data_stream.getTransformation().setCoLocationGroupKey(group)
