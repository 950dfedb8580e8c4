"""A process that serves one model to all tasks of a job on its host.

The first task that needs it starts it, the others find it in a folder that they agree on. It holds the reading end of a named
pipe, every task holds a writing end: when the last task has closed its end or died, even by SIGKILL, the process reads the end
of the pipe and exits. So nobody has to know who comes first or goes last.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format

from akdl.process import shared_folder
from akdl.process.preflight import UNUSABLE
from akdl.wire import Description, Empty, Failure, Notice, Notices, Offer, Prediction, Serving
from akdl.wire.service import ADDRESS_FILE, PREDICT_SERVICE
from akdl.wire.token import TOKEN
from bridge.exceptions import TaskError
from bridge.host.interpreter import open_interpreter
from bridge.host.socket_path import address_of
from bridge.host.variables import variables
from bridge.host.work_folder import PRIVATE_FOLDER, WorkFolder, private_folder
from bridge.settings import PythonArchive

logger = logging.getLogger(__name__)

_LOG_BYTES = 8000
_POLL_S = 0.05


@dataclass(frozen=True)
class ModelSettings:
    """What a model process is told.

    Args:
        operator: Name of the operator, for messages.
        group: Unique name of the operator in its job.
        serving: What to serve, as JSON of the message `Serving`; without the path of the model.
        token: The secret that every call must bring.
        python: Interpreter, or an archive with one; None stands for the interpreter that runs Flink's Python functions.
        env_vars: See `GroupSettings`.
        intra_op_parallelism: Threads of one TensorFlow operation; None for TensorFlow's choice.
        start_timeout_s: How long it may take until the model is loaded.
    """

    operator: str
    group: str
    serving: str
    token: str = field(repr=False)
    python: str | PythonArchive | None = None
    env_vars: tuple[str, ...] = field(default=(), repr=False)
    intra_op_parallelism: int | None = None
    start_timeout_s: float = 300.0


class NotListening(grpc.RpcError):  # type: ignore[misc]
    """The process has not said yet where it listens."""

    def code(self) -> grpc.StatusCode:
        """As gRPC says it of a socket that is not there yet."""
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        """In words."""
        return "the process has not said where it listens"


class ModelProcess:
    """This task's hold on the process, which is started if need be, and the line to it.

    Args:
        settings: What the process is told.
        model: Path of the model on this host.

    Raises:
        TaskError: It could not be started, or has no model to serve.
    """

    def __init__(self, settings: ModelSettings, model: str) -> None:
        self._settings = settings
        # Short names, as the path of a unix socket has to be.
        place = private_folder(os.path.join(tempfile.gettempdir(), f"akdl_models_{os.geteuid()}"), "model processes")
        _sweep(place)
        self._folder = os.path.join(place, settings.group)
        self._process: subprocess.Popen[bytes] | None = None
        deadline = time.monotonic() + settings.start_timeout_s
        while True:
            self._pipe = self._join(model)
            with _lock:
                _pipes.setdefault(settings.group, []).append(self._pipe)
            self._channel: grpc.Channel | None = None
            try:
                self.description = self._describe(deadline)
                break
            except grpc.RpcError as error:
                self.close()
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline or self._process is not None:
                    lost = self._lost(error)
                    if self._process is not None and self._process.poll() is not None:
                        _remove_unused(self._folder)  # it may not have come as far as to do it
                    raise TaskError(lost) from None
                # It was about to exit when it was found.
        if self.description.HasField("failure"):
            self.close()
            raise TaskError(f"{settings.operator}: {_text(self.description.failure)}")

    def predict(self, columns: bytes) -> Prediction:
        """Predict a batch.

        Args:
            columns: A serialized message `Rows`.

        Raises:
            TaskError: The process has died, or the model failed.
        """
        try:
            prediction: Prediction = self._method("Predict", None, Prediction)(columns, metadata=self._metadata)
        except grpc.RpcError as error:
            raise TaskError(self._lost(error)) from None
        if prediction.HasField("failure"):
            raise TaskError(f"{self._settings.operator}: the model failed: {_text(prediction.failure)}")
        self._log(prediction.notices)
        return prediction

    @property
    def folder(self) -> str:
        """A folder that the tasks on this host share with the process, and that goes with it."""
        return self._folder

    def replace(self, model: str, name: str) -> None:
        """Let another model take over; where it cannot, the log says why, and the old one goes on.

        Args:
            model: Path of the model on this host. It is not needed any more when this returns.
            name: What it is called in the log.

        Raises:
            TaskError: The process has died.
        """
        try:
            notices = self._method("Replace", Offer, Notices)(Offer(model=model, name=name), metadata=self._metadata)
        except grpc.RpcError as error:
            raise TaskError(self._lost(error)) from None
        self._log(notices.notices)

    def _log(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            logger.log(notice.level, "%s: %s", self._settings.operator, notice.text)

    def close(self) -> None:
        """Let go of the process; the last one to do so ends it. Safe to call twice."""
        if self._channel is not None:
            self._channel.close()
        with _lock:
            held = _pipes.get(self._settings.group, [])
            if self._pipe not in held:
                return
            held.remove(self._pipe)
        os.close(self._pipe)

    @property
    def _metadata(self) -> list[tuple[str, str]]:
        return [(TOKEN, self._settings.token)]

    def _method(self, name: str, request: Any, answer: Any) -> Any:
        """Return a call of the server; the request is bytes where no type is named."""
        serialize = None if request is None else request.SerializeToString
        assert self._channel is not None
        return self._channel.unary_unary(
            f"/{PREDICT_SERVICE}/{name}", request_serializer=serialize, response_deserializer=answer.FromString
        )

    def _join(self, model: str) -> int:
        """Return the writing end of the pipe of a process that runs."""
        with shared_folder.locked(self._folder):
            pipe = os.path.join(self._folder, "alive")
            with contextlib.suppress(FileExistsError):
                os.mkfifo(pipe, 0o600)
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody reads: there is no process
                    raise
            reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            writing = os.open(pipe, os.O_WRONLY)
            try:
                os.set_blocking(reading, True)
                self._start(model, reading)
            except BaseException:
                os.close(writing)
                raise
            finally:
                os.close(reading)
            return writing

    def _start(self, model: str, pipe: int) -> None:
        settings = self._settings
        shutil.rmtree(os.path.join(self._folder, PRIVATE_FOLDER), ignore_errors=True)  # of a process that was killed
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._address_file)
        folder = WorkFolder((), self._folder)
        python = None
        try:
            python = open_interpreter(settings.operator, settings.python)
            environment = variables(settings.intra_op_parallelism, os.environ, python.path, folder, settings.env_vars)
            serving = json_format.Parse(settings.serving, Serving())
            serving.model = model
            environment.update(
                AKDL_ADDRESS=self._socket or "127.0.0.1:0",
                AKDL_TOKEN=settings.token,
                AKDL_PARENT_FD=str(pipe),
                AKDL_SERVING=json_format.MessageToJson(serving),
                AKDL_WORK_DIR=self._folder,
            )
            with open(os.path.join(self._folder, "log"), "wb") as log, python.starting(settings.operator):
                self._process = subprocess.Popen(
                    [python.path, "-m", "akdl.process.preflight", "akdl.serving.server"],
                    env=environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=[pipe, *python.fds], start_new_session=True,
                )  # fmt: skip
        except BaseException:
            shared_folder.remove(self._folder)  # else the process does it at its end
            raise
        finally:
            if python is not None:
                python.release()
        threading.Thread(target=self._process.wait, name="akdl-reap", daemon=True).start()
        logger.info("%s: process %d serves the model", settings.operator, self._process.pid)

    @property
    def _socket(self) -> str | None:
        return address_of(os.path.join(self._folder, "model.sock"))

    @property
    def _address_file(self) -> str:
        """Where the process writes its address when it cannot have a unix socket."""
        return os.path.join(self._folder, ADDRESS_FILE)

    def _connect(self) -> None:
        """Open the line, unless it is open; NotListening where the process has not said yet where it listens."""
        if self._channel is not None:
            return
        address = self._socket
        if address is None:
            try:
                with open(self._address_file, encoding="ascii") as file:
                    address = file.read()
            except FileNotFoundError:
                raise NotListening from None
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(address, options=options)

    def _describe(self, deadline: float) -> Description:
        """Wait until the model is loaded."""
        while True:
            try:
                self._connect()
                timeout_s = max(deadline - time.monotonic(), 1.0)
                found: Description = self._method("Describe", Empty, Description)(
                    Empty(), metadata=self._metadata, timeout=timeout_s
                )
                return found
            except grpc.RpcError as error:
                dead = self._process is not None and self._process.poll() is not None
                starts = error.code() == grpc.StatusCode.UNAVAILABLE and not dead and _runs(self._folder)
                if not starts or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)  # it does not listen yet

    def _lost(self, error: grpc.RpcError) -> str:
        with contextlib.suppress(OSError):
            if self._process is not None and self._process.poll() == UNUSABLE:
                with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as file:
                    return f"{self._settings.operator}: {file.read().strip()}"
            with open(os.path.join(self._folder, "log"), "rb") as log:
                log.seek(max(0, os.path.getsize(log.name) - _LOG_BYTES))
                printed = log.read().decode("utf-8", "replace")
                return (
                    f"{self._settings.operator}: the process that serves the model is gone ({error.code().name}: "
                    f"{error.details()})\n--- last lines of the process ---\n{printed}"
                )
        return f"{self._settings.operator}: the process that serves the model is gone: {error.code().name}: {error.details()}"


def release(groups: Collection[str]) -> None:
    """Let go of all processes of these groups that tasks in this Python process hold; for the end of their job."""
    with _lock:
        pipes = [pipe for group in groups for pipe in _pipes.pop(group, [])]
    for pipe in pipes:
        os.close(pipe)


_pipes: dict[str, list[int]] = {}
_lock = threading.Lock()


def _runs(folder: str) -> bool:
    """Whether a process reads the pipe in its folder."""
    try:
        os.close(os.open(os.path.join(folder, "alive"), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _sweep(place: str) -> None:
    """Remove the folders of processes that were killed, and of tasks that were killed before they had started one."""
    for name in os.listdir(place):
        _remove_unused(os.path.join(place, name))


def _remove_unused(folder: str) -> None:
    """Remove the folder of a process that was killed, unless somebody is about to join or to start another one."""
    with shared_folder.try_locked(folder) as is_ours:
        if is_ours and not _runs(folder):
            shared_folder.remove(folder)


def _text(failure: Failure) -> str:
    return "\n".join(part for part in (failure.message, failure.traceback) if part)
