"""The Flink graph that brings a stream of models to every host that predicts, once to each.

    model rows ──┬──────────keyed────────┬──> Collect, one subtask ──whole models, keyed──┐
                 └──START──> SendPlace ──┘                       model processes <── Deliver

Deliver and SendPlace have as many subtasks as the job has slots, co-located in pairs; so Collect
sends a model to one subtask of each host. Deliver yields nothing, but is joined to the prediction,
as Flink runs only operators that lead to a result.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor
from pyflink.table import StreamTableEnvironment, Table

from akdl.storage.locked_folder import try_lock
from bridge.codec.ipc import read_batch
from bridge.exceptions import ConfigurationError, TaskError
from bridge.flink.arrow_operators import keyed, rows_for_members, sent_at_once
from bridge.flink.elements import BYTES, KEY_AND_ELEMENT, KEYED_ELEMENT, Element, named_row
from bridge.flink.exchange import check_parallelism
from bridge.flink.keys import keys_of_subtasks
from bridge.flink.script_graph import placed, starts_of
from bridge.group.addresses import folder_id, own_host
from bridge.host.places import model_place
from bridge.schema import quoted
from bridge.serving.model_rows import DamagedModel, Model, ModelRow, ModelRows
from bridge.serving.outputs import PredictionSettings, model_process
from bridge.table_env import has_checkpoints, planning, uids
from bridge.workarounds.beam_workers import close_with_worker
from bridge.workarounds.pyflink_defects import column_names

logger = logging.getLogger(__name__)

TIME_COLUMN = "alinkmodelstreamtimestamp"
COUNT_COLUMN = "alinkmodelstreamcount"

COLLECT_KEY = 0
# A subtask of an earlier attempt holds its lock until it is closed, for which it gets this time.
EARLIER_S = 60.0
_MODEL_ROW = named_row(
    number=Types.LONG(), text=Types.STRING(), model=Types.STRING(), rows=Types.LONG()
)
_PIECE = named_row(name=Types.STRING(), number=Types.INT(), last=Types.INT(), piece=BYTES)
_KEY_AND_PIECE = named_row(key=Types.LONG(), piece=_PIECE)


@planning()
def deliver_models(
    table_env: StreamTableEnvironment,
    result: Table,
    models: Table,
    settings: PredictionSettings,
    parallelism: int,
) -> Table:
    """Result of a prediction in whose job the models of a stream replace the first one."""
    operator = settings.process.operator
    group = settings.process.group
    view = f"akdl_model_rows_{group}"
    table_env.create_temporary_view(view, models)
    query = f"SELECT {', '.join(_model_columns(operator, models))} FROM {view}"
    # Collect and Deliver have no state under these keys, so no savepoint brings other keys.
    keys = list(map(min, keys_of_subtasks(parallelism)))
    collect = Collect(settings, has_checkpoints(table_env), keys)
    uid = uids(table_env, operator, "models")
    models = table_env.sql_query(query)
    rows = rows_for_members(
        table_env,
        models,
        [COLLECT_KEY],
        settings.gathering,
        members=[COLLECT_KEY, *keys],
        uid=uid("rows"),
        where=f"{operator}: the stream of models",
    )
    starts = keyed(sent_at_once(starts_of(table_env, rows, f"models_{group}")), KEYED_ELEMENT)
    places = sent_at_once(
        # PyFlink's keyed streams take only keyed functions, and SendPlace has no state.
        DataStream(starts._j_data_stream).process(SendPlace(), output_type=KEY_AND_ELEMENT)
    )
    placed(places, f"{operator}, places", f"{group}_models", parallelism, uid("places"))
    # One subtask gets all rows, because a model is assembled from all of its rows.
    collected = (
        keyed(rows.union(places), KEYED_ELEMENT)
        .process(collect, output_type=_KEY_AND_PIECE)
        .set_parallelism(1)
    )
    collected.name(f"{operator}, models").uid(uid("collected"))
    done = named_row(delivered=Types.LONG())
    delivered = keyed(collected, _PIECE).process(Deliver(settings, parallelism), output_type=done)
    placed(
        delivered, f"{operator}, models to hosts", f"{group}_models", parallelism, uid("delivered")
    )
    table_env.create_temporary_view(f"akdl_result_{group}", result)
    table_env.create_temporary_view(
        f"akdl_delivered_{group}", table_env.from_data_stream(delivered)
    )
    return table_env.sql_query(_union(result, f"akdl_result_{group}", f"akdl_delivered_{group}"))


class SendPlace(ProcessFunction):  # type: ignore[misc]
    """Turns (key, START) into (COLLECT_KEY, PLACE) with the number of this subtask, from 1.

    The place is a host and a folder for models on it. Subtasks with the same place share a model
    process, so only one of them has to get a model.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_sent = False

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Row]:
        _, (_, number, _, _) = value
        # Each subtask that gathers rows sends a START, so there are several, and one with the
        # number 0, which is for Collect.
        if number and not self._is_sent:
            self._is_sent = True
            yield Row(
                COLLECT_KEY,
                Row(
                    Element.PLACE.value,
                    number,
                    0,
                    f"{own_host()} {folder_id(model_place())}".encode(),
                ),
            )


@dataclass
class Collect(KeyedProcessFunction):  # type: ignore[misc]
    """Turns rows into whole models, piece by piece, for one subtask of each host.

    It yields (key of the subtask, ROW(name, number of the piece, number of the last one, piece)).
    Whole models wait until all places are known. With `keeps_rows`, Flink's state has the rows of
    the latest model and of unfinished ones, so a restart continues with the latest model.
    """

    settings: PredictionSettings
    keeps_rows: bool
    keys: Sequence[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        """Create a folder for pieces inside the folder of this host's model process.

        That folder is removed with the model process, even if this process is killed.
        """
        self._process = model_process(self.settings)
        close_with_worker(self.close)
        self._models = ModelRows(tempfile.mkdtemp(prefix="rows-", dir=self._process.folder))
        # These are the places of the rows of the latest whole model, which a checkpoint has to
        # have.
        self._latest: set[int] = set()
        self._subtasks: dict[bytes, set[int]] = {}  # by their place
        self._waiting: list[Model] = []
        self._kept: KeptRows | None = None
        self._is_restored = False
        if self.keeps_rows:
            descriptor = MapStateDescriptor("akdl_model_rows", Types.LONG(), _MODEL_ROW)
            self._kept = KeptRows(runtime_context.get_map_state(descriptor))

    def close(self) -> None:
        if hasattr(self, "_process"):
            self._process.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        """Take a chunk of rows, or a place; yield whole models, at the start the one that a
        checkpoint kept.
        """
        kind, number, _, content = value
        # This START is for another subtask. It has another key, and so another state, from which
        # nothing can be restored.
        if kind == Element.START and number:
            return
        if self._kept is not None and not self._is_restored:
            self._is_restored = True
            yield from self._taken(self._kept.restored())
        if kind == Element.START:
            return
        if kind == Element.PLACE:
            yield from self._add_place(number, content)
            return
        columns = [column.to_pylist() for column in read_batch(content).columns]
        rows = (ModelRow(*cells) for cells in zip(*columns))
        yield from self._taken(rows if self._kept is None else map(self._kept.keep, rows))

    def _taken(self, rows: Iterable[ModelRow]) -> Iterator[Row]:
        """Add rows, and yield the pieces of the models that they complete."""
        for row in rows:
            try:
                model = self._models.add(row)
            # A bad model does not stop the predictions, which continue with the last good one.
            except DamagedModel as error:
                logger.error(
                    "%s: a model of the stream is rejected: %s",
                    self.settings.process.operator,
                    error,
                )
                continue
            if model is not None:
                yield from self._pieces(model)
                self._latest = set(model.places)
        if self._kept is not None:
            self._kept.drop_all_but(self._latest | self._models.places)

    def _add_place(self, number: int, place: bytes) -> Iterator[Row]:
        self._subtasks.setdefault(place, set()).add(number)
        if self._has_all_places:
            waiting = self._waiting
            self._waiting = []
            for model in waiting:
                yield from self._pieces(model)

    @property
    def _has_all_places(self) -> bool:
        return sum(map(len, self._subtasks.values())) == len(self.keys)

    def _pieces(self, model: Model) -> Iterator[Row]:
        if not self._has_all_places:
            self._waiting.append(model)
            return
        # Subtasks of one place share a model process, so the lowest of them gets the model for all.
        # Numbers of members begin at 1, because 0 stands for Collect.
        keys = [self.keys[min(numbers) - 1] for numbers in self._subtasks.values()]
        last = len(model.numbers) - 1
        for number, piece in enumerate(model.pieces(), 1):
            for key in keys:
                yield Row(key, Row(model.name, number, last, piece))
        model.remove()


class KeptRows:
    """Rows of models in Flink's state, by places that are counted in the order of arrival.

    They are single rows and not models, because a checkpoint may fall between two rows of a model.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._places: set[int] = set()
        self._next = 0

    def restored(self) -> Iterator[ModelRow]:
        """Yield the rows of a checkpoint one at a time; nothing may be dropped before the
        last one.
        """
        self._places = set(self._state.keys())
        self._next = max(self._places, default=-1) + 1
        for place in sorted(self._places):
            yield replace(ModelRow(*self._state.get(place)), place=place)

    def keep(self, row: ModelRow) -> ModelRow:
        placed = replace(row, place=self._next)
        self._state.put(placed.place, Row(row.number, row.text, row.model, row.count))
        self._places.add(placed.place)
        self._next += 1
        return placed

    def drop_all_but(self, needed: set[int]) -> None:
        for place in self._places - needed:
            self._state.remove(place)
        self._places &= needed


@dataclass
class Deliver(KeyedProcessFunction):  # type: ignore[misc]
    """Writes the pieces of a model to a file on its host, and lets the model process load it.

    It is a task of the model process like the ones that predict, so it joins the process and
    keeps it alive. The subtask with the lock of the host acts; it yields nothing.
    """

    settings: PredictionSettings
    parallelism: int

    def open(self, runtime_context: RuntimeContext) -> None:
        check_parallelism(runtime_context, self.settings.process.operator, self.parallelism)
        self._file: IO[bytes] | None = None
        self._lock: int | None = None
        self._attempt = runtime_context.get_attempt_number()
        self._process = model_process(self.settings)
        close_with_worker(self.close)

    def close(self) -> None:
        if hasattr(self, "_process"):
            self._drop_file()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
            self._process.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        name, number, last, piece = value
        if number == 1:
            self._drop_file()
            # One subtask of a host acts: it holds a lock from its first model to its end.
            if self._lock is None:
                self._lock = take_turn(f"{self._process.folder}/delivery", self._attempt)
            if self._lock is not None:
                self._file = tempfile.NamedTemporaryFile(
                    dir=self._process.folder, prefix="model-", suffix=".zip"
                )
        if self._file is not None:
            self._file.write(piece)
            if number == last:
                # The model process opens the file by its path, so all bytes have to be in it.
                self._file.flush()
                self._process.replace(self._file.name, name)
                self._drop_file()
        return iter(())

    def _drop_file(self) -> None:
        if self._file is not None:
            file = self._file
            self._file = None
            # The folder, with the file, may have been removed with the model process.
            with contextlib.suppress(FileNotFoundError):
                file.close()


def take_turn(path: str, attempt: int) -> int | None:
    """Lock a file, after an earlier attempt's subtask has ended; None when another subtask of this
    attempt has it.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + EARLIER_S
    while not try_lock(lock):
        # The holder writes its attempt into the file after it has locked it, so the file may be
        # empty for a moment. Then the next turn of the loop reads it.
        holder = os.pread(lock, 20, 0)
        if holder == b"%d" % attempt:
            os.close(lock)
            return None
        if time.monotonic() > deadline:
            os.close(lock)
            raise TaskError(f"{path} is still locked by an earlier attempt after {EARLIER_S:g} s")
        time.sleep(0.05)
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d" % attempt, 0)
    return lock


def _union(result: Table, result_view: str, delivered_view: str) -> str:
    """SQL of the result and of the delivery, which yields no row but has to run in the same job.

    Both sides of a UNION ALL need the same types, and the delivery has no event time. So time
    attributes become plain timestamps here.
    """
    columns = []
    nulls = []
    for name, data_type in zip(
        column_names(result), result._j_table.getResolvedSchema().getColumnDataTypes()
    ):
        logical = data_type.getLogicalType()
        cast = f"AS {logical.copy(True).asSerializableString()}) AS {quoted(name)}"
        is_time = "*" in logical.asSummaryString()
        columns.append(f"CAST({quoted(name)} {cast}" if is_time else quoted(name))
        nulls.append(f"CAST(NULL {cast}")
    return (
        f"SELECT {', '.join(columns)} FROM {result_view} "
        f"UNION ALL SELECT {', '.join(nulls)} FROM {delivered_view} WHERE delivered < 0"
    )


def _model_columns(operator: str, models: Table) -> list[str]:
    names = {name.lower(): quoted(name) for name in column_names(models)}
    stamps = {TIME_COLUMN, COUNT_COLUMN}
    if set(names) not in ({"model_id", "model_info"}, {"model_id", "model_info"} | stamps):
        raise ConfigurationError(
            f"{operator}: the stream of models has the columns {', '.join(names)}; expected"
            f" model_id and model_info, with or without {TIME_COLUMN} and {COUNT_COLUMN}"
        )
    columns = {"number": ("model_id", "BIGINT"), "text": ("model_info", "STRING")}
    columns.update(model=(TIME_COLUMN, "STRING"), rows=(COUNT_COLUMN, "BIGINT"))
    return [
        f"CAST({names.get(name, 'NULL')} AS {sql}) AS {quoted(column)}"
        for column, (name, sql) in columns.items()
    ]
