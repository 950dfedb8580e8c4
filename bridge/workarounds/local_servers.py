"""The servers of local jobs, in this program and in its JVM, closed to all other programs.

Otherwise they listen on all interfaces and authenticate no client; docs/design/processes.md has the
fixes to ask for.

- PyFlink's pool of workers runs what a caller names: here it listens on a unix socket.
- Beam's servers in the JVM send files and rows, and accept workers: here they ask for a token,
  TokenCalls.java. On a cluster, its operator has to close them to other hosts.
- The mini cluster's REST endpoint runs code: here it is on loopback, with a keystore without a key,
  so that no client can connect.

Defect of Flink: each local job has a mini cluster of its own, and `MiniCluster` loads Pekko, the
library behind Flink's RPC, into a new class loader each time, which takes 0.4 s. Here the mini
clusters of a program borrow one RPC system.
"""

from __future__ import annotations

import atexit
import functools
import gc
import hashlib
import logging
import os
import secrets
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from akdl.storage.locked_folder import OwnedFolder
from akdl.wire.token import TOKEN
from bridge.host.places import socket_address
from bridge.host.program_folder import program_folder
from bridge.workarounds.java_text import new_object, running_jvm

if TYPE_CHECKING:
    import grpc
    from py4j.java_gateway import JavaObject
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

logger = logging.getLogger(__name__)

_ADDRESS = "python.loopback-server.address"
_ON_LOOPBACK = ("rest.bind-address", "jobmanager.bind-host", "taskmanager.bind-host")
_WEB_UI = ("rest.port", "rest.bind-port", "security.ssl.rest.enabled", "security.ssl.enabled")
_PASSWORD = "no key"
_lock = threading.RLock()


def close_servers(table_env: StreamTableEnvironment) -> None:
    """Close the servers of an environment's local jobs, at the end of jobs that run already. Safe
    to call twice.
    """
    from pyflink.util.java_utils import get_j_env_configuration, is_local_deployment

    if hasattr(table_env, "_akdl_closed"):
        return
    table_env._akdl_closed = True
    # On a cluster, its operator decides on the servers and their addresses.
    of_stream = get_j_env_configuration(table_env._get_j_env())
    if not is_local_deployment(of_stream):
        return
    of_table = table_env.get_config()
    settings = {_ADDRESS: listen_in_private()}
    # A user who has set one of these wants the web page or other interfaces, and gets them.
    chosen = [key for key in (*_WEB_UI, *_ON_LOOPBACK) if of_table.get(key, "")]
    settings.update({key: "localhost" for key in _ON_LOOPBACK if key not in chosen})
    if not set(chosen) & set(_WEB_UI):
        settings.update(_rest_for_nobody())
    for key, value in settings.items():
        of_stream.setString(key, value)
        of_table.set(key, value)


def listen_in_private() -> str:
    """Move PyFlink's pool of workers to a private address, which is returned, and let Beam's
    servers ask for a token.
    """
    with _lock:
        return _listen_in_private()


@functools.cache
def _listen_in_private() -> str:
    """Start the pool once for this program; all its environments share the address."""
    import grpc
    from apache_beam.portability.api import beam_fn_api_pb2_grpc
    from apache_beam.utils import thread_pool_executor
    from pyflink.fn_execution.beam.beam_worker_pool_service import (
        BeamFnLoopbackWorkerPoolServicer as Pool,
    )

    if Pool._instance is not None:
        _stop_earlier_servers()
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())  # type: ignore[no-untyped-call]
    address = _private_address()
    server.add_insecure_port(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(Pool(), server)  # type: ignore[no-untyped-call]
    server.start()
    atexit.register(_stop_in, os.getpid(), server)
    Pool.start = lambda pool: address
    # PyFlink's tests start workers as processes, which do not have our token.
    if os.environ.get("_python_worker_execution_mode") != "process":
        _ask_for_token()
    return address


def _stop_in(pid: int, server: grpc.Server) -> None:
    # A forked process ends earlier, and would remove the socket of this one.
    if os.getpid() == pid:
        # Python 3.12 and newer start no thread at this point that could wait for the calls.
        server.stop(None)


def _private_address() -> str:
    """Address of a unix socket in a new private folder, at the first place with a short path."""
    for place in (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/dev/shm"):
        # The zeros stand for the random part of the folder's name.
        address = socket_address(f"{place}/akdl_local_000000000000/pool")
        if address is not None and os.access(place, os.W_OK | os.X_OK):
            folder = OwnedFolder("akdl_local_", place)
            return f"unix:{folder.path}/pool"
    raise OSError(
        "no folder is usable for a unix socket: set TMPDIR to a folder with a path of at most 70"
        " ASCII characters"
    )


def _stop_earlier_servers() -> None:
    """Let earlier servers of PyFlink's pool take no more calls; calls under way belong to jobs."""
    from types import SimpleNamespace

    call = SimpleNamespace(
        method="/org.apache.beam.model.fn_execution.v1.BeamFnExternalWorkerPool/StartWorker",
        invocation_metadata=(),
    )
    # PyFlink keeps no reference to its server, so it is found among all objects of the program.
    for server in gc.get_objects():
        if type(server).__module__ != "grpc._server" or type(server).__name__ != "_Server":
            continue
        if any(handler.service(call) is not None for handler in server._state.generic_handlers):
            logger.info(
                "an environment was made before akdl, so any host could run code in this program"
                " before; see docs/clusters.md"
            )
            # A daemon, so that the thread it starts, which waits for the calls, is one too.
            threading.Thread(target=server.stop, args=(threading.TIMEOUT_MAX,), daemon=True).start()


def _ask_for_token() -> None:
    """Let Beam's servers in the JVM refuse calls without a token, and our workers send it."""
    import grpc
    from apache_beam.runners.worker.channel_factory import GRPCChannelFactory
    from apache_beam.runners.worker.worker_id_interceptor import (
        WorkerIdInterceptor,
        _ClientCallDetails,
    )
    from pyflink.fn_execution.beam import beam_worker_pool_service

    token = secrets.token_urlsafe(32)
    of_beam = (
        running_jvm().org.apache.beam.model.fnexecution.v1.BeamFnControlGrpc.getServiceDescriptor()
    )
    new_object("TokenCalls", GRPC=of_beam.getClass().getName().rpartition(".")[0]).ask(token)

    class SendsToken(WorkerIdInterceptor):
        def _intercept(self, continuation: Any, details: Any, request: Any) -> Any:
            sent = _ClientCallDetails(
                details.method,
                details.timeout,
                [*(details.metadata or ()), (TOKEN, token)],
                details.credentials,
            )
            return continuation(sent, request)

    connect = GRPCChannelFactory.insecure_channel
    stub = beam_worker_pool_service.ProvisionServiceStub
    GRPCChannelFactory.insecure_channel = staticmethod(  # type: ignore[method-assign]
        lambda target, options=None: grpc.intercept_channel(connect(target, options), SendsToken())  # type: ignore[no-untyped-call]
    )
    beam_worker_pool_service.ProvisionServiceStub = lambda channel: stub(
        grpc.intercept_channel(channel, SendsToken())
    )


@functools.cache
def _rest_for_nobody() -> dict[str, str]:
    """Settings of a REST endpoint to which no client can connect, as its keystore holds no key."""
    path = f"{program_folder()}/no_key.jks"
    # Java's format JKS begins with a magic number, its version and the number of entries.
    empty = bytes.fromhex("feedfeed 00000002 00000000")
    with open(path, "wb") as keystore:
        keystore.write(
            empty
            + hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + empty).digest()
        )
    of_rest = {
        "enabled": "true",
        "keystore": path,
        "keystore-type": "JKS",
        "keystore-password": _PASSWORD,
        "key-password": _PASSWORD,
    }
    return {f"security.ssl.rest.{key}": value for key, value in of_rest.items()}


def share_rpc_system(env: StreamExecutionEnvironment) -> None:
    """Let the local jobs of an environment borrow the program's RPC system. Safe to call twice."""
    rpc_system().share(env._j_stream_execution_environment)


@functools.cache
def rpc_system() -> JavaObject:
    """Start to load it; a mini cluster that gets this object borrows it."""
    # Each loading also left a jar of 24 MB when the program was killed.
    system = new_object("OneRpcSystem")
    system.load()
    return system
