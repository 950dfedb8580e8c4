"""One job for several tables, so that parts that they share run once.

Tables are collected by this program or inserted into Flink's tables. A deferred model or sink would
otherwise train or read its input again for each result.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bridge.codec.ipc import read_batch
from bridge.host.program_folder import scratch_folder
from bridge.host.shipped import runs_elsewhere
from bridge.interrupts import elsewhere, interrupts_later
from bridge.settings import Gathering
from bridge.table_env import planning
from bridge.workarounds.java_text import flink_classes, running_jvm

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

logger = logging.getLogger(__name__)

# This is the client of a job, and an iterator of its elements, or None if nothing is collected.
_Started = tuple[Any, Any]
# Flink may not answer at all. The job's processes are stopped afterwards in any case, so the wait
# is bounded.
_CANCEL_S = 10


class Receiver:
    """Consumer of the rows of a table while the job runs: `finish` after a successful job, else
    `abandon`.
    """

    def take(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""

    def finish(self) -> None:
        """Do what is left, once all rows have come."""

    def abandon(self) -> None:
        """Remove what was made of the rows so far."""


class Uncollected(Receiver):
    """Receiver of a table whose rows are not collected, so that Flink may restart the job."""

    def __init__(self, clean_up: Callable[[], None]) -> None:
        self._clean_up = clean_up

    def abandon(self) -> None:
        self._clean_up()


def run_jointly(
    table_env: StreamTableEnvironment,
    received: Sequence[tuple[Table, Receiver]],
    inserted: Sequence[tuple[Table, str]],
    name: str | None,
) -> None:
    """Run one job; its rows go to the receivers while it runs.

    The caller calls `finish` of the receivers afterwards, since receivers call functions of the
    user, which an interrupt may end. If the job fails or is interrupted, all receivers are
    abandoned here, and may serve another job.

    Args:
        table_env: Environment of all tables.
        received: Tables with the consumers of their rows.
        inserted: Tables with the names of Flink tables for their rows.
        name: Name of the job in Flink's web UI.
    """
    # Flink cannot restart a batch job that collects rows, so tables whose rows are not needed end
    # in a sink that discards them.
    rest = [table for table, receiver in received if isinstance(receiver, Uncollected)]
    collected = [pair for pair in received if not isinstance(pair[1], Uncollected)]
    tables = [table for table, _ in collected]
    try:
        with (
            _shared_folder(table_env) as folder,
            _job(
                lambda: _started(
                    table_env,
                    lambda: _numbered_chunks(table_env, tables, folder) if tables else None,
                    inserted,
                    name,
                    rest,
                )
            ) as chunks,
        ):
            for element in chunks:
                chunk = element.getField(1)
                collected[chunk.getField(1)][1].take(_batch(chunk.getField(3), folder))
    except BaseException:
        for _, receiver in received:
            # The error of the job is the one to report, and the other receivers have rows too.
            try:
                receiver.abandon()
            except Exception as error:
                logger.warning("what a failed job has left could not be removed: %s", error)
        raise


def collect(
    table: Table, name: str | None = None
) -> tuple[list[pa.RecordBatch], list[bytes | None]]:
    """Run the job of one table; return batches and their row kinds in Flink's numbers, None for a
    batch of new rows.
    """
    from bridge.flink.arrow_operators import chunks_of

    table_env = table._t_env
    batches = []
    kinds = []
    with (
        _shared_folder(table_env) as folder,
        _job(
            lambda: _started(
                table_env,
                lambda: chunks_of(table_env, table, Gathering(), folder=folder)[
                    0
                ]._j_data_stream.collectAsync(),
                [],
                name,
            )
        ) as chunks,
    ):
        for chunk in chunks:
            kind = chunk.getField(1)
            kinds.append(None if kind is None else bytes(kind))
            batches.append(_batch(chunk.getField(2), folder))
    return batches, kinds


@contextmanager
def _shared_folder(table_env: StreamTableEnvironment) -> Iterator[str | None]:
    """Folder in which a local job leaves its rows, since py4j takes half a second for 10 MB; None
    for a job elsewhere.
    """
    if runs_elsewhere(table_env):
        yield None
        return
    # A task that was cancelled may still write a file while the folder is removed, which the
    # scratch folder tolerates.
    with scratch_folder("collected_") as folder:
        yield folder


def _batch(content: bytes, folder: str | None) -> pa.RecordBatch:
    """Read a batch from its bytes, or from the file of that name.

    The file is removed at once, so that a long result does not fill the disk.
    """
    if folder is None:
        return read_batch(bytes(content))
    path = f"{folder}/{bytes(content).decode()}"
    with pa.OSFile(path) as file:
        batch = read_batch(file.read_buffer())
    os.remove(path)
    return batch


@contextmanager
def _job(start: Callable[[], _Started]) -> Iterator[Any]:
    """Run the job of `_started` around a block, which gets its elements; cancel it when the block
    fails.
    """
    client = None
    try:
        # An interrupt inside a call of py4j can be lost, so calls to Java run in another thread,
        # and this one waits for them.
        with interrupts_later(), elsewhere() as thread:
            client, chunks = start()
            yield thread.elements(
                lambda: chunks.next() if chunks is not None and chunks.hasNext() else None
            )
            # The end of the rows does not mean that the job succeeded: it may fail while it
            # commits.
            thread.wait_for(lambda: client.getJobExecutionResult().get())
    except BaseException:
        if client is not None:
            seconds = running_jvm().java.util.concurrent.TimeUnit.SECONDS
            # The job may have ended already, for example because it failed.
            with suppress(Exception):
                client.cancel().get(_CANCEL_S, seconds)
                # Until its tasks have ended, they write files into a folder that is removed.
                client.getJobExecutionResult().get(_CANCEL_S, seconds)
        raise


@planning()
def _started(
    table_env: StreamTableEnvironment,
    collected: Callable[[], object],
    inserted: Sequence[tuple[Table, str]],
    name: str | None,
    uncollected: Sequence[Table] = (),
) -> _Started:
    """Start a job of the transformations that `collected` adds, and of the other tables."""
    from pyflink.util.java_utils import get_field_value

    j_tenv = table_env._j_tenv
    # PyFlink calls this before its own jobs: it copies the jars of the configuration to the Java
    # environment.
    table_env._before_execute()
    # PyFlink can collect one table or execute a set of inserts, but not both in one job. So the
    # transformations that planning adds to the environment are taken from it, and the job is made
    # of them.
    known = get_field_value(j_tenv.execEnv(), "transformations")
    before = known.size()
    try:
        chunks = collected()
        # The collecting sink was added last, so it is the last transformation.
        sinks = [] if chunks is None else [known.get(known.size() - 1)]
        for table in uncollected:
            discarding = flink_classes().streaming.api.functions.sink.v2.DiscardingSink()
            sinks.append(j_tenv.toDataStream(table._j_table).sinkTo(discarding).getTransformation())
        if inserted:
            statements = table_env.create_statement_set()
            first = known.size()
            for table, path in inserted:
                statements.add_insert(path, table)
            statements.attach_as_datastream()
            sinks += [known.get(place) for place in range(first, known.size())]
    finally:
        # Otherwise the next job that the user starts with this environment would run them again.
        del known[before:]
    ends = running_jvm().java.util.ArrayList()
    for sink in sinks:
        ends.add(sink)
    executor = get_field_value(j_tenv, "execEnv")
    configuration = table_env.get_config()._j_table_config.getConfiguration()
    pipeline = executor.createPipeline(ends, configuration, name or "akdl")
    return executor.executeAsync(pipeline), chunks


def _numbered_chunks(
    table_env: StreamTableEnvironment, tables: Sequence[Table], folder: str | None
) -> Any:
    """Iterator over the chunks of all tables, each chunk with the number of its table."""
    from pyflink.util.java_utils import to_jarray

    from bridge.flink.arrow_operators import rows_for_members

    streams = [
        rows_for_members(
            table_env, table, [0], Gathering(), number, members=[], folder=folder
        )._j_data_stream
        for number, table in enumerate(tables)
    ]
    others = to_jarray(flink_classes().streaming.api.datastream.DataStream, streams[1:])
    # One iterator for all: a job whose iterators are read one after the other would wait for the
    # reader of the next.
    return (streams[0].union(others) if len(others) else streams[0]).collectAsync()
