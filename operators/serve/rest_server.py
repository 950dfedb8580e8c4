"""`akdl serve MODEL ...`: saved pipelines and models, for clients of TensorFlow Serving's REST API.

One process: the event loop carries requests and answers, a thread reads and writes the JSON of
large ones, and one for each model predicts. SIGTERM and Ctrl-C end it: requests under way get some
seconds, and a batch that takes longer ends with the process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hmac
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from akdl.near_names import did_you_mean, listed
from akdl.serving.loaded_model import BadRow, RowsError, ServingError
from akdl.serving.model import ServedBy, WatchedCall
from akdl.serving.shared_calls import Predicted, SharedCalls
from akdl.storage.files import FileError
from akdl.storage.model_forms import ModelError
from akdl.wire.columns import Values
from akdl.wire.row_parts import gathered
from bridge.exceptions import BridgeError, ConfigurationError
from bridge.group.addresses import with_port
from operators.serve.named_models import (
    NamedModel,
    Predict,
    StoredModel,
    default_name,
    saved_pipeline,
)
from operators.serve.rest_messages import (
    RefusedRequest,
    Target,
    answer_of,
    matched,
    size_of,
    written,
)

_Message = Mapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)

# The environment variable of this name may hold the token.
_TOKEN = "AKDL_SERVE_TOKEN"
# Requests under way get this many seconds when the server ends.
_END_S = 10
# Requests and answers up to this size, in bytes or values, are read and written within a
# millisecond, for which a thread does not pay.
_SMALL = 1 << 15
# Requests in memory, from their first byte to the answer, have together at most so many times the
# size of the largest one.
_MOST_HELD = 4
# Rows of a call of the model. A larger request goes on after the requests that have arrived during
# its first rows, so a larger number would delay them.
_MOST_ROWS = 256
# Further requests are refused when so many rows wait. A large request counts with the rows of its
# next call.
_MOST_WAITING = 8192
# A value in JSON becomes a Python object, which is many times larger than its text. So a request
# has at most one value for so many bytes of the largest request.
_BYTES_OF_VALUE = 8
_METRICS = ("/metrics", "/monitoring/prometheus/metrics")
# A name before a model or option has no slash or space, so that paths and columns may have "=".
_NAMED = re.compile(r"(?:([^/\s=]+)=)?(.*)", re.DOTALL)
_OF_ONE_MODEL = [
    ("columns", 'MODEL is a saved pipeline for these columns: "[NAME=]x0 FLOAT, x1 FLOAT"'),
    ("signature", "signature of a SavedModel: [NAME=]KEY; default: serving_default"),
]
_OPTIONS: list[tuple[str, str | float | None, str]] = [
    (
        "host",
        "127.0.0.1",
        "where to listen; an address for other hosts needs a token; default: %(default)s",
    ),
    ("port", 8501, "0 for any free port; default: %(default)s"),
    (
        "token-file",
        None,
        f"holds the token that clients send as 'Authorization: Bearer TOKEN'; or set {_TOKEN}",
    ),
    ("timeout", 30.0, "seconds for one request; default: %(default)s"),
    ("max-mb", 16.0, "most megabytes of a request; default: %(default)s"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(
        prog="akdl serve", description="Serve models as TensorFlow Serving's REST API does."
    )
    parser.add_argument(
        "models",
        nargs="+",
        type=_named,
        metavar="[NAME=]MODEL",
        help="folder or file of a model, numbered ones, archive, or saved pipeline; NAME is in its"
        " addresses, by default that of its folder, or of its file without the ending",
    )
    for name, text in _OF_ONE_MODEL:
        parser.add_argument(f"--{name}", action="append", default=[], type=_named, help=text)
    for name, default, text in _OPTIONS:
        parser.add_argument(
            f"--{name}", default=default, type=str if default is None else type(default), help=text
        )
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="accept code in .keras, .pt2 and MLflow models, and parameters of a pipeline that name"
        " code, hosts or files",
    )
    given = parser.parse_args(arguments)
    # getaddrinfo would take the number modulo 65536.
    if not 0 <= given.port <= 65535:
        parser.error(f"--port {given.port}: expected a number from 0 to 65535")
    # uvicorn handles the signal while it runs, and sends it again after its end. Before that,
    # during the loading of the model, this handler ends the program with status 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _serve(given)
    except ImportError as error:
        parser.exit(
            1,
            f"akdl serve needs the package {error.name}: install the extras tf and serve of akdl,"
            " as you installed akdl\n",
        )
    except (BridgeError, FileError, ModelError, ServingError, OSError) as error:
        text = str(error)
        # A file whose model was recognized is not a pipeline.
        if isinstance(error, ModelError) and not re.search("trusted=True|cannot be loaded", text):
            text += "; a saved pipeline needs --columns 'x0 FLOAT, x1 FLOAT'"
        # The errors name parameters, in place of which the command has options.
        text = text.replace("signatureDefKey", "--signature").replace("trusted=True", "--trusted")
        parser.exit(1, f"akdl serve: {text}\n")
    return 0


def _serve(given: argparse.Namespace) -> None:
    """Load the models and serve them until a signal; ends the process."""
    import uvicorn

    from operators.serve.connections import BACKLOG, Connection, SparseLog

    # TensorFlow otherwise allocates all memory of the GPU, which other models may share.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    token = _token(given.token_file)
    family, *_, address = socket.getaddrinfo(given.host, given.port, type=socket.SOCK_STREAM)[0]
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        raise ConfigurationError(
            f"--host {given.host}: other hosts can reach it, which needs {_TOKEN} or --token-file"
        )
    # asyncio sets TCP_NODELAY only on sockets whose protocol is given as IPPROTO_TCP. Without that
    # option the kernel may hold back small answers.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A port in use is reported before the model is loaded, which takes seconds. Connections are
        # accepted only after `listen`, so a probe does not take the server for ready.
        listening.bind(address)
        models = _load(given)
        # uvicorn makes the connections, so their limit is an attribute of the class. It is longer
        # than the timeout of a request, so that the client still receives the status 504.
        Connection.limit_s = given.timeout + _END_S
        config = uvicorn.Config(
            RestApplication(models, token, given.timeout, given.max_mb),
            http=Connection,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=_END_S,
        )
        sparse = SparseLog()
        for name in ("asyncio", "uvicorn.error", __name__):
            logging.getLogger(name).addFilter(sparse)
        # Each large request would otherwise make Python's garbage collection look at all objects of
        # the models, several times.
        gc.set_threshold(100_000, 10, 10)
        listening.listen(BACKLOG)
        url = f"http://{with_port(given.host, listening.getsockname()[1])}/v1/models"
        for name, model in models.items():
            print(f"akdl serve: {name}, version {model.version}, at {url}/{name}", flush=True)
        with suppress(KeyboardInterrupt, SystemExit):
            uvicorn.Server(config).run(sockets=[listening])
        for model in models.values():
            model.close()
        # TensorFlow may still compute a batch in another thread, and would keep the process alive.
        os._exit(0)


def _load(given: argparse.Namespace) -> dict[str, NamedModel]:
    """Load the models by their names; a model with `--columns` is a saved pipeline."""
    paths: dict[str, str] = {}
    for name, path in given.models:
        name = name or default_name(path)
        if not name:
            raise ConfigurationError(f"{path} has no name before its ending: write NAME={path}")
        if name in paths:
            raise ConfigurationError(f"two models have the name {name!r}: write NAME={path}")
        paths[name] = path
    columns, signatures = (
        _by_model(option, getattr(given, option), paths) for option, _ in _OF_ONE_MODEL
    )
    models: dict[str, NamedModel] = {}
    for name, path in paths.items():
        key = signatures.get(name, signatures.get("", "serving_default"))
        text = columns.get(name, columns.get(""))
        models[name] = (
            StoredModel(name, path, key, given.trusted)
            if text is None
            else saved_pipeline(name, path, text, key, given.trusted)
        )
    return models


def _by_model(
    option: str, given: Sequence[tuple[str, str]], models: Collection[str]
) -> dict[str, str]:
    """Values of an option by the name of their model; "" for the other models."""
    values: dict[str, str] = {}
    for name, value in given:
        if name and name not in models:
            raise ConfigurationError(
                f"--{option} {name}={value}: {name!r} is not among the models"
                f" {listed(models)}{did_you_mean(name, models)}"
            )
        if name in values:
            raise ConfigurationError(
                f"--{option} has two values for {name or 'models without one'}: {values[name]} and"
                f" {value}: remove one, or write NAME= before each"
            )
        values[name] = value
    return values


def _named(text: str) -> tuple[str, ...]:
    """Divide the text of a model or an option into the name before it, perhaps "", and the rest."""
    return _NAMED.fullmatch(text).groups("")  # type: ignore[union-attr]


def _token(path: str | None) -> str | None:
    """Token of the file or the variable.

    The variable is removed from the environment, so that no child process inherits it.
    """
    token = os.environ.pop(_TOKEN, None)
    if path is not None:
        with open(path, encoding="utf-8") as file:
            token = file.read()
            if os.fstat(file.fileno()).st_mode & 0o007:
                logger.warning(
                    "other users of this host may read the token in %s: chmod 600 it", path
                )
    if token is not None and not token.strip():
        raise ConfigurationError(f"the token in {path or _TOKEN} is empty")
    return token and token.strip()


class RestApplication:
    """ASGI application for models by name."""

    def __init__(
        self, models: Mapping[str, NamedModel], token: str | None, timeout_s: float, most_mb: float
    ) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "akdl_serve_requests", "Answers.", ["model", "action", "status"], registry=registry
        )
        self._seconds = Histogram(
            "akdl_serve_predict_seconds", "Time of predict requests.", ["model"], registry=registry
        )
        rows = Histogram(
            "akdl_serve_batch_rows",
            "Rows in one call of the model.",
            ["model"],
            registry=registry,
            buckets=[2**power for power in range(13)],
        )
        waiting = Gauge(
            "akdl_serve_waiting_rows", "Rows of no batch yet.", ["model"], registry=registry
        )
        version = Gauge("akdl_serve_version", "Version in use.", ["model"], registry=registry)
        # One call of a model at a time, because calls side by side would take turns with each other
        # and with the event loop.
        self._calls: dict[str, SharedCalls] = {}
        self._calls_of_values: dict[str, SharedCalls] = {}
        self._one_call = {name: threading.Lock() for name in models}
        # When the running call of a model began.
        self._since: dict[str, float] = {}
        for name, model in models.items():
            observed = partial(self._observed, name, rows.labels(name).observe)
            calls = self._calls[name] = SharedCalls(
                partial(observed, model.predict), _MOST_ROWS if model.has_rows else 0, 1
            )
            if model.predict_values is not None:
                self._calls_of_values[name] = SharedCalls(
                    partial(observed, model.predict_values), 0, 1
                )
            waiting.labels(name).set_function(calls.rows_waiting)
            version.labels(name).set_function(lambda model=model: float(model.version))
        self._models = models
        self._token = token
        self._timeout_s = timeout_s
        self._most_bytes = int(most_mb * (1 << 20))
        self._held_bytes = 0
        # A second thread would take turns with the event loop too, as JSON holds the interpreter's
        # lock.
        self._json = ThreadPoolExecutor(1, "akdl-json")

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        began = time.monotonic()
        name = ""
        action = "other"
        status = 200
        try:
            if scope["path"] in _METRICS:
                action = "metrics"
            else:
                name, action = matched(scope["method"], scope["path"], self._models)
            answer = await asyncio.wait_for(
                self._answer(name, action, dict(scope["headers"]), receive), self._timeout_s
            )
        except asyncio.TimeoutError:
            status = 504
            answer = {"error": f"no answer within {self._timeout_s:g} s (--timeout)"}
        except (RefusedRequest, ServingError) as error:
            # A ServingError has no status. In most cases the inputs do not fit the model, so it
            # counts as a mistake of the client.
            status = getattr(error, "status", 400)
            answer = {"error": str(error)}
        except RecursionError:
            status = 400
            answer = {"error": "the values are nested too deeply"}
        except ConnectionError:
            # The client has closed the connection, so an answer would reach no one.
            return
        except Exception as error:
            logger.exception("the model cannot predict")
            status = 500
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._requests.labels(name, action, status).inc()
        if action == "predict":
            self._seconds.labels(name).observe(time.monotonic() - began)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        kind = (
            b"text/plain; version=0.0.4"
            if (action, status) == ("metrics", 200)
            else b"application/json"
        )
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(
        self, name: str, action: str, headers: Mapping[bytes, bytes], receive: _Receive
    ) -> object:
        """Answer of an action, as JSON values or bytes."""
        if action == "status":
            # This answer needs no token, because probes have no token. Probes restart a server
            # whose model hangs: the event loop answers all the same, so nothing else would show it.
            now = time.monotonic()
            busy_s = now - self._since.get(name, now)
            if busy_s > self._timeout_s:
                raise RefusedRequest(f"the model has computed one batch for {busy_s:.0f} s", 503)
            return self._models[name].status()
        # `compare_digest` takes the same time for every wrong token, so the time of an answer does
        # not reveal how much of a token is right.
        if self._token and not hmac.compare_digest(
            headers.get(b"authorization", b""), b"Bearer " + self._token.encode()
        ):
            raise RefusedRequest(
                "expected the header 'Authorization: Bearer TOKEN' with the token of this server",
                401,
            )
        if action == "metrics":
            from prometheus_client import generate_latest

            return generate_latest(self._registry)
        if action == "metadata":
            return self._models[name].metadata()
        # `_receive` fills this list, so its bytes are subtracted again also if reading fails
        # halfway.
        body: list[bytes] = []
        try:
            await self._receive(
                body, headers.get(b"content-encoding", b"identity").lower(), receive
            )
            return await self._predicted(name, b"".join(body), receive)
        finally:
            self._held_bytes -= sum(map(len, body))

    async def _receive(self, body: list[bytes], encoding: bytes, receive: _Receive) -> None:
        """Read a body. uvicorn reads the rest of one that is refused, as clients send it before
        they read the answer.
        """
        if encoding not in (b"identity", b"gzip"):
            raise RefusedRequest(
                f"Content-Encoding: expected gzip, got {encoding.decode('latin-1')!r}", 415
            )
        # For zlib, 31 is the largest window, 15, plus 16 for the header of gzip.
        unpacker = zlib.decompressobj(31) if encoding == b"gzip" else None
        left = self._most_bytes
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionError
            piece = message["body"]
            more = message["more_body"]
            if unpacker:
                try:
                    # One byte more than allowed shows that the body is too large, so the rest of it
                    # is never unpacked: a small body may unpack to gigabytes.
                    piece = unpacker.decompress(piece, left + 1)
                except zlib.error as error:
                    raise RefusedRequest(f"the body is not gzip: {error}") from None
                if unpacker.unused_data or not (more or unpacker.eof or len(piece) > left):
                    raise RefusedRequest(
                        "the body is not gzip: expected one stream that ends with the request"
                    )
            left -= len(piece)
            if left < 0:
                raise RefusedRequest(
                    f"the request has more than {self._most_bytes} bytes (--max-mb)", 413
                )
            # Small requests are always read. Otherwise a few clients with large requests could keep
            # all other clients out.
            is_large = self._most_bytes - left > _SMALL
            if is_large and self._held_bytes + len(piece) > _MOST_HELD * self._most_bytes:
                raise RefusedRequest(
                    f"other requests have {self._held_bytes} bytes: try again later", 503
                )
            self._held_bytes += len(piece)
            body.append(piece)

    async def _predicted(self, name: str, body: bytes, receive: _Receive) -> bytes:
        """Predict, unless the client leaves before."""
        columns, rows = await self._aside(len(body), self._read, self._models[name], body)
        # Once the body is read, `receive` returns only when the client disconnects.
        result = asyncio.ensure_future(self._results(self._models[name], columns))
        gone = asyncio.ensure_future(receive())
        try:
            await asyncio.wait([result, gone], return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise ConnectionError
            results = result.result()
        finally:
            # After a timeout, or without a client, this takes the rows out of the queue.
            result.cancel()
            gone.cancel()
        return await self._aside(
            size_of(results), lambda: written(answer_of(results, rows)).encode()
        )

    async def _results(
        self, model: NamedModel, columns: Mapping[str, list[object]]
    ) -> Mapping[str, Values]:
        """Predict all rows of a request, `_MOST_ROWS` in a call."""
        calls = self._calls[model.name]
        rows = len(next(iter(columns.values())))
        ahead = calls.rows_waiting()
        if ahead and ahead + min(rows, _MOST_ROWS) > _MOST_WAITING:
            # On this status, clients try again.
            raise RefusedRequest(f"{ahead} rows are waiting for the model: try again later", 503)
        parts: list[tuple[range, dict[str, Values]]] = []
        for start in range(0, max(rows, 1), _MOST_ROWS):
            part = range(start, min(rows, start + _MOST_ROWS))
            own = {name: cells[start : part.stop] for name, cells in columns.items()}
            try:
                results, bad, _ = await asyncio.wrap_future(calls.submit(own, len(part)))
            except ServingError:
                # The error may mean that some output is not one value per row, so the request is
                # tried once more as one row with all values.
                if model.predict_values is None:
                    raise
                whole = {name: [cells] for name, cells in columns.items()}
                calls = self._calls_of_values[model.name]
                results, bad, _ = await asyncio.wrap_future(calls.submit(whole, 1))
                return _only(results, bad)
            if not model.has_rows:
                return _only(results, bad)
            if bad:
                raise RowsError([(start + row, message) for row, message in bad])
            parts.append((part, results))
        return {
            name: gathered([(part, found[name]) for part, found in parts], rows) for name in results
        }

    def _observed(
        self,
        name: str,
        observe: Callable[[float], None],
        predict: Predict,
        columns: Mapping[str, Values],
        rows: int,
        call: WatchedCall,
    ) -> Predicted:
        """Call a model, with the metric of its rows, and its begin for probes."""
        with self._one_call[name]:
            observe(rows)
            self._since[name] = time.monotonic()
            try:
                return (*predict(columns, rows), ServedBy())
            finally:
                del self._since[name]

    async def _aside(
        self, size: int, function: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """Call the function, on a thread of its own if that takes long."""
        if size <= _SMALL:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._json, function, *arguments)

    def _read(self, target: Target, body: bytes) -> tuple[dict[str, list[object]], int | None]:
        """Read a body with few enough values, because each takes many times the memory and time of
        its bytes.
        """
        # A value follows a comma or an opening bracket, so counting these signs bounds the number
        # of values without parsing. Signs inside of texts count too.
        values = sum(map(body.count, (b",", b"[", b"{")))
        most = self._most_bytes // _BYTES_OF_VALUE
        if values > most:
            raise RefusedRequest(
                f"the request has about {values} values, more than {most} (--max-mb)", 413
            )
        return target.columns(body)


def _only(results: Mapping[str, Values], bad: list[BadRow]) -> Mapping[str, Values]:
    """Outputs of a request that was predicted as one row."""
    for _, message in bad:
        raise ServingError(message)
    return {name: column[0] for name, column in results.items()}
