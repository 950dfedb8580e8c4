"""The JVM of this program: tokens for py4j's servers, and options for a fast start.

PyFlink starts these servers, in this program and in its JVM, on 127.0.0.1 without a token. A JVM
that this program starts has the token from the first moment: its main class is Java text,
TokenGateway.java, for the compiler in Flink's table runtime. Where the JVM has started this program
(`flink run`), or PyFlink has started one before us, the token is set as soon as possible, and until
then its port is open to users of the host.

The JVMs of local programs take Flink's classes from an archive. They otherwise read, check and link
thousands of classes one by one, which is a quarter of the time to a first result. Java calls this
application class data sharing: a JVM writes the archive when it ends, and takes it only if its
Java, its jars and its garbage collector are the same.

Their second compiler also starts later than by default: it took 5 of 14 s of processor time in a
job of one row, for methods that never paid it back.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akdl.storage.local_files import free_bytes
from bridge.exceptions import ConfigurationError
from bridge.host.places import cache_folder, private_folder

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

_MAIN = "TokenGateway"
_THEIR_MAIN = "org.apache.flink.client.python.PythonGatewayServer"


@contextmanager
def token_from_the_start() -> Iterator[None]:
    """Let PyFlink start its JVM and the servers of both sides with a token, if it starts one
    meanwhile.
    """
    from py4j.java_gateway import CallbackServerParameters, GatewayParameters
    from pyflink import java_gateway

    is_local = shlex.split(os.environ.get("SUBMIT_ARGS", "local"))[:1] == ["local"]
    # The JVM runs already, has started this program, or is to be started with a job for a cluster.
    if java_gateway._gateway is not None or "PYFLINK_GATEWAY_PORT" in os.environ or not is_local:
        yield
        return
    token = secrets.token_urlsafe(32)
    with importlib.resources.as_file(
        importlib.resources.files(__package__) / f"{_MAIN}.java"
    ) as text:
        launch = partial(_launch, java_gateway.launch_gateway_server_process, str(text), token)
        ours = {
            "GatewayParameters": partial(GatewayParameters, auth_token=token),
            "CallbackServerParameters": partial(CallbackServerParameters, auth_token=token),
            "launch_gateway_server_process": launch,
        }
        names = vars(java_gateway)
        theirs = {name: names[name] for name in ours}
        names.update(ours)
        try:
            yield
        finally:
            names.update(theirs)


def _launch(
    launch: Any, text: str, token: str, variables: dict[str, str], arguments: list[str]
) -> Any:
    """Start the JVM in place of PyFlink's own function, with our main class and the token.

    The token goes through stdin, because other users can read the arguments of a process.
    """
    _, _, *others = arguments
    variables = {**variables, "JVM_ARGS": _java_options(variables)}
    process = launch(variables, ["-c", "org.codehaus.janino.SimpleCompiler", *others, text, _MAIN])
    # The JVM may have ended already, and PyFlink reports why.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"{token}\n".encode())
        process.stdin.flush()
    # These modules are needed soon, and are imported while the JVM starts. A thread does it,
    # because the JVM ends when no call has come within 10 s, and a slow disk needs longer for them.
    threading.Thread(target=_import_beam, name="akdl-imports", daemon=True).start()
    return process


def _java_options(variables: dict[str, str]) -> str:
    """Return the JVM_ARGS of a program, with options for a fast start."""
    from pyflink import pyflink_gateway_server as pyflink

    # Java takes the last of several values, so the user's own win.
    options = " ".join([*_FAST_START, variables.get("JVM_ARGS", "")])
    variables = dict(variables)
    pyflink.prepare_environment_variables(variables)
    jars = pyflink.construct_flink_classpath(variables).split(os.pathsep)
    return " ".join([options, *archive_options(pyflink.find_java_executable(), jars, options)])


def _import_beam() -> None:
    from apache_beam.runners.worker import channel_factory  # noqa: F401
    from pyflink.fn_execution.beam import beam_worker_pool_service  # noqa: F401


def close_pipes_of_java() -> None:
    # `launch_gateway_server_process` of PyFlink makes the JVM's stderr a pipe, and reads it only if
    # the start fails (FLINK-30962). So after 64 KB each thread that logs blocks, such as Beam's
    # servers at malformed requests. A closed pipe drops the text.
    for process in subprocess._active:  # type: ignore[attr-defined]  # processes without a handle
        is_java = any(each in process.args for each in (_MAIN, _THEIR_MAIN))
        for pipe in filter(None, (process.stdin, process.stderr)) if is_java else ():
            pipe.close()


class _Call:
    """Does nothing when Java calls it."""

    def run(self) -> None: ...

    class Java:
        implements = ("java.lang.Runnable",)


def ask_for_token(gateway: JavaGateway) -> None:
    """Set a token in both servers of py4j, if the JVM was started without one."""
    if gateway.gateway_parameters.auth_token is not None:
        return
    # Java calls Python each second and ends when it is refused. A connection from before has no
    # token to give, so there has to be one, in case that the call comes while only one side has it.
    gateway.jvm.java.lang.Thread(_Call()).run()
    token = secrets.token_urlsafe(32)
    server = gateway.java_gateway_server
    # py4j takes a token only when its servers are made, so their private fields are set.
    for each in (server, server.getCallbackClient()):
        field = each.getClass().getDeclaredField("authToken")
        field.setAccessible(True)
        field.set(each, token)
    gateway.callback_server_parameters.auth_token = token
    gateway.gateway_parameters.auth_token = token


@functools.cache
def keep_packages() -> None:
    """Let py4j look up each package and class of Java once.

    It asks the JVM for each part of a name each time the name is used, and the JVM searches all
    jars of Flink for a class of the name of each package. PyFlink names about a hundred classes for
    each column of a table, so a small job asked 1,600 times, which took a fifth of its time.
    """
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    def kept(look_up: Callable[[object, str], object]) -> Callable[[object, str], object]:
        def find(self: object, name: str) -> object:
            found = look_up(self, name)
            # An unknown class counts as a package until its jar is there. Imports may change the
            # meaning of a single name, which is that of a class.
            if name.islower() or (isinstance(found, JavaClass) and isinstance(self, JavaPackage)):
                vars(self)[name] = found
            return found

        return find

    for kind in (JavaPackage, JVMView):
        kind.__getattr__ = kept(kind.__getattr__)


# The limits of the second compiler are ten times Java's own ones: a method of a long job reaches
# them in its first second. Room for classes saves a collection of garbage while they are loaded.
_FAST_START = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-XX:MetaspaceSize=128m",
)
# The first release of Java whose JVMs write an archive when they end.
_OLDEST = 13
# An archive takes 155 MB with Flink 2.3.
_ROOM = 1 << 30
# Java would print a warning for each reason not to take an archive.
_QUIET = "-Xlog:cds*=off"


def archive_options(java: str, jars: list[str], options: str) -> list[str]:
    """Return options for a JVM: to take its classes from the archive, or to write one when it ends.

    The JVM that writes one lives some ten seconds longer than its program. So it has to be a
    program on a terminal or in a notebook: what starts others often waits until they have closed
    their output.

    Args:
        java: The executable.
        jars: Its class path.
        options: Its other options.
    """
    folder = Path(cache_folder("classes"))
    # PyFlink cuts options at each space.
    if (
        os.environ.get("AKDL_CLASS_ARCHIVE") == "0"
        or re.search("SharedArchive|ArchiveClasses|Xshare", options)
        or re.search(r"\s", str(folder))
    ):
        return []
    with suppress(OSError, ConfigurationError):
        home = Path(os.path.realpath(shutil.which(java) or java)).parents[1]
        release = (home / "release").read_text(encoding="utf-8")
        version = re.search(r'JAVA_VERSION="(\d+)', release)
        if version is None or int(version[1]) < _OLDEST:
            return []
        stats = [(jar, os.stat(jar)) for jar in jars]
        described = [
            str(home),
            release,
            re.findall(r"-XX\S+", options),  # such as the garbage collector
            *((jar, s.st_size, s.st_mtime_ns) for jar, s in stats),
        ]
        name = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
        archive = folder / f"{name}.jsa"
        is_whole = _is_whole(archive)
        if not (is_whole or os.isatty(1) or "ipykernel" in sys.modules):
            return []
        folder.parent.mkdir(parents=True, exist_ok=True)
        private_folder(str(folder), "classes")
        if is_whole:
            return [f"-XX:SharedArchiveFile={archive}", _QUIET]
        if free_bytes(str(folder)) > _ROOM:
            # Archives of other versions, and of jars that are gone.
            for old in folder.glob("*.jsa"):
                old.unlink()
            return [f"-XX:ArchiveClassesAtExit={archive}", _QUIET]
    return []


def _is_whole(archive: Path) -> bool:
    """A JVM writes the first bytes last, so they are zeros where it was killed."""
    try:
        with open(archive, "rb") as content:
            return bool(content.read(4).strip(b"\0"))
    except FileNotFoundError:
        return False
