"""The Flink graph that brings a stream of models to every host that predicts, once to each.

    model rows ──┬───────────keyed──────────┬──> Collect, one subtask ──whole models, keyed──> Deliver ──> model processes
                 └──START──> TellPlace ─────┘

Deliver has as many subtasks as the job has slots, so there is one wherever a task predicts. TellPlace has as many, each beside
its fellow of Deliver, and tells Collect where it runs. So Collect sends a model to one subtask of each host. Deliver yields
nothing, but is joined to the result of the prediction, as Flink only runs what leads to a result.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessFunction
from pyflink.datastream.state import MapStateDescriptor
from pyflink.table import StreamTableEnvironment, Table

from akdl.folders.file_lock import try_lock
from bridge.codec.ipc import read_batch
from bridge.exceptions import ConfigurationError, TaskError
from bridge.flink.arrow_operators import Dealing, keyed, rows_for_members
from bridge.flink.elements import KEY_AND_ELEMENT, KEYED_ELEMENT, Element
from bridge.flink.script_graph import one_key_per_subtask, placed, sent_at_once, starts_of
from bridge.flink.uids import uids
from bridge.folders.sweep import model_place
from bridge.group.addresses import folder_id, own_host
from bridge.schema import quoted
from bridge.serving.model_rows import DamagedModel, Model, ModelRow, ModelRows
from bridge.serving.prediction import PredictionSettings, model_process
from bridge.table_env import has_checkpoints, planning
from bridge.workarounds.beam_workers import close_with_worker
from bridge.workarounds.pyflink_defects import column_names

logger = logging.getLogger(__name__)

TIME_COLUMN = "alinkmodelstreamtimestamp"
COUNT_COLUMN = "alinkmodelstreamcount"

COLLECT_KEY = 0
EARLIER_S = 60.0  # for a worker of an earlier attempt to end
_MODEL_ROW = Types.ROW_NAMED(["number", "text", "model", "rows"], [Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()])
_PIECE = Types.ROW_NAMED(
    ["name", "number", "last", "piece"], [Types.STRING(), Types.INT(), Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())]
)
_KEY_AND_PIECE = Types.ROW_NAMED(["key", "piece"], [Types.LONG(), _PIECE])


@planning()
def deliver_models(
    table_env: StreamTableEnvironment, result: Table, models: Table, settings: PredictionSettings, parallelism: int
) -> Table:
    """Return the result of a prediction, in whose job the models of a stream take over from the first one."""
    operator, group = settings.process.operator, settings.process.group
    view = f"akdl_model_rows_{group}"
    table_env.create_temporary_view(view, models)
    query = f"SELECT {', '.join(_model_columns(operator, models))} FROM {view}"
    keys = one_key_per_subtask(parallelism)
    collect = Collect(settings, has_checkpoints(table_env), keys)
    uid = uids(table_env, operator, "models")
    models = table_env.sql_query(query)
    told = [COLLECT_KEY, *keys]  # that the job starts
    rows = rows_for_members(
        table_env,
        models,
        [COLLECT_KEY],
        Dealing.BY_CHUNK,
        settings.gathering,
        members=told,
        uid=uid("rows"),
        where=f"{operator}: the stream of models",
    )
    starts = keyed(sent_at_once(starts_of(table_env, rows, f"models_{group}")), KEYED_ELEMENT)
    places = sent_at_once(DataStream(starts._j_data_stream).process(TellPlace(), output_type=KEY_AND_ELEMENT))
    placed(places, f"{operator}, places", f"{group}_models", parallelism, uid("places"))
    collected = keyed(rows.union(places), KEYED_ELEMENT).process(collect, output_type=_KEY_AND_PIECE).set_parallelism(1)
    collected.name(f"{operator}, models").uid(uid("collected"))
    done = Types.ROW_NAMED(["delivered"], [Types.LONG()])
    delivered = keyed(collected, _PIECE).process(Deliver(settings), output_type=done)
    placed(delivered, f"{operator}, models to hosts", f"{group}_models", parallelism, uid("delivered"))
    table_env.create_temporary_view(f"akdl_result_{group}", result)
    table_env.create_temporary_view(f"akdl_delivered_{group}", table_env.from_data_stream(delivered))
    return table_env.sql_query(_union(result, f"akdl_result_{group}", f"akdl_delivered_{group}"))


class TellPlace(ProcessFunction):  # type: ignore[misc]
    """Turns (key, START) into (COLLECT_KEY, PLACE), which says where this subtask runs.

    The number is that of the subtask, from 1. Tasks with one place share a model process.
    """

    def open(self, runtime_context: Any) -> None:
        """Nothing has been told yet."""
        self._is_told = False

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Tell where this is, once."""
        _, (_, number, _, _) = value
        if number and not self._is_told:  # each subtask that gathers rows says that the job starts, to Collect too
            self._is_told = True
            yield Row(COLLECT_KEY, Row(Element.PLACE.value, number, 0, f"{own_host()} {folder_id(model_place())}".encode()))


class Collect(KeyedProcessFunction):  # type: ignore[misc]
    """Turns rows into whole models, piece by piece, for one subtask of each host.

    It yields (key of the subtask, ROW(name, number of the piece, number of the last one, piece)). Models that are whole before
    all places are known wait for them.

    Args:
        keeps_rows: Keep the rows of the latest model in Flink's state, and those of models that are not whole yet.
    """

    def __init__(self, settings: PredictionSettings, keeps_rows: bool, keys: Sequence[int]) -> None:
        self._settings = settings
        self._keeps_rows = keeps_rows
        self._keys = keys

    def open(self, runtime_context: Any) -> None:
        """Make a place for pieces, which goes with the model process of this host, even if this one is killed."""
        self._process = model_process(self._settings)
        close_with_worker(self.close)
        self._models = ModelRows(tempfile.mkdtemp(prefix="rows-", dir=self._process.folder))
        self._latest: set[int] = set()  # places of the rows of the latest whole model
        self._subtasks: dict[bytes, set[int]] = {}  # at each place that is known
        self._waiting: list[Model] = []
        self._kept: KeptRows | None = None
        self._is_restored = False
        if self._keeps_rows:
            # A type with names: of one without, a worker on a cluster would ask a JVM that is not there.
            descriptor = MapStateDescriptor("akdl_model_rows", Types.LONG(), _MODEL_ROW)
            self._kept = KeptRows(runtime_context.get_map_state(descriptor))

    def close(self) -> None:
        """Let go of the process."""
        if hasattr(self, "_process"):
            self._process.close()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Take a chunk of rows, or a place; yields the models that are whole, at the start the one that a checkpoint kept."""
        kind, number, _, content = value
        if kind == Element.START and number:
            return  # for another subtask; the state of its key is not this one's
        if self._kept is not None and not self._is_restored:
            self._is_restored = True
            yield from self._taken(self._kept.restored())
        if kind == Element.START:
            return
        if kind == Element.PLACE:
            yield from self._learn(number, content)
            return
        columns = [column.to_pylist() for column in read_batch(content).columns]
        rows = (ModelRow(*cells) for cells in zip(*columns))
        yield from self._taken(rows if self._kept is None else map(self._kept.keep, rows))

    def _taken(self, rows: Iterable[ModelRow]) -> Iterator[Row]:
        """Add rows to their models. After the last one, drop rows that no model needs any more."""
        for row in rows:
            try:
                model = self._models.add(row)
            except DamagedModel as error:
                logger.error("%s: a model of the stream is refused: %s", self._settings.process.operator, error)
                continue
            if model is not None:
                yield from self._pieces(model)
                self._latest = set(model.places)
        if self._kept is not None:
            self._kept.drop_all_but(self._latest | self._models.places)

    def _learn(self, number: int, place: bytes) -> Iterator[Row]:
        """Learn where a subtask runs; the models that waited for the last one leave."""
        self._subtasks.setdefault(place, set()).add(number)
        if self._knows_all:
            waiting, self._waiting = self._waiting, []
            for model in waiting:
                yield from self._pieces(model)

    @property
    def _knows_all(self) -> bool:
        return sum(map(len, self._subtasks.values())) == len(self._keys)

    def _pieces(self, model: Model) -> Iterator[Row]:
        if not self._knows_all:
            self._waiting.append(model)
            return
        keys = [self._keys[min(numbers) - 1] for numbers in self._subtasks.values()]
        last = len(model.sizes) - 1
        for number, piece in enumerate(model.pieces(), 1):
            for key in keys:
                yield Row(key, Row(model.name, number, last, piece))
        model.remove()


class KeptRows:
    """Rows of models in Flink's state, by their place in the stream."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._places: set[int] = set()
        self._next = 0

    def restored(self) -> Iterator[ModelRow]:
        """Yield the rows that a checkpoint kept, one at a time; none may be dropped before the last one."""
        self._places = set(self._state.keys())
        self._next = max(self._places, default=-1) + 1
        for place in sorted(self._places):
            yield replace(ModelRow(*self._state.get(place)), place=place)

    def keep(self, row: ModelRow) -> ModelRow:
        """Keep a row, and return it with its place."""
        placed = replace(row, place=self._next)
        self._state.put(placed.place, Row(row.number, row.text, row.model, row.count))
        self._places.add(placed.place)
        self._next += 1
        return placed

    def drop_all_but(self, needed: set[int]) -> None:
        """Drop all rows that are not at these places."""
        for place in self._places - needed:
            self._state.remove(place)
        self._places &= needed


class Deliver(KeyedProcessFunction):  # type: ignore[misc]
    """Lets the model process of this host go over to each model that comes."""

    def __init__(self, settings: PredictionSettings) -> None:
        self._settings = settings

    def open(self, runtime_context: Any) -> None:
        """Take hold of the process."""
        self._file: IO[bytes] | None = None
        self._lock: int | None = None
        self._attempt = runtime_context.get_attempt_number()
        self._process = model_process(self._settings)
        close_with_worker(self.close)

    def close(self) -> None:
        """Let go of it."""
        if hasattr(self, "_process"):
            self._drop_file()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
            self._process.close()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Take a piece; the model takes over with its last one."""
        name, number, last, piece = value
        if number == 1:
            self._drop_file()
            if self._acts():
                self._file = tempfile.NamedTemporaryFile(dir=self._process.folder, prefix="model-", suffix=".zip")
        if self._file is not None:
            self._file.write(piece)
            if number == last:
                self._file.flush()
                self._process.replace(self._file.name, name)
                self._drop_file()
        return iter(())

    def _acts(self) -> bool:
        """Whether this is the one on its host that acts: it holds a lock from its first model to its end."""
        if self._lock is None:
            self._lock = take_turn(os.path.join(self._process.folder, "delivery"), self._attempt)
        return self._lock is not None

    def _drop_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(FileNotFoundError):  # the folder went with the process
                file.close()


def take_turn(path: str, attempt: int) -> int | None:
    """Return the descriptor of a file that is locked from now on, or None when another one of this attempt has it.

    One of an earlier attempt may still be about to end, after Flink has started this attempt: its end is waited for. Without
    that, nobody would act in the new attempt.

    Args:
        path: Of the file, which says in which attempt it was locked.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + EARLIER_S
    while not try_lock(lock):
        holder = os.pread(lock, 20, 0)  # nothing between its locking and its writing
        if holder == b"%d" % attempt:
            os.close(lock)
            return None
        if time.monotonic() > deadline:
            os.close(lock)
            raise TaskError(f"{path} is still locked by an earlier attempt; this attempt waited {EARLIER_S:g} s")
        time.sleep(0.05)
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d" % attempt, 0)
    return lock


def _union(result: Table, result_view: str, delivered_view: str) -> str:
    """Return SQL of the result and of what is delivered, which yields no row but has to run with it."""
    columns, nulls = [], []
    for name, data_type in zip(column_names(result), result._j_table.getResolvedSchema().getColumnDataTypes()):
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
    """Return the columns of `_MODEL_ROW` as SQL."""
    names = {name.lower(): quoted(name) for name in column_names(models)}
    stamps = {TIME_COLUMN, COUNT_COLUMN}
    if set(names) not in ({"model_id", "model_info"}, {"model_id", "model_info"} | stamps):
        raise ConfigurationError(
            f"{operator}: the stream of models has the columns {', '.join(names)}; expected model_id and model_info, and "
            f"perhaps {TIME_COLUMN} and {COUNT_COLUMN}"
        )
    columns = {"number": ("model_id", "BIGINT"), "text": ("model_info", "STRING")}
    columns.update(model=(TIME_COLUMN, "STRING"), rows=(COUNT_COLUMN, "BIGINT"))
    return [f"CAST({names.get(name, 'NULL')} AS {sql}) AS {quoted(column)}" for column, (name, sql) in columns.items()]
