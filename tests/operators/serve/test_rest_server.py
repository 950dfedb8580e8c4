"""A real server process, and the requests of TensorFlow Serving's documents over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import logging
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from akdl.serving.kinds.functions import described
from akdl.serving.loaded_model import BadRow, Signature
from akdl.wire.column_type import parse_type
from akdl.wire.columns import Values
from operators import PipelineModel, TFSavedModelPredictor
from operators.serve.named_models import NamedModel, default_name
from operators.serve.rest_messages import Target, answer_of
from operators.serve.rest_server import RestApplication, _token, main
from tests.akdl.serving import models
from tests.support.deadline import SLOWER
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S
from tests.support.ports import free_ports

needs_tf = pytest.mark.tf
LINE = re.compile(r"akdl serve: (\S+), version (\d+), at http://127.0.0.1:(\d+)/v1/models/\1\n")
TOKEN = "s3cret-of-the-test"


class Served:
    """A server process; its temporary folder is `temp`."""

    def __init__(self, temp: pathlib.Path, *arguments: str, **variables: str) -> None:
        self.temp = temp
        command = [sys.executable, "-m", "akdl", "serve", *arguments]
        if "--port" not in arguments:
            command += ["--port", "0"]
        self.process = subprocess.Popen(
            command,
            env={**ENVIRONMENT, "TMPDIR": str(temp), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.log = ""
        while not LINE.search(self.log):
            line = self.process.stdout.readline()  # type: ignore[union-attr]
            assert line, self.log
            self.log += line
        self.name, self.version, port = LINE.search(self.log).groups()  # type: ignore[union-attr]
        self.port = int(port)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * DEADLINE_S)
        with contextlib.closing(connection):
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.headers["content-type"] != "application/json":
                return answer.status, content.decode()
            return answer.status, json.loads(content)

    def predict(self, body: object, name: str = "", **headers: str) -> tuple[int, Any]:
        return self.ask("POST", f"/v1/models/{name or self.name}:predict", body, **headers)

    def states(self, name: str) -> dict[str, tuple[str, str]]:
        code, answer = self.ask("GET", f"/v1/models/{name}")
        assert code == 200, answer
        return {
            each["version"]: (each["state"], each["status"]["error_code"])
            for each in answer["model_version_status"]
        }

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.log += self.process.communicate(timeout=2 * DEADLINE_S)[0]
        return self.process.returncode


@contextlib.contextmanager
def served(temp: pathlib.Path, *arguments: str, **variables: str) -> Iterator[Served]:
    server = Served(temp, *arguments, **variables)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture(scope="module")
def half_plus_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The model of TensorFlow Serving's examples, in numbered folders as there."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("models") / "half_plus_two"
    model = tf.Module()
    model.f = tf.function(lambda x: {"y": x * 0.5 + 2.0}, [tf.TensorSpec([None], "float32", "x")])
    tf.saved_model.save(
        model, str(folder / "00000123"), {"serving_default": model.f.get_concrete_function()}
    )
    (folder / "00000009").mkdir()
    with served(tmp_path_factory.mktemp("temp"), str(folder), "--max-mb", "0.5") as server:
        yield server
        assert server.end() == 0 and os.listdir(server.temp) == []
        assert "Traceback" not in server.log


def answered(ask: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
    """Ask again where the first call of the model takes longer than the limit, on a busy
    machine.
    """
    answers = (ask() for _ in range(60))
    return next(answer for answer in answers if answer[0] != 504)


def saved(folder: pathlib.Path, name: str, **params: object) -> str:
    PipelineModel(TFSavedModelPredictor(**params)).save(str(folder / name))
    return str(folder / name)


@needs_tf
def test_rest_server_answers_as_tensorflow_serving(half_plus_two: Served) -> None:
    assert half_plus_two.predict({"instances": [1.0, 2.0, 5.0]}) == (
        200,
        {"predictions": [2.5, 3.0, 4.5]},
    )
    assert half_plus_two.predict({"inputs": [2.0, 3.0, 4.0]}) == (200, {"outputs": [3.0, 3.5, 4.0]})
    assert half_plus_two.predict(
        {"instances": [{"x": 0.2}], "signature_name": "serving_default"}
    ) == (
        200,
        {"predictions": [2.1]},
    )
    assert half_plus_two.ask(
        "POST", "/v1/models/half_plus_two/versions/123:predict", {"inputs": {"x": [0]}}
    ) == (
        200,
        {"outputs": [2.0]},
    )
    status = {
        "version": "123",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert half_plus_two.ask("GET", "/v1/models/half_plus_two") == (
        200,
        {"model_version_status": [status]},
    )
    code, metadata = half_plus_two.ask("GET", "/v1/models/half_plus_two/metadata")
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert code == 200 and metadata["model_spec"] == {
        "name": "half_plus_two",
        "signature_name": "",
        "version": "123",
    }
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT" and signature["inputs"]["x"][
        "tensor_shape"
    ]["dim"] == [{"size": "-1", "name": ""}]
    unknown = half_plus_two.ask("POST", "/v1/models/half:predict", {"instances": [1.0, 5.0]})
    assert unknown == (404, {"error": "Servable not found for request: Latest(half)"})


@needs_tf
@pytest.mark.fault(
    "prediction",
    "A request over REST with a wrong shape or type names the row and what the model takes",
)
def test_requests_that_do_not_fit_the_model_name_row_and_input(half_plus_two: Served) -> None:
    for body, message in (
        (
            {"instances": [1.0, [2.0, 3.0]]},
            "row 1: input 'x' (float32 []) from column 'x': expected the shape [], got [2]",
        ),
        (
            {"instances": [1.0, None]},
            "row 1: input 'x' (float32 []) from column 'x': expected a value, got null",
        ),
        (
            {"instances": ["one"]},
            "row 0: input 'x' (float32 []) from column 'x': expected float32 numbers, got the string 'one'",
        ),
        (
            b"{",
            "JSON Parse error: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ):
        assert half_plus_two.predict(body) == (400, {"error": message})
    assert half_plus_two.predict({"instances": [1.0]}) == (200, {"predictions": [2.5]})


@needs_tf
@pytest.mark.fault(
    "prediction",
    "A request over REST that is too large is refused, and memory does not grow with it",
)
def test_request_beyond_the_limit_is_refused_in_little_memory(half_plus_two: Served) -> None:
    def memory() -> int:
        return int(
            re.search(
                r"VmHWM:\s+(\d+) kB",
                pathlib.Path(f"/proc/{half_plus_two.process.pid}/status").read_text(),
            )[1]
        )  # type: ignore[index]

    half_plus_two.predict({"instances": [1.0]})
    before = memory()
    status, answer = half_plus_two.predict(b" " * (64 << 20))
    assert status == 413 and answer == {
        "error": "the request has more than 524288 bytes (--max-mb)"
    }
    assert memory() - before < 32 << 10


@needs_tf
def test_rest_server_answers_many_clients_at_once(half_plus_two: Served) -> None:
    wrong: list[object] = []

    def ask(number: int) -> None:
        for i in range(20):
            found = half_plus_two.predict({"instances": [float(number), float(i)]})
            if found != (200, {"predictions": [number / 2 + 2, i / 2 + 2]}):
                wrong.append(found)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * DEADLINE_S)
    assert wrong == []
    status, metrics = half_plus_two.ask("GET", "/monitoring/prometheus/metrics")
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert (
        status == 200 and float(values['akdl_serve_batch_rows_sum{model="half_plus_two"}']) >= 320
    )
    assert (
        float(
            values['akdl_serve_requests_total{action="predict",model="half_plus_two",status="200"}']
        )
        >= 160
    )
    assert (
        float(values['akdl_serve_waiting_rows{model="half_plus_two"}']) == 0
        and "process_resident_memory_bytes" in values
    )


def test_a_token_file_that_others_can_read_is_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hush\n")
    for mode in (0o600, 0o640, 0o604):
        secret.chmod(mode)
        assert _token(str(secret)) == "hush"
    (told,) = caplog.messages
    assert told == f"other users of this host may read the token in {secret}: chmod 600 it"


@pytest.mark.slow
@needs_tf
@pytest.mark.fault(
    "security", "A request over REST without the token is refused, and the token is in no log"
)
@pytest.mark.fault(
    "prediction",
    "A REST server that is killed leaves its port free, and the next start removes its files",
)
@pytest.mark.fault(
    "prediction",
    "A model over REST that does not finish: clients and probes get errors in time, and SIGTERM ends it",
)
def test_pipelines_are_served_with_a_token_after_a_kill_and_when_slow(
    tmp_path: pathlib.Path,
) -> None:
    secret, temp = tmp_path / "token", tmp_path / "temp"
    secret.write_text(f"{TOKEN}\n")
    temp.mkdir()
    lengths = saved(
        tmp_path, "lengths.akdl", modelPath=models.texts_and_numbers(), outputSchemaStr="length INT, sum FLOAT",
        selectedCols=["t", "x"], reservedCols=["t"],
    )  # fmt: skip
    slow = saved(
        tmp_path,
        "slow.akdl",
        modelPath=models.endless(7),
        outputSchemaStr="p FLOAT",
        reservedCols=[],
    )
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    rows = {"instances": [{"t": "abc", "x": [1, 2.5]}, {"t": "", "x": [0, 0.1]}]}
    # The system may give a port that it has chosen to another program before the second server.
    port = ("--port", str(free_ports(1)[0]))
    columns = ("--columns", "t STRING, x ARRAY<FLOAT>")
    with served(temp, lengths, *columns, "--token-file", str(secret), *port) as server:
        for refused in (
            server.predict(rows),
            server.predict(rows, Authorization="Bearer other"),
            server.ask("GET", "/metrics"),
        ):
            assert refused[0] == 401 and "Authorization: Bearer TOKEN" in refused[1]["error"]
        assert server.ask("GET", "/v1/models/lengths")[0] == 200, "probes have no token"
        expected = [{"t": "abc", "length": 3, "sum": 3.5}, {"t": "", "length": 0, "sum": 0.1}]
        assert server.predict(rows, **allowed) == (200, {"predictions": expected})
        outputs = {"t": ["abc"], "length": [3], "sum": [3.0]}
        assert server.predict({"inputs": {"t": ["abc"], "x": [[1, 2]]}}, **allowed) == (
            200,
            {"outputs": outputs},
        )
        server.end(signal.SIGKILL)
        left = set(os.listdir(temp))
        assert left and TOKEN not in server.log
        with pytest.raises(ConnectionError):
            server.predict(rows)
    own = ("--columns", "x ARRAY<FLOAT>, k BIGINT", *port, "--timeout", "1")
    with served(temp, f"again={slow}", *own, AKDL_SERVE_TOKEN=TOKEN) as server:
        assert not left & set(os.listdir(temp))
        good, endless = ({"instances": [{"x": [1, 2, 3], "k": k}]} for k in (0, 7))
        assert server.predict(good)[0] == 401
        assert answered(lambda: server.predict(good, **allowed)) == (200, {"predictions": [12.0]})
        for body in (endless, good):  # the second one waits for the first
            assert server.predict(body, **allowed) == (
                504,
                {"error": "no answer within 1 s (--timeout)"},
            )
        status, answer = server.ask("GET", "/v1/models/again")
        assert status == 503 and answer["error"].startswith("the model has computed one batch for ")
        began = time.monotonic()
        assert (
            server.end(signal.SIGINT) == 0
            and time.monotonic() - began < DEADLINE_S
            and os.listdir(temp) == []
        )
        assert TOKEN not in server.log and "Traceback" not in server.log


HALF = Signature(
    "serving_default", described({"x": parse_type("FLOAT")}), described({"y": parse_type("FLOAT")})
)


class Asked:
    """An application without HTTP: a model that adds 2, once it may, and a body that arrives in
    pieces.
    """

    def __init__(
        self, most_mb: float = 1.0, timeout_s: float = DEADLINE_S, goes_on: bool = True
    ) -> None:
        self.goes_on, self.began = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        if goes_on:
            self.goes_on.set()
        half = NamedModel("half", "1", HALF, {}, True, self.predict, None, lambda: None)
        self.application = RestApplication({"half": half}, None, timeout_s, most_mb)
        self.left = threading.Event()

    def predict(
        self, columns: Mapping[str, Values], rows: int
    ) -> tuple[dict[str, Values], list[BadRow]]:
        self.sizes.append(rows)
        self.began.set()
        assert self.goes_on.wait(2 * DEADLINE_S)
        return {"y": [x + 2 for x in columns["x"]]}, []

    async def ask(self, *pieces: bytes, encoding: bytes = b"") -> tuple[int, Any] | None:
        """Status and content of the answer to a predict request; None without one. After its body
        the client stays until `left`.
        """
        sent: list[Mapping[str, Any]] = []
        rest = list(pieces)

        async def receive() -> Mapping[str, Any]:
            if rest:
                return {"type": "http.request", "body": rest.pop(0), "more_body": bool(rest)}
            while not self.left.is_set():
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        headers = [(b"content-encoding", encoding)] if encoding else []
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/models/half:predict",
            "headers": headers,
        }
        await self.application(scope, receive, send)
        return (sent[0]["status"], json.loads(sent[1]["body"])) if sent else None


def error_of(answer: tuple[int, Any] | None) -> tuple[int, str]:
    assert answer is not None
    return answer[0], answer[1]["error"]


@pytest.mark.fault(
    "prediction",
    "A request over REST that unpacks to more than --max-mb is refused, without the memory for it",
)
def test_gzip_bodies_are_read_within_the_limit() -> None:
    body = b'{"instances": [1, 2]}'
    packed = gzip.compress(body)

    async def ask() -> None:
        asked, predicted = Asked(), (200, {"predictions": [3, 4]})
        for encoding in (b"gzip", b"GZIP"):
            assert await asked.ask(packed, encoding=encoding) == predicted
            assert (
                await asked.ask(
                    *(packed[i : i + 1] for i in range(len(packed))), b"", encoding=encoding
                )
                == predicted
            )
        assert await asked.ask(body, encoding=b"identity") == predicted
        for size, status in ((1 << 20, 400), ((1 << 20) + 1, 413), (64 << 20, 413)):
            bomb = gzip.compress(bytes(size))
            assert error_of(await asked.ask(bomb, encoding=b"gzip"))[0] == status
            assert (
                error_of(
                    await asked.ask(
                        *(bomb[i : i + 999] for i in range(0, len(bomb), 999)), encoding=b"gzip"
                    )
                )[0]
                == status
            )
        for damaged in (
            b"",
            body,
            packed[:-1],
            packed[:9],
            packed + b"1",
            packed + packed,
            packed[:-5] + b"12345",
        ):
            status, message = error_of(await asked.ask(damaged, encoding=b"gzip"))
            assert status == 400 and message.startswith("the body is not gzip: "), message
        assert error_of(await asked.ask(packed))[0] == 400
        assert error_of(await asked.ask(packed, encoding=b"br")) == (
            415,
            "Content-Encoding: expected gzip, got 'br'",
        )
        assert asked.application._held_bytes == 0

    asyncio.run(ask())


@pytest.mark.fault(
    "prediction", "A request over REST with very many values is refused before it is parsed"
)
@pytest.mark.parametrize("row", [b"[]", b"{}", b"[[[[[[]]]]]]", b"1", b'""'])
def test_request_of_too_many_values_is_refused_before_it_is_parsed(
    row: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "columns", lambda *_: pytest.fail("the body was parsed"))
    body = b'{"instances": [' + b",".join([row] * (1 << 18)) + b"]}"
    status, message = error_of(asyncio.run(Asked(1.99 if len(row) < 3 else 4).ask(body)))
    assert status == 413 and re.match(
        r"the request has about \d+ values, more than \d+ \(--max-mb\)", message
    )


@pytest.mark.fault(
    "prediction", "While large requests over REST are read and answered, small ones are answered"
)
def test_large_requests_and_answers_are_read_and_written_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            threads.append(threading.current_thread().name.partition("_")[0])
            return function(*arguments)

        return call

    monkeypatch.setattr(Target, "columns", noted(Target.columns))
    monkeypatch.setattr("operators.serve.rest_server.answer_of", noted(answer_of))
    asked = Asked()
    for rows in (2, 50_000):
        body = json.dumps({"instances": [1] * rows}).encode()
        assert asyncio.run(asked.ask(body)) == (200, {"predictions": [3] * rows})
    assert threads == ["MainThread", "MainThread", "akdl-json", "akdl-json"]


@pytest.mark.fault(
    "prediction",
    "Requests over REST that arrive together take the memory of a few large ones at most",
)
def test_requests_hold_a_bounded_number_of_bytes() -> None:
    body = json.dumps({"instances": [1], "pad": "a" * ((1 << 20) - 40)}).encode()

    async def ask() -> None:
        asked = Asked(goes_on=False)
        requests = [asyncio.ensure_future(asked.ask(body[:1000], body[1000:])) for _ in range(6)]
        done: set[asyncio.Future[Any]] = set()
        while len(done) < 2:
            done, _ = await asyncio.wait(requests, timeout=0.1)
        refused = [error_of(each.result()) for each in done]
        assert [status for status, _ in refused] == [503, 503] and "try again later" in refused[0][
            1
        ]
        small = [asyncio.ensure_future(asked.ask(b'{"instances": [1]}')) for _ in range(20)]
        asked.goes_on.set()
        assert await asyncio.gather(*small) == [(200, {"predictions": [3]})] * 20
        answers = await asyncio.gather(*requests)
        assert sorted(answer[0] for answer in answers if answer) == [200] * 4 + [503] * 2
        assert asked.application._held_bytes == 0 and (await asked.ask(body)) == (
            200,
            {"predictions": [3]},
        )

    asyncio.run(ask())


@pytest.mark.fault(
    "prediction",
    "The rows of a client that leaves, or of a request that lasts too long, are not predicted",
)
def test_requests_that_are_given_up_leave_the_queue() -> None:
    async def ask(timeout_s: float) -> None:
        asked = Asked(timeout_s=timeout_s, goes_on=False)
        first = asyncio.ensure_future(asked.ask(b'{"instances": [1]}'))
        while not asked.began.is_set():
            await asyncio.sleep(0.01)
        second = asyncio.ensure_future(asked.ask(b'{"instances": [1, 2, 3]}'))
        while asked.application._calls["half"].rows_waiting() != 3:
            await asyncio.sleep(0.01)
        if timeout_s == DEADLINE_S:
            asked.left.set()
        assert (
            (await first, await second) == (None, None)
            if asked.left.is_set()
            else error_of(await second)[0] == 504
        )
        assert (
            asked.application._calls["half"].rows_waiting() == 0
            and asked.application._held_bytes == 0
        )
        asked.goes_on.set()

    asyncio.run(ask(DEADLINE_S))
    asyncio.run(ask(2.0 * SLOWER))


@pytest.mark.fault(
    "prediction",
    "When too many rows wait for a slow model, a further request over REST is refused at once",
)
@pytest.mark.fault(
    "prediction",
    "A request over REST with many rows lets other requests in between, and stops when it is given up",
)
def test_requests_take_turns_and_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operators.serve.rest_server._MOST_WAITING", 514)

    async def ask() -> None:
        asked = Asked(goes_on=False)
        calls = asked.application._calls["half"]

        def request(rows: int) -> asyncio.Task[Any]:
            body = json.dumps({"instances": [1] * rows}).encode()
            return asyncio.ensure_future(asked.ask(body))

        async def waiting(rows: int) -> None:
            while calls.rows_waiting() != rows:
                await asyncio.sleep(0.01)

        running = request(1)
        while not asked.began.is_set():
            await asyncio.sleep(0.01)
        large = request(700)
        await waiting(256)
        given_up = request(5000)
        await waiting(512)
        small = request(2)
        await waiting(514)
        assert error_of(await request(1)) == (
            503,
            "514 rows are waiting for the model: try again later",
        )
        # The client cancels it, as one that leaves does.
        given_up.cancel()
        await waiting(258)
        asked.goes_on.set()
        answers = await asyncio.gather(running, large, small)
        assert [len(answer["predictions"]) for _, answer in answers] == [1, 700, 2]
        assert asked.sizes == [1, 256, 2, 256, 188]

    asyncio.run(ask())


@needs_tf
def test_scalars_as_tensorflow_serving_answers_them(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    model = tf.Module()
    model.f = tf.function(
        lambda x, keep: {"y": x * keep, "sum": tf.reduce_sum(x), "size": tf.shape(x)},
        [tf.TensorSpec([None, 2], "float32", "x"), tf.TensorSpec([], "float32", "keep")],
    )
    unknown = tf.function(
        lambda x: {"found": tf.unique(x).y}, [tf.TensorSpec([None], "float32", "x")]
    )
    model.g = unknown
    tf.saved_model.save(model, str(tmp_path / "m"), {"serving_default": model.f, "unique": model.g})
    (tmp_path / "temp").mkdir()
    folder = str(tmp_path / "m")
    both = (folder, f"unique={folder}", "--signature", "unique=unique")
    with served(tmp_path / "temp", *both) as server:
        outputs = {"y": [[0.5, 1.0], [1.5, 2.0]], "sum": 10.0, "size": [2, 2]}
        assert server.predict({"inputs": {"x": [[1, 2], [3, 4]], "keep": 0.5}}) == (
            200,
            {"outputs": outputs},
        )
        for body, message in (
            (
                {"instances": [{"x": [1, 2], "keep": 0.5}] * 2},
                "input 'keep' (float32 []) from column 'keep': expected the shape []",
            ),
            (
                {"inputs": {"x": [[1, 2]], "keep": "a"}},
                "expected float32 numbers, got the string 'a'",
            ),
            ({"inputs": {"x": 1, "keep": 1}}, "expected the shape [-1, 2], got []"),
        ):
            status, answer = server.predict(body)
            assert status == 400 and message in answer["error"]
        assert server.predict({"inputs": [1, 2, 1]}, "unique") == (200, {"outputs": [1.0, 2.0]})
        assert server.predict({"instances": [1, 2]}, "unique") == (200, {"predictions": [1.0, 2.0]})
        status, answer = server.predict({"instances": [1, 1]}, "unique")
        assert status == 400 and answer["error"].startswith(
            "output found: expected values for 2 rows, got the shape [1]"
        )
        assert (
            server.end() == 0
            and "Traceback" not in server.log
            and "cellsHoldBatches" not in server.log
        )


@pytest.mark.long
@needs_tf
@pytest.mark.fault(
    "prediction",
    "A newer version of a model over REST that does not fit is refused, and the version in use stays",
)
def test_newer_versions_take_over_next_to_other_models(tmp_path: pathlib.Path) -> None:
    versions, temp = tmp_path / "sums", tmp_path / "temp"
    temp.mkdir()

    def publish(number: int, source: str) -> None:
        shutil.copytree(source, tmp_path / "copy")
        (tmp_path / "copy").rename(versions / str(number))

    versions.mkdir()
    publish(2, models.scaled(2.0))
    pipeline = saved(tmp_path, "p.akdl", modelPath=models.scaled(5.0), outputSchemaStr="p FLOAT", reservedCols=[])  # fmt: skip
    columns = ("--columns", "a:b=x ARRAY<FLOAT>, k BIGINT")
    body = {"instances": [{"x": [1, 2, 3], "k": 0}]}
    found: list[object] = []
    with served(temp, str(versions), f"a:b={pipeline}", *columns) as server:

        def until(version: str, state: tuple[str, str]) -> None:
            """Ask without a pause until the version has the state; note the predictions."""
            deadline = time.monotonic() + 4 * DEADLINE_S
            while server.states("sums").get(version) != state:
                assert time.monotonic() < deadline, server.states("sums")
                code, answer = server.predict(body)
                assert code == 200, answer
                if answer["predictions"] != found[-1:]:
                    found.append(answer["predictions"][0])

        assert server.predict(body, "a:b") == (200, {"predictions": [30.0]})
        assert server.predict(body) == (200, {"predictions": [12.0]})
        publish(3, models.scaled(2.0, output="q"))
        until("3", ("END", "UNKNOWN"))
        assert server.states("sums")["2"] == ("AVAILABLE", "OK")
        publish(10, models.scaled(3.0))
        until("10", ("AVAILABLE", "OK"))
        assert server.states("sums") == {"10": ("AVAILABLE", "OK"), "2": ("END", "OK")}
        assert server.predict(body) == (200, {"predictions": [18.0]})
        assert found in ([12.0], [12.0, 18.0]), "no answer is of an older version again"
        old, new = (
            server.ask("POST", f"/v1/models/sums/versions/{number}:predict", body)[0]
            for number in (2, 10)
        )
        assert (old, new) == (404, 200)
        assert server.predict(body, "a:b") == (200, {"predictions": [30.0]})
        assert 'akdl_serve_version{model="sums"} 10.0' in server.ask("GET", "/metrics")[1]
        assert server.end() == 0 and "Traceback" not in server.log and os.listdir(temp) == []
    assert f"the model {versions}/3 is refused: " in server.log and "output 'p'" in server.log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "akdl serve: .*/nowhere"),
        (["/nowhere", "--columns", "x FLOAT"], "akdl serve: the saved pipeline model cannot be read: .*/nowhere"),
        (["/nowhere", "--host", "0.0.0.0"], "akdl serve: --host 0.0.0.0: other hosts can reach it, which needs AKDL_SERVE_TOKEN or --token-file"),
        (["/nowhere", "--token-file", "/dev/null"], "akdl serve: the token in /dev/null is empty"),
        (["/nowhere", "--columns", "x FLOAT", "--signature", "nowere=s"], r"akdl serve: --signature nowere=s: 'nowere' is not among the models 'nowhere' \(did you mean 'nowhere'\?\)"),
        (["/nowhere", "--columns", "nowhere=x FLOAT", "--columns", "nowhere=y FLOAT"], "akdl serve: --columns has two values for nowhere: x FLOAT and y FLOAT: remove one"),
        (["/nowhere", "--signature", "a", "--signature", "b"], "akdl serve: --signature has two values for models without one: a and b: "),
        (["/nowhere/.onnx"], "akdl serve: /nowhere/.onnx has no name before its ending: write NAME=/nowhere/.onnx"),
        (["file://nohost/m"], "akdl serve: file://nohost/m: file:// needs three slashes"),
        (["/nowhere", "--port", "{taken}"], "akdl serve: .*Address already in use"),
    ],
)  # fmt: skip
def test_failing_start_of_the_server_says_why(
    arguments: Sequence[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as ended:
        main(
            [
                each.replace("{taken}", str(taken.getsockname()[1]))
                for each in ["--port", "0", *arguments]
            ]
        )
    assert ended.value.code == 1 and re.match(message, capsys.readouterr().err)


def test_default_name_of_a_model_is_that_of_its_folder_or_file(tmp_path: pathlib.Path) -> None:
    for folder in ("resnet.v2", "m.zip", ".model"):
        (tmp_path / folder).mkdir()
    for place, name in (
        ("resnet.v2", "resnet.v2"),
        ("resnet.v2/", "resnet.v2"),
        ("m.zip", "m.zip"),
        (".model", ".model"),
        ("price.v1.ONNX", "price.v1"),
        ("price.tar.gz", "price"),
        ("pipeline.akdl", "pipeline"),
        (".onnx", ""),
    ):
        assert default_name(str(tmp_path / place)) == name
        assert default_name(f"file://{tmp_path / place}") == name
    assert default_name("s3://bucket/m.v2/") == "m.v2"


def test_port_beyond_the_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for port in ("65536", "-1"):
        with pytest.raises(SystemExit) as ended:
            main(["/nowhere", "--port", port])
        error = f"--port {port}: expected a number from 0 to 65535"
        assert ended.value.code == 2 and error in capsys.readouterr().err


def test_printed_address_of_an_ipv6_host_is_a_url(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = types.SimpleNamespace(version="1", close=lambda: None)
    # The host of the tests may have no IPv6.
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    for name, value in (
        ("_load", lambda _: {"half": model}),
        ("RestApplication", lambda *_: None),
        ("os._exit", sys.exit),
    ):
        monkeypatch.setattr(f"operators.serve.rest_server.{name}", value)
    monkeypatch.setattr("operators.serve.connections.SparseLog", logging.Filter)
    # uvicorn's Config closes all handlers of logging, and with them the stderr of other tests.
    monkeypatch.setattr("uvicorn.Config", lambda *_, **__: None)
    monkeypatch.setattr("uvicorn.Server", lambda _: types.SimpleNamespace(run=lambda sockets: None))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit):
        main(["/nowhere", "--host", "::1", "--port", "0"])
    assert re.search(r" at http://\[::1\]:\d+/v1/models/half\n", capsys.readouterr().out)


def test_saved_pipeline_without_columns_is_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "p.akdl").write_bytes(b"PK")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "p.akdl"), "--port", "0"])
    assert "a saved pipeline needs --columns 'x0 FLOAT, x1 FLOAT'" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["p.akdl"]


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        ("m.pt2", [], "set --trusted; or save the model as ONNX"),
        ("mlflow", [], "set --trusted; or save the model as ONNX"),
        ("p.akdl", ["--columns", "x FLOAT"], "pass --trusted"),
    ],
)
def test_model_with_code_is_refused_with_the_option_that_accepts_it(
    name: str,
    options: Sequence[str],
    remedy: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "m.pt2").write_bytes(b"PK")
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "MLmodel").touch()
    stage = {"params": {"outputSchemaStr": "y FLOAT"}, "function": "score.py:load"}
    with zipfile.ZipFile(tmp_path / "p.akdl", "w") as file:
        file.writestr("pipeline.json", json.dumps({"version": 1, "stages": [stage]}))
    with pytest.raises(SystemExit):
        main([str(tmp_path / name), "--port", "0", *options])
    assert capsys.readouterr().err.endswith(f"{remedy}\n")
