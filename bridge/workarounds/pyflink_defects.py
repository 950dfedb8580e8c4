"""Work-arounds for defects of PyFlink, py4j and Flink; those for Beam's are in `bridge.workarounds.beam_workers`.

`bridge.workarounds.gateway` and `bridge.workarounds.local_servers` close what these packages leave open to strangers.

Each function names the defect and where it is upstream; when it is gone there, the function goes here. Nothing of these
packages is imported before a function needs it.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from bridge.workarounds.gateway import ask_for_token, close_pipes_of_java, token_from_the_start

_SELECTOR = "org.apache.logging.log4j.core.selector.BasicContextSelector"
_METADATA = "org.apache.calcite.rel.metadata"
_planner: Any = None  # the class loader of Flink's planner


def open_gateway() -> Any:
    """Return the line to the JVM of this program, which is started unless it runs, with its threads kept apart.

    Defect: `launch_gateway` of pyflink/java_gateway.py drops its handle of the JVM, which Python reports as a forgotten
    process. The JVM watches for our end itself, so nothing is lost with the handle.
    """
    from pyflink import java_gateway

    with java_gateway._lock:
        argument = _jvm_argument() if java_gateway._gateway is None else nullcontext()
        with warnings.catch_warnings(), argument, token_from_the_start():
            warnings.simplefilter("ignore", ResourceWarning)
            gateway = java_gateway.get_gateway()
        ask_for_token(gateway)
        close_pipes_of_java()
    _keep_threads_apart(gateway._gateway_client)
    _free_objects_elsewhere()
    return gateway


@contextmanager
def _jvm_argument() -> Iterator[None]:
    """Let the JVM that is started meanwhile have one context of loggers.

    Defect: log4j makes one for each class loader, and each local job has class loaders of its own. So each left a thread.
    """
    before = os.environ.get("JVM_ARGS")
    os.environ["JVM_ARGS"] = f"-Dlog4j2.contextSelector={_SELECTOR} {before or ''}".strip()
    try:
        yield
    finally:
        os.environ.pop("JVM_ARGS")
        os.environ.update({} if before is None else {"JVM_ARGS": before})


def know_planner(table_env: Any) -> None:
    """Let all threads of this program plan tables, not only the one that made the environment.

    Defect: Flink's planner sets `RelMetadataQueryBase.THREAD_PROVIDERS` of Calcite, which is kept by thread, only in the
    thread of the JVM that makes the planner; others fail with "NullPointerException: metadataHandlerProvider".
    """
    global _planner
    open_gateway()
    if _planner is None:
        _planner = table_env._j_tenv.getPlanner().getClass().getClassLoader()


def translate_java_errors(translate: Callable[[str], Exception | None]) -> None:
    """Raise an exception of ours in the place of some exceptions of Java, from now on and in the whole program.

    Defect: `convert_py4j_exception` of pyflink/util/exceptions.py knows few exceptions of Flink; others reach users as a
    page of Java. It takes its place in py4j in the same way as we do here.

    Args:
        translate: Takes the text of an exception with its causes; returns the exception to raise, or None to leave it.
    """
    from py4j import java_gateway
    from pyflink.util.exceptions import JavaException

    original = java_gateway.get_return_value
    if hasattr(original, "_akdl_translates"):
        return

    def get_return_value(*arguments: Any, **named: Any) -> Any:
        try:
            return original(*arguments, **named)
        except (java_gateway.Py4JJavaError, JavaException) as error:
            translated = translate(str(error))
            if translated is None:
                raise
            raise translated from None

    get_return_value._akdl_translates = True  # type: ignore[attr-defined]
    java_gateway.get_return_value = get_return_value


@contextmanager
def log_handlers_kept() -> Iterator[None]:
    """Give the user's log handlers back after a local job.

    Defect: a Python worker inside the driver puts a handler of its own in place of all others and leaves it there
    (pyflink/fn_execution/beam/beam_worker_pool_service.py).
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    try:
        yield
    finally:
        root.handlers[:] = handlers


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table.

    Defect: `Table.get_resolved_schema` of pyflink/table/table.py converts the type of each column, see `columns_of`.
    """
    from pyflink.java_gateway import get_gateway

    names = table._j_table.getResolvedSchema().getColumnNames()
    separator = "\0"  # in no name
    return list(get_gateway().jvm.String.join(separator, names).split(separator)) if names.size() else []


def columns_of(table: Any) -> tuple[list[str], list[Any]]:
    """Return the names and PyFlink's types of the columns of a table.

    Defect: `_from_java_data_type` of pyflink/table/types.py asks the JVM about a hundred times for each column, so tables of
    thousands of columns took minutes, for each look at their schema. Here it is asked once for each type that differs.
    It also forgets the digits behind the second of TIMESTAMP, which it takes for 3, and of TIMESTAMP_LTZ, for 6.
    """
    from pyflink.table.types import _from_java_data_type

    j_types = table._j_table.getResolvedSchema().getColumnDataTypes()
    known: dict[str, Any] = {}
    types = []
    for place in range(j_types.size()):
        j_type = j_types.get(place)
        text = j_type.getLogicalType().asSummaryString() + j_type.getConversionClass().getName()
        if text not in known:
            known[text] = _from_java_data_type(j_type)
            _set_precision(known[text], j_type.getLogicalType())
        types.append(known[text])
    return column_names(table), types


def _set_precision(type_: Any, j_type: Any) -> None:
    from pyflink.table.types import ArrayType, LocalZonedTimestampType, TimestampType

    if isinstance(type_, ArrayType):
        _set_precision(type_.element_type, j_type.getElementType())
    elif isinstance(type_, (TimestampType, LocalZonedTimestampType)):
        type_.precision = j_type.getPrecision()


def forget_ended_clusters() -> None:
    """Let the JVM of this program forget mini clusters that have ended.

    Defect: Flink's `TaskExecutorFileMergingManager` leaves a shutdown hook in the JVM, which holds the classes of its cluster.
    """
    with suppress(Exception):  # another Java may not let us look
        jvm = open_gateway().jvm
        field = jvm.java.lang.Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks")
        field.setAccessible(True)
        for hook in field.get(None).keySet().toArray():
            if hook.getName() == "TaskExecutorFileMergingManager shutdown hook":
                jvm.java.lang.Runtime.getRuntime().removeShutdownHook(hook)


def _keep_threads_apart(client: Any) -> None:
    """Let each thread of this program talk to one thread of the JVM of its own.

    Defect: `GatewayClient` of py4j/java_gateway.py keeps one pool of connections (`deque`) for all threads, so a thread may
    find itself in another thread of the JVM, where what Flink's planner keeps by thread is missing. It needs no second
    thread of the user's for that: Python frees Java objects in any thread.
    """
    if isinstance(client.deque, _Connections):
        return
    connections = _Connections()
    while client.deque:
        connections.append(client.deque.popleft())
    client.deque = connections


class _Connections(threading.local):
    """The free connections of one thread, in place of py4j's pool for all.

    Each has a thread of the JVM of its own. py4j opens another one where none is free: in a new thread of this program, and
    after a call that was interrupted, whose connection is lost.
    """

    def __init__(self) -> None:
        self._free = _ClosedInTheEnd()
        self._can_plan = False  # the one that is free
        self._is_preparing = False

    def __len__(self) -> int:
        return len(self._free)

    def append(self, connection: Any) -> None:
        """Take a connection back."""
        self._free.append(connection)

    def pop(self) -> Any:
        """Return the connection that was used last; raise IndexError when there is none."""
        if _planner is not None and not self._is_preparing and not (self._free and self._can_plan):
            self._is_preparing = True  # the calls lead back here, and leave a free connection
            try:
                _prepare_planning()
            finally:
                self._is_preparing = False
            self._can_plan = True
        return self._free.pop()


def _free_objects_elsewhere() -> None:
    """Let a thread of its own tell the JVM which of its objects this program has freed.

    Defect: `JavaObject` of py4j/java_gateway.py does it in the callback of a weak reference, in the thread that frees the
    object. Where an interrupt comes meanwhile, Python drops it: a job in a notebook ran on. What is called back here is no
    Python code, in which alone interrupts are raised.
    """
    from py4j import java_gateway

    if isinstance(java_gateway.weakref, _WeakReferences):
        return
    freed: SimpleQueue[Callable[[Any], None]] = SimpleQueue()
    java_gateway.weakref = _WeakReferences(freed)

    def tell() -> None:
        while True:
            freed.get()(None)

    threading.Thread(target=tell, name="akdl-frees", daemon=True).start()


class _WeakReferences:
    """The module `weakref` as py4j sees it."""

    def __init__(self, freed: SimpleQueue[Any]) -> None:
        self._freed = freed

    def ref(self, target: Any, callback: Callable[[Any], None]) -> weakref.ref[Any]:
        return weakref.ref(target, partial(self._freed.put, callback))

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)


class _ClosedInTheEnd(list[Any]):
    def __del__(self) -> None:
        for connection in self:
            connection.close()


def _prepare_planning() -> None:
    """Set what Flink's planner keeps by thread, as it does itself in the thread that makes an environment."""
    from pyflink.java_gateway import get_gateway

    gateway = get_gateway()

    def invoke(name: str, method: str, *argument: tuple[str, Any]) -> Any:
        types = gateway.new_array(gateway.jvm.Class, len(argument))
        values = gateway.new_array(gateway.jvm.Object, len(argument))
        for place, (kind, value) in enumerate(argument):
            types[place], values[place] = _planner.loadClass(kind), value
        return _planner.loadClass(name).getMethod(method, types).invoke(None, values)

    with suppress(Exception):  # with another Flink, threads are as they were
        provider = invoke("org.apache.flink.table.planner.plan.metadata.FlinkDefaultRelMetadataProvider", "INSTANCE")
        compiled = invoke(f"{_METADATA}.JaninoRelMetadataProvider", "of", (f"{_METADATA}.RelMetadataProvider", provider))
        by_thread = _planner.loadClass(f"{_METADATA}.RelMetadataQueryBase").getField("THREAD_PROVIDERS").get(None)
        by_thread.set(compiled)
