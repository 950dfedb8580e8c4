"""Workarounds for defects of PyFlink, py4j and Flink, each with its place upstream, where a fix
lets it go.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bridge.host.program_folder import program_folder
from bridge.workarounds.gateway import (
    ask_for_token,
    close_pipes_of_java,
    keep_packages,
    token_from_the_start,
)
from bridge.workarounds.java_text import flink_classes, running_jvm

if TYPE_CHECKING:
    from py4j.java_gateway import GatewayClient, JavaGateway
    from pyflink.datastream import RuntimeContext
    from pyflink.table import StreamTableEnvironment, Table
    from pyflink.table.types import DataType

_SELECTOR = "org.apache.logging.log4j.core.selector.BasicContextSelector"
_METADATA = "org.apache.calcite.rel.metadata"
_ZONE = "table.local-time-zone"
_planner: Any = None  # the class loader of Flink's planner


def open_gateway() -> JavaGateway:
    """Start the JVM of this program unless it runs, and return its gateway, with the program's
    threads kept apart.
    """
    from pyflink import java_gateway

    with java_gateway._lock:
        argument = _jvm_argument() if java_gateway._gateway is None else nullcontext()
        with warnings.catch_warnings(), argument, token_from_the_start():
            # PyFlink drops the handle of the JVM, for which Python would warn. Nothing is lost by
            # it, since the JVM watches for the end of this program.
            warnings.simplefilter("ignore", ResourceWarning)
            gateway = java_gateway.get_gateway()
        ask_for_token(gateway)
        close_pipes_of_java()
    _keep_threads_apart(gateway._gateway_client)
    _free_objects_elsewhere()
    keep_packages()
    return gateway


@contextmanager
def _jvm_argument() -> Iterator[None]:
    # log4j makes a context of loggers for each class loader, and each local job has class loaders
    # of its own. So each job left a thread, which looks for changes of the configuration
    # (FLINK-32203).
    before = os.environ.get("JVM_ARGS")
    arguments = [f"-Dlog4j2.contextSelector={_SELECTOR}"]
    # Flink removes neither its libraries, 70 MB, nor the files of jobs when its JVM is killed with
    # the program.
    temporary = tempfile.mkdtemp(prefix="java-", dir=program_folder())
    # PyFlink splits the arguments at blanks.
    if not re.search(r"\s", temporary):
        arguments.append(f"-Djava.io.tmpdir={temporary}")
    os.environ["JVM_ARGS"] = " ".join([*arguments, before or ""]).strip()
    try:
        yield
    finally:
        os.environ.pop("JVM_ARGS")
        os.environ.update({} if before is None else {"JVM_ARGS": before})


def know_planner(table_env: StreamTableEnvironment) -> None:
    """Note Flink's planner, so that all threads of this program can plan; see `_Connections`."""
    # Flink's planner sets `RelMetadataQueryBase.THREAD_PROVIDERS` of Calcite, which is
    # thread-local, only in the thread of the JVM that makes the planner; other threads fail with
    # "NullPointerException: metadataHandlerProvider" (FLINK-23020).
    global _planner
    open_gateway()
    if _planner is None:
        _planner = table_env._j_tenv.getPlanner().getClass().getClassLoader()


def know_zone(table_env: StreamTableEnvironment) -> None:
    """Set the session's time zone again, so that PyFlink and SQL use the same."""
    # `TableConfig.getLocalTimeZone` does not look at the configuration that the environment was
    # made with, while SQL does.
    config = table_env.get_config()
    config.set(_ZONE, config.get(_ZONE, "default"))


def give_savepoints_a_format() -> None:
    """Let PyFlink's clients of jobs make savepoints, in Flink's own format."""
    # JobClient calls Java without the format, which Flink 2.0 has removed.
    from pyflink.common.completable_future import CompletableFuture
    from pyflink.common.job_client import JobClient

    def canonical() -> object:
        return flink_classes().core.execution.SavepointFormatType.CANONICAL

    def stop_with_savepoint(
        self: JobClient, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        stopped = self._j_job_client.stopWithSavepoint(
            advance_to_end_of_event_time, savepoint_directory, canonical()
        )
        return CompletableFuture(stopped, str)

    def trigger_savepoint(
        self: JobClient, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        return CompletableFuture(
            self._j_job_client.triggerSavepoint(savepoint_directory, canonical()), str
        )

    JobClient.stop_with_savepoint = stop_with_savepoint
    JobClient.trigger_savepoint = trigger_savepoint


def translate_java_errors(translate: Callable[[str], Exception | None]) -> None:
    """Replace exceptions of Java by what `translate` makes of their text, in the whole program;
    None keeps them.

    To be called once, since a second call would translate twice.
    """
    from py4j import java_gateway
    from pyflink.util.exceptions import JavaException

    original = java_gateway.get_return_value

    def get_return_value(*arguments: Any, **named: Any) -> Any:
        try:
            return original(*arguments, **named)
        except (java_gateway.Py4JJavaError, JavaException) as error:
            translated = translate(str(error))
            if translated is None:
                raise
            raise translated from None

    java_gateway.get_return_value = get_return_value


@contextmanager
def log_handlers_kept() -> Iterator[None]:
    """Context of a local job, after which the program's handlers of the log are the same."""
    # A Python worker inside the driver replaces all handlers by its own and leaves it there
    # (pyflink/fn_execution/beam/beam_worker_pool_service.py).
    root = logging.getLogger()
    handlers = root.handlers[:]
    try:
        yield
    finally:
        root.handlers[:] = handlers


def keys_in_turn(runtime_context: RuntimeContext, keys: Iterable[int]) -> Iterator[int]:
    """Let the states of a function belong to each key in turn, in the end to the last one."""
    # `StatefulFunction`s of PyFlink see only the states of the current element's key, and a
    # savepoint of another parallelism brings keys without elements. `RemoteKeyedStateBackend` of
    # fn_execution/state_impl.py sends the key with each request.
    from pyflink.common import Row

    backend = runtime_context._keyed_state_backend
    for key in keys:
        backend.set_current_key(Row(key))
        yield key
    # PyFlink visits all cached states at the end of each bundle, so the states of the other keys
    # leave the cache.
    backend._internal_state_cache.evict_all()


def column_names(table: Table) -> list[str]:
    # `Table.get_resolved_schema` of pyflink/table/table.py converts the type of each column, see
    # `columns_of`.
    names = table._j_table.getResolvedSchema().getColumnNames()
    # This character does not occur in names.
    separator = "\0"
    if names.size():
        return list(running_jvm().String.join(separator, names).split(separator))
    return []


def columns_of(table: Table) -> tuple[list[str], list[DataType]]:
    # `_from_java_data_type` of pyflink/table/types.py calls the JVM about a hundred times for each
    # column, so that each look at a schema of thousands of columns took minutes: here once for each
    # type. It also replaces the precision of each TIMESTAMP by 3, and of TIMESTAMP_LTZ by 6.
    from pyflink.table.types import _from_java_data_type

    j_types = table._j_table.getResolvedSchema().getColumnDataTypes()
    known = {}
    types = []
    for place in range(j_types.size()):
        j_type = j_types.get(place)
        text = j_type.getLogicalType().asSummaryString() + j_type.getConversionClass().getName()
        if text not in known:
            known[text] = _from_java_data_type(j_type)
            _set_precision(known[text], j_type.getLogicalType())
        types.append(known[text])
    return column_names(table), types


def _set_precision(type_: DataType, j_type: Any) -> None:
    from pyflink.table.types import ArrayType, LocalZonedTimestampType, TimestampType

    if isinstance(type_, ArrayType):
        _set_precision(type_.element_type, j_type.getElementType())
    elif isinstance(type_, (TimestampType, LocalZonedTimestampType)):
        type_.precision = j_type.getPrecision()


def forget_ended_clusters() -> None:
    """Free the memory of ended mini clusters in the JVM; a program may run hundreds of jobs."""
    # Flink's `TaskExecutorFileMergingManager` leaves a shutdown hook in the JVM, which holds the
    # classes of its cluster.
    # Another Java may refuse access to its hooks. Then the memory stays, and nothing fails.
    with suppress(Exception):
        jvm = open_gateway().jvm
        field = jvm.java.lang.Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField(
            "hooks"
        )
        field.setAccessible(True)
        for hook in field.get(None).keySet().toArray():
            if hook.getName() == "TaskExecutorFileMergingManager shutdown hook":
                jvm.java.lang.Runtime.getRuntime().removeShutdownHook(hook)


def _keep_threads_apart(client: GatewayClient) -> None:
    # `GatewayClient` of py4j/java_gateway.py keeps one pool of connections (`deque`) for all
    # threads, so calls of a thread may reach another thread of the JVM, which lacks the
    # thread-local values of Flink's planner. That happens even without a second thread of the
    # user's, since Python frees Java objects in any thread. py4j's `ClientServer` keeps threads
    # apart (py4j/py4j#192), but PyFlink makes a `JavaGateway`.
    if isinstance(client.deque, _Connections):
        return
    connections = _Connections()
    while client.deque:
        connections.append(client.deque.popleft())
    client.deque = connections


class _Connections(threading.local):
    """The free connections of one thread, each with its own thread of the JVM, in place of py4j's
    pool for all.
    """

    def __init__(self) -> None:
        self._free = _ClosedInTheEnd()
        # This is about the free connection.
        self._can_plan = False
        self._is_preparing = False

    def __len__(self) -> int:
        return len(self._free)

    def append(self, connection: Any) -> None:
        self._free.append(connection)

    def pop(self) -> Any:
        # A connection has its own thread of the JVM, so a new one cannot plan yet.
        if _planner is not None and not self._is_preparing and not (self._free and self._can_plan):
            # The calls of the preparation use this pool too, and leave a free connection in it.
            self._is_preparing = True
            try:
                _prepare_planning()
            finally:
                self._is_preparing = False
            self._can_plan = True
        return self._free.pop()


@functools.cache
def _free_objects_elsewhere() -> None:
    # `JavaObject` of py4j/java_gateway.py reports freed objects in the callback of a weak
    # reference, in the thread that frees the object, and Python drops an interrupt that arrives
    # meanwhile: a job in a notebook ran on. Python raises interrupts only in Python code, which the
    # callback here is not.
    from py4j import java_gateway

    freed: SimpleQueue[Callable[[Any], None]] = SimpleQueue()

    def ref(target: Any, callback: Callable[[Any], None]) -> weakref.ref[Any]:
        return weakref.ref(target, partial(freed.put, callback))

    # py4j gets another module weakref, whose callbacks only put a call into the queue.
    java_gateway.weakref = SimpleNamespace(**{**vars(weakref), "ref": ref})

    def tell() -> None:
        while True:
            freed.get()(None)

    threading.Thread(target=tell, name="akdl-frees", daemon=True).start()


class _ClosedInTheEnd(list[Any]):
    """Connections of a thread, closed with it: values of a `threading.local` are freed then."""

    def __del__(self) -> None:
        for connection in self:
            connection.close()


def _prepare_planning() -> None:
    """Set the thread-local values of Flink's planner, which it sets itself in the thread that makes
    an environment.
    """
    from pyflink.util.java_utils import to_jarray

    jvm = running_jvm()

    def invoke(name: str, method: str, *argument: tuple[str, Any]) -> Any:
        types = to_jarray(jvm.Class, [_planner.loadClass(kind) for kind, _ in argument])
        values = to_jarray(jvm.Object, [value for _, value in argument])
        return _planner.loadClass(name).getMethod(method, types).invoke(None, values)

    # Another version of Flink may have other classes. Threads stay unprepared then.
    with suppress(Exception):
        provider = invoke(
            "org.apache.flink.table.planner.plan.metadata.FlinkDefaultRelMetadataProvider",
            "INSTANCE",
        )
        compiled = invoke(
            f"{_METADATA}.JaninoRelMetadataProvider",
            "of",
            (f"{_METADATA}.RelMetadataProvider", provider),
        )
        by_thread = (
            _planner.loadClass(f"{_METADATA}.RelMetadataQueryBase")
            .getField("THREAD_PROVIDERS")
            .get(None)
        )
        by_thread.set(compiled)
