"""`akdl-serve MODEL`: a saved pipeline or a SavedModel, for clients of TensorFlow Serving's REST API.

One process: the event loop reads requests and writes answers, a thread predicts. SIGTERM and Ctrl-C end it: requests under way
get some seconds, and a batch that takes longer ends with the process.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from akdl.serving.functions import described
from akdl.serving.model import ServedModel
from akdl.serving.model_folder import ModelFolder
from akdl.serving.prediction_errors import RowsError, ServingError
from akdl.serving.signature import Signature, read_signatures
from akdl.storage.files import name_of
from akdl.storage.model_archive import ModelError
from bridge.exceptions import BridgeError, ConfigurationError
from operators.local_predictor import LocalPredictor
from operators.serve.request_batches import Predict, RequestBatches
from operators.serve.rest_messages import RefusedRequest, Target, answer_of

_Message = Mapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

logger = logging.getLogger(__name__)

_TOKEN = "AKDL_SERVE_TOKEN"  # the variable that may hold the token
_END_S = 10  # for requests under way at the end
_METRICS = ("/metrics", "/monitoring/prometheus/metrics")
_OPTIONS: list[tuple[str, str | float | None, str]] = [
    ("columns", None, 'MODEL is a saved pipeline for these columns: "x0 FLOAT, x1 FLOAT"'),
    ("name", None, "name of the model in addresses; default: that of its file or folder"),
    ("signature", "serving_default", "signature of a SavedModel; default: %(default)s"),
    ("host", "127.0.0.1", "where to listen; an address for other hosts needs a token; default: %(default)s"),
    ("port", 8501, "0 for any free port; default: %(default)s"),
    ("token-file", None, f"holds the token that clients send as 'Authorization: Bearer TOKEN'; or set {_TOKEN}"),
    ("timeout", 30.0, "seconds for one request; default: %(default)s"),
    ("max-mb", 16.0, "most megabytes of a request; default: %(default)s"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(prog="akdl-serve", description="Serve a model as TensorFlow Serving's REST API does.")
    parser.add_argument("model", metavar="MODEL", help="SavedModel, folder of numbered ones, archive, or saved pipeline")
    for name, default, text in _OPTIONS:
        parser.add_argument(f"--{name}", default=default, type=str if default is None else type(default), help=text)
    parser.add_argument("--trusted", action="store_true", help="accept parameters of a pipeline that name code, hosts or files")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn sends it again after its end
    try:
        _serve(given)
    except ImportError as error:
        parser.exit(
            1, f"akdl-serve needs the package {error.name}: install the extras tf and serve of akdl, as you installed akdl\n"
        )
    except ModelError as error:
        parser.exit(1, f"akdl-serve: {error}; a saved pipeline needs --columns 'x0 FLOAT, x1 FLOAT'\n")
    except (BridgeError, ServingError, OSError) as error:
        parser.exit(1, f"akdl-serve: {error}\n")
    return 0


def _serve(given: argparse.Namespace) -> None:
    import uvicorn

    token = _token(given.token_file)
    family, *_, address = socket.getaddrinfo(given.host, given.port, type=socket.SOCK_STREAM)[0]
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        raise ConfigurationError(f"--host {given.host}: other hosts can reach it, which needs {_TOKEN} or --token-file")
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:  # else asyncio delays answers
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)  # before the model is loaded, which takes seconds
        target, predict, close = _load(given)
        application = RestApplication(target, predict, token, given.timeout, given.max_mb)
        config = uvicorn.Config(
            application,
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_END_S,
        )
        listening.listen(2048)
        url = f"http://{given.host}:{listening.getsockname()[1]}/v1/models/{target.name}"
        print(f"akdl-serve: {target.name}, version {target.version}, at {url}", flush=True)
        with suppress(KeyboardInterrupt, SystemExit):
            uvicorn.Server(config).run(sockets=[listening])
        close()
        os._exit(0)  # TensorFlow may still compute a batch, and would keep the process


def _load(given: argparse.Namespace) -> tuple[Target, Predict, Callable[[], None]]:
    path, key = given.model, given.signature
    name = given.name or name_of(path.rstrip("/")).partition(".")[0]
    if given.columns is not None:
        predictor = LocalPredictor(path, given.columns, given.trusted)
        inputs, outputs = ({each.name: each.type for each in table} for table in (predictor._inputs, predictor._columns))
        found = Signature(key, described(inputs), described(outputs))
        return Target(name, "1", found, {key: found}), predictor._map_columns, predictor.close
    versions = [version for version in os.listdir(path) if version.isdigit()] if os.path.isdir(path) else []
    latest = max(versions, key=int, default="")
    folder = ModelFolder(os.path.join(path, latest) if latest else path)
    model = ServedModel(folder.path, signature=key)
    signatures = read_signatures(folder.path)[("serve",)]
    return Target(name, str(int(latest or 1)), model.signature, signatures), model.predict_collecting, folder.remove


def _token(path: str | None) -> str | None:
    token = os.environ.pop(_TOKEN, None)
    if path is not None:
        with open(path, encoding="utf-8") as file:
            token = file.read()
    if token is not None and not token.strip():
        raise ConfigurationError(f"the token in {path or _TOKEN} is empty")
    return token and token.strip()


class RestApplication:
    """ASGI application for one model."""

    def __init__(self, target: Target, predict: Predict, token: str | None, timeout_s: float, most_mb: float) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter("akdl_serve_requests", "Answers.", ["action", "status"], registry=registry)
        self._seconds = Histogram("akdl_serve_predict_seconds", "Time of predict requests.", registry=registry)
        buckets = [2**power for power in range(13)]
        rows = Histogram("akdl_serve_batch_rows", "Rows in one call of the model.", registry=registry, buckets=buckets)
        self._batches = RequestBatches(predict, rows.observe)
        Gauge("akdl_serve_waiting_rows", "Rows of no batch yet.", registry=registry).set_function(self._batches.rows_waiting)
        self._target, self._token, self._timeout_s, self._most_bytes = target, token, timeout_s, int(most_mb * (1 << 20))

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # a WebSocket, which uvicorn then refuses
        began, action, status = time.monotonic(), "other", 200
        try:
            action = "metrics" if scope["path"] in _METRICS else self._target.action(scope["method"], scope["path"])
            answer = await asyncio.wait_for(self._answer(action, dict(scope["headers"]), receive), self._timeout_s)
        except asyncio.TimeoutError:
            status, answer = 504, {"error": f"no answer within {self._timeout_s:g} s (--timeout)"}
        except (RefusedRequest, RowsError) as error:
            status, answer = getattr(error, "status", 400), {"error": str(error)}
        except ConnectionError:
            return  # of a client that did not wait
        except Exception as error:
            logger.exception("the model cannot predict")
            status, answer = 500, {"error": f"{type(error).__name__}: {error}"}
        self._requests.labels(action, status).inc()
        if action == "predict":
            self._seconds.observe(time.monotonic() - began)
        content = answer if isinstance(answer, bytes) else json.dumps(answer, default=str).encode()
        kind = b"text/plain; version=0.0.4" if isinstance(answer, bytes) else b"application/json"
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, action: str, headers: Mapping[bytes, bytes], receive: _Receive) -> object:
        if action == "status":  # without a token, for probes
            if self._batches.busy_s() > self._timeout_s:
                raise RefusedRequest(f"the model has computed one batch for {self._batches.busy_s():.0f} s", 503)
            return self._target.status()
        if self._token and not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self._token.encode()):
            raise RefusedRequest("expected the header 'Authorization: Bearer TOKEN' with the token of this server", 401)
        if action == "metrics":
            from prometheus_client import generate_latest

            return generate_latest(self._registry)
        if action == "metadata":
            return self._target.metadata()
        columns, is_rows = self._target.columns(await self._body(receive))
        return answer_of(await asyncio.wrap_future(self._batches.submit(columns)), is_rows)

    async def _body(self, receive: _Receive) -> bytes:
        """Read a body; one that is too large is read to its end, as clients send it before they read the answer."""
        body: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionError
            size += len(message["body"])
            if size <= self._most_bytes:
                body.append(message["body"])
            else:
                body.clear()
            more = message["more_body"]
        if size > self._most_bytes:
            raise RefusedRequest(f"the request has {size} bytes, more than {self._most_bytes} (--max-mb)", 413)
        return b"".join(body)


if __name__ == "__main__":
    sys.exit(main())
