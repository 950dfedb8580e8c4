"""The Flink graph of a predictor: between RowsToArrow and ArrowToRows, one function adds the
model's outputs to batches.

Columns that stay and row kinds pass through unchanged, also of types that a model cannot read. The
model runs in a process of its own (`model_process`), one for all tasks of a host. This function
sends it the columns of a few requests at a time, and returns their rows in the order of arrival.

A chunk may have 64,000 rows. As one request it would take 18 hours with a model that needs a second
for a row, and a failure would lose all of its predictions. So each request has a size with which it
is answered within about a second.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyflink.common import RowKind
from pyflink.datastream import ProcessFunction, RuntimeContext
from pyflink.fn_execution.coder_impl_fast import InternalRow
from pyflink.metrics import Counter, MetricGroup
from pyflink.table import StreamTableEnvironment, Table

from akdl.wire import Prediction
from bridge.codec.ipc import read_batch, selected
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.files.parts import parts_from
from bridge.files.reading import FileParts, FileTable
from bridge.flink.arrow_operators import (
    chunks_of,
    column_types,
    logical_type,
    logical_types,
    table_of,
    upsert_keys,
)
from bridge.flink.elements import ELEMENT, Element, Origin, element, pieces, with_origin
from bridge.flink.file_rows import in_small_bundles, parts_of_files
from bridge.flink.time_attributes import (
    PROCTIME,
    ROWTIME,
    event_time,
    time_attributes,
    with_plain_times,
)
from bridge.host.allocator import give_large_blocks_back
from bridge.host.shipped import ship, ship_own_packages
from bridge.member.observer import TaskObserver
from bridge.schema import quoted
from bridge.serving.model_process import ModelProcess, Request, StalledModel
from bridge.serving.outputs import PredictionSettings, model_process, with_outputs
from bridge.serving.resumption import PredictionParts
from bridge.settings import PythonArchive
from bridge.table_env import described, planning, uids
from bridge.workarounds.beam_workers import close_with_worker

# A task has so many requests under way, so that the model computes while chunks travel and are
# decoded.
_MOST_SENT = 3
_MOST_SENT_BYTES = 16 << 20
_WHY = "akdl_why"


@planning()
def predict_table(
    table_env: StreamTableEnvironment,
    table: Table,
    settings: PredictionSettings,
    files: FileTable | None = None,
) -> Table:
    """Table with the model's outputs.

    Updates stay updates, and columns that stay keep their time attributes.

    Args:
        table: The rows, perhaps a changing table.
        files: Files with the rows of `table`, which are read in the function that predicts.
    """
    ship_own_packages(table_env)
    # Only a model in a file travels with the job. Each host fetches a placed model, and a folder is
    # on every host already.
    if settings.placed is None and os.path.isfile(settings.model):
        ship(table_env, settings.model)
    for file in settings.process.user_files:
        if file.shipped:
            ship(table_env, file.shipped)
    if isinstance(settings.process.python, PythonArchive):
        ship(table_env, settings.process.python.path)
    group = settings.process.group
    times = time_attributes(table)
    stays = [name for name, is_output in settings.result if not is_output]
    # A stream of Flink has one event time. Processing times are not stored in rows, so they are
    # added again behind the function.
    proctimes = [
        name
        for name in stays
        if times.get(name) == PROCTIME and name not in settings.input_schema.names
    ]
    rowtime = next((name for name in stays if times.get(name) == ROWTIME), None)
    ids = set() if settings.resumption is None else {settings.resumption.schema.names[0]}
    needed = {*settings.input_schema.names, *stays, *ids} - set(proctimes)
    kept = with_plain_times(table_env, table, f"akdl_rows_{group}", needed, rowtime)
    uid = uids(table_env, settings.process.operator)
    read = None
    if files is None:
        chunks, updates = chunks_of(
            table_env, kept, settings.gathering, uid("rows"), sends_all_out=True
        )
    else:
        read = files.selected([column.name for column in files.columns if column.name in needed])
        chunks = parts_of_files(table_env, read, uid)
        updates = False
    types = dict(column_types(kept))
    types.update(logical_types(settings.output_schema))
    types.update(
        {name: logical_type("STRING") for name, _ in settings.columns[len(settings.result) :]}
    )
    columns = [(name, types[name]) for name, _ in settings.columns if name not in proctimes]
    plain = {name for name in stays if name not in proctimes}
    # A table that is made of a stream has no key, so the key of the input is declared again if all
    # of its columns stay.
    key = (
        next((each for each in upsert_keys(table_env, kept) if plain >= set(each)), [])
        if updates
        else []
    )
    predicted = chunks.process(
        _Predict(settings, [name for name, _ in columns], key, read), output_type=ELEMENT
    )
    predicted.name(settings.process.operator).uid(uid("prediction")).set_parallelism(
        chunks._j_data_stream.getParallelism()
    )
    predicted.set_description(described(settings.process.operator, group))
    # An element of parts stands for up to 8 MB of rows, so each is a bundle.
    if read is not None:
        in_small_bundles(predicted.start_new_chain())
    schema = event_time(None if rowtime is None else (rowtime, "SOURCE_WATERMARK()"), key)
    ends = read is None
    result = table_of(table_env, predicted, columns, schema, updates, uid("result"), ends=ends)
    if not proctimes:
        return with_origin(
            result, None if updates else Origin(predicted, [name for name, _ in columns], ends=ends)
        )
    view = f"akdl_predicted_{group}"
    table_env.create_temporary_view(view, result)
    cells = [
        f"PROCTIME() AS {quoted(name)}" if name in proctimes else quoted(name)
        for name, _ in settings.columns
    ]
    return table_env.sql_query(f"SELECT {', '.join(cells)} FROM {view}")


@dataclass
class _Predict(ProcessFunction):  # type: ignore[misc]
    """Task of a predictor. Elements come one at a time, and answers in the threads of gRPC.

    Requests are under way between calls, so a checkpoint must not be taken at any moment.
    RowsToArrow marks the last chunk before each barrier as ALL_OUT, and this function then waits
    for all answers. So it needs no state, and a restart neither loses nor doubles rows.
    """

    settings: PredictionSettings
    columns: list[str]
    key: list[str]
    files: FileTable | None = None  # if not None, chunks are parts of files

    def open(self, runtime_context: RuntimeContext) -> None:
        give_large_blocks_back()
        self._reader = None if self.files is None else FileParts(self.files)
        self._decoder = ColumnDecoder(self.settings.output_schema, "the model")
        self._status = TaskObserver(
            self.settings.process.group,
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_attempt_number(),
        )
        self._processes: list[ModelProcess] = []
        # Rows under way in their order: the batch, kinds of its rows, its request and its process.
        self._sent: deque[tuple[pa.RecordBatch, bytes | None, Request, ModelProcess]] = deque()
        # Number of the model that answered last, and the time of the answer.
        self._model = 0
        self._ended = 0.0
        self._parts = (
            None if self.settings.resumption is None else PredictionParts(self.settings.resumption)
        )
        copies = self.settings.process.copies
        subtask = runtime_context.get_index_of_this_subtask()
        # The copies load their models side by side. Each task begins with another copy, since equal
        # requests go to the first in its list.
        with ThreadPoolExecutor(copies) as pool:
            joined = [
                pool.submit(model_process, self.settings, (subtask + copy) % copies)
                for copy in range(copies)
            ]
        # Processes that were joined are noted before an error of another one is raised, so that
        # `close` releases them.
        self._processes += [each.result() for each in joined if each.exception() is None]
        # The worker may have ended while the models were loaded. This closes them at once then.
        close_with_worker(self.close)
        processes = [each.result() for each in joined]
        # A row may take seconds. With files to continue from, a failed job should not lose more
        # rows than the model predicts in a second, so the first request has one row.
        self._size = RequestSize(1 if self._parts else processes[0].batch_size)
        descriptions = [process.description for process in processes]
        self._status.loaded(",".join(each.gpus for each in descriptions if each.gpus))
        self._metrics = PredictionMetrics(
            runtime_context.get_metrics_group(), max(each.load_s for each in descriptions)
        )

    def close(self) -> None:
        # This may be called before `open` has succeeded, and twice.
        if getattr(self, "_processes", None):
            while self._processes:
                self._processes.pop().close()
            self._status.end()
            if self._parts is not None:
                self._parts.end()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[InternalRow]:
        kind, kinds, arrow = value
        if self._reader is not None:
            for part in parts_from(read_batch(arrow)):
                for batch in self._reader.batches_of(part):
                    yield from self._send(batch, None)
        elif arrow:
            batch = read_batch(arrow)
            yield from self._send(
                batch, kinds_by_key(batch, kinds, self.key) if kinds and self.key else kinds
            )
        # Parts of files carry no marks, so all requests of such an element are answered before it
        # ends. Otherwise only answers that have arrived leave, and only in their order.
        all_out = kind in (Element.ALL_OUT, Element.END) or self._reader is not None
        while self._sent and (all_out or self._sent[0][2].is_done):
            yield from pieces(*self._next())
        if kind == Element.END:
            yield element(Element.END, None, b"")

    def _send(self, batch: pa.RecordBatch, kinds: bytes | None) -> Iterator[InternalRow]:
        """Request the predictions of rows, and yield earlier ones while too many requests are under
        way.
        """
        give_large_blocks_back(batch.num_rows, batch.nbytes)
        settings = self.settings
        start = 0
        most = _MOST_SENT * len(self._processes)
        while start < batch.num_rows:
            # Each answer may change the size of the next request.
            while len(self._sent) >= most:
                yield from pieces(*self._next())
            part = batch.slice(start, self._size.rows)
            columns = to_columns(
                selected(part, settings.input_schema.names),
                settings.input_schema,
                settings.process.operator,
            )
            while self._sent and self._sent_bytes() + len(columns) > _MOST_SENT_BYTES:
                yield from pieces(*self._next())
            request = Request(columns)
            process = min(self._processes, key=self._sent_bytes)
            process.send(request)
            end = start + part.num_rows
            self._sent.append((part, kinds and kinds[start:end], request, process))
            start = end

    def _sent_bytes(self, process: ModelProcess | None = None) -> int:
        """Bytes of requests under way, or of the requests that a process has not answered yet."""
        return sum(
            len(each.columns)
            for _, _, each, to in self._sent
            if process is None or (to is process and not each.is_done)
        )

    def _next(self) -> tuple[pa.RecordBatch, bytes | None]:
        """Wait for the oldest request, and return its rows with the outputs, and their kinds."""
        prediction = self._answer()
        # Requests are computed side by side, so the answer of an older model may be taken after one
        # of a newer model. It is computed again, or the rows of a task would return to the older
        # model. A second answer of a lower number is from a fresh process, which another task has
        # started after a stall, and which counts from its first model.
        if prediction.model < self._model:
            self._sent[0][3].send(self._sent[0][2])
            prediction = self._answer()
        batch, kinds, request, _ = self._sent.popleft()
        rows = batch.num_rows
        ended = request.ended or time.monotonic()
        failed = len(prediction.bad_rows)
        self._metrics.add(rows, failed, ended - request.begun, prediction)
        # The time before the previous answer belongs to the previous request.
        took_s = max(0.0, ended - max(request.begun, self._ended))
        self._status.add(rows, took_s)
        self._size.note(rows, took_s)
        self._model = prediction.model
        self._ended = ended
        if self._parts is not None and self.settings.error_column is None and prediction.bad_rows:
            # Bad rows fail the job. The next run needs the other rows of the request, which the
            # model has predicted.
            decoder = ColumnDecoder(self.settings.output_schema.all_nullable)
            told = with_outputs(
                batch, prediction, decoder, replace(self.settings, error_column=_WHY)
            )
            self._parts.add(told.filter(pc.is_null(told.column(_WHY))))
            self._parts.end()
        whole = with_outputs(batch, prediction, self._decoder, self.settings)
        if self._parts is not None:
            self._parts.add(whole)
        return selected(whole, self.columns), kinds

    def _answer(self) -> Prediction:
        """Wait for the answer of the oldest request, over restarts of its process."""
        _, _, request, process = self._sent[0]
        while True:
            try:
                return process.answer(request)
            except StalledModel:
                process.restart()
                # A fresh process has the first model again, and has none of the requests.
                self._model = 0
                for _, _, other, to in self._sent:
                    if to is process:
                        process.send(other)


def kinds_by_key(batch: pa.RecordBatch, kinds: bytes, key: list[str]) -> bytes:
    """Kinds of rows, in which an UPDATE_BEFORE is a DELETE unless the UPDATE_AFTER of its key
    follows.

    A filter such as HAVING drops the other row. From a table with a key, Flink drops each
    UPDATE_BEFORE in front of a sink that takes rows by their keys, so that the row would stay
    there.
    """
    found = np.frombuffer(kinds, np.uint8).copy()
    pairs = np.append(
        (found[:-1] == RowKind.UPDATE_BEFORE.value) & (found[1:] == RowKind.UPDATE_AFTER.value),
        False,
    )
    for column in map(batch.column, key):
        # Arrow does not compare nested cells, so their pairs count as different.
        if pa.types.is_nested(column.type):
            pairs[:] = False
        else:
            pairs[:-1] &= (
                pc.equal(column[:-1], column[1:]).fill_null(False).to_numpy(zero_copy_only=False)
            )
    found[(found == RowKind.UPDATE_BEFORE.value) & ~pairs] = RowKind.DELETE.value
    return found.tobytes()


class PredictionMetrics:
    """Counters `akdl.inferences` and `akdl.failedRows`, distributions `akdl.batchRows` and
    `akdl.batchMillis`, gauges.

    The gauges are `akdl.loadMillis` and `akdl.modelVersion`, 1 for the first model and one more for
    each later one. `akdl.kind.KIND.inferences` and `akdl.kind.KIND.device.DEVICE.inferences` count
    the rows of each kind of model.
    """

    def __init__(self, group: MetricGroup | None, load_s: float) -> None:
        self._is_shown = group is not None
        self._version = 1
        if group is None:
            return
        self._group = own = group.add_group("akdl")
        self._of_kinds: dict[tuple[str, str], Counter] = {}
        self._inferences = own.counter("inferences")
        self._failed = own.counter("failedRows")
        self._rows = own.distribution("batchRows")
        self._millis = own.distribution("batchMillis")
        own.gauge("loadMillis", lambda: int(load_s * 1000))
        own.gauge("modelVersion", lambda: self._version)

    def add(self, rows: int, failed: int, seconds: float, prediction: Prediction) -> None:
        """Count a batch; `seconds` is the time from the call of the model process to its answer."""
        if self._is_shown:
            self._inferences.inc(rows)
            self._failed.inc(failed)
            self._rows.update(rows)
            self._millis.update(int(seconds * 1000))
            self._version = prediction.model
            served_by = prediction.kind, prediction.device
            if served_by not in self._of_kinds:
                kind, device = served_by
                # A key and its value become a label in systems that have labels.
                own = self._group.add_group("kind", kind)
                own = own.add_group("device", device) if device else own
                self._of_kinds[served_by] = own.counter("inferences")
            self._of_kinds[served_by].inc(rows)


"""Sizes of requests to a model process, by which each one is answered within about a second. Pure.

A chunk may have 64,000 rows. As one request it would take 18 hours with a model that needs a second
for a row, and a failure would lose all of its predictions.
"""

_TARGET_S = 1.0
# A request may take as long as so many of the fastest ones. With fewer rows than that, most of its
# time would be the cost that a model has for each call.
_LATENCIES = 3
_GROWTH = 4
# An answer counts less with each further one. The weight is high, because a model that computes
# requests side by side answers in bursts.
_OLDER = 0.75


class RequestSize:
    """Learns from the answers of one model: a request has `least` rows at first, and more while
    that is fast enough.

    A model may need ten seconds for a call of any size, for example on a busy accelerator. The
    limit of time then follows the fastest requests, because smaller ones would not be answered
    sooner.
    """

    def __init__(self, least: int) -> None:
        self.rows = self._least = least
        self._seen_rows = self._seen_s = self._answers = 0.0
        self._fastest_s = float("inf")

    def note(self, rows: int, seconds: float) -> None:
        """Adjust `rows` to a request of so many rows, and the time from the previous answer to its
        own.
        """
        self._seen_rows = _OLDER * self._seen_rows + rows
        self._seen_s = _OLDER * self._seen_s + seconds
        self._answers = _OLDER * self._answers + 1
        self._fastest_s = min(self._fastest_s, self._seen_s / self._answers)
        limit_s = max(_TARGET_S, _LATENCIES * self._fastest_s)
        fits = limit_s * self._seen_rows // max(self._seen_s, 1e-9)
        # A short request, such as the end of a chunk, shows too little about long ones to grow by
        # it.
        batches = int(min(fits, max(self.rows, _GROWTH * rows))) // self._least
        self.rows = max(1, batches) * self._least
