"""A process that serves one model to all tasks of a job on its host, from the first task to the
last.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import psutil
from google.protobuf import json_format

from akdl.process.preflight import UNUSABLE
from akdl.serving.model import BATCH_ROWS, CALL, WatchedCall, stalled_file
from akdl.storage.local_files import private
from akdl.storage.model_forms import ModelError
from akdl.storage.model_place import PlacedModel, get_model
from akdl.wire import Description, Empty, Failure, Notice, Notices, Offer, Prediction, Serving
from akdl.wire.service import PREDICT_SERVICE
from akdl.wire.token import TOKEN
from bridge.exceptions import TaskError
from bridge.host.console import warn
from bridge.host.gpus import lease_for
from bridge.host.interpreter import first_lines, open_interpreter, variables
from bridge.host.process import STACKS_S, describe_exit, place_in
from bridge.host.process_folder import (
    ProcessFolder,
    kill,
    kill_stopped,
    note_process,
    process_of,
)
from bridge.host.program_folder import sweep
from bridge.host.work_folder import WorkFolder
from bridge.member.observer import ProgressWatch
from bridge.settings import PythonArchive, UserFile

logger = logging.getLogger(__name__)

_POLL_S = 0.05
LOOK_S = 1.0
# A process that reports its address just before the deadline gets this time to answer.
_LEAST_CALL_S = 1.0
# With inferTimeout, the process itself ends and leaves a file with the rows of the batch. The task
# waits so much longer than stallTimeout, so that this file comes first.
_LATER_S = 5.0
# The connection of an ended process breaks before the system has its status.
_STATUS_S = 5.0
# gRPC refuses messages of more than 4 MB unless this is set, and requests have up to 16 MB and
# more. The process is on this host, so no proxy may get its calls.
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model process; `serving` is JSON of the message `Serving` without the path of
    the model.

    Without `python` it is that of Flink's functions. With `user_files`, a function in one of them
    is the model. `start_timeout_s` includes the loading. 0 turns `stall_timeout_s` off. `gpus` is
    None for one if one is free. A process that `restarts` gets its first model again. Each of
    `copies` is a process of its own on each host.
    """

    operator: str
    group: str
    serving: str
    token: str = field(repr=False)
    python: str | PythonArchive | None = None
    env_vars: tuple[str, ...] = field(default=(), repr=False)
    user_files: tuple[UserFile, ...] = ()
    start_timeout_s: float = 300.0
    stall_timeout_s: float = 600.0
    gpus: int | None = None
    copies: int = 1
    restarts: bool = True

    @property
    def groups(self) -> list[str]:
        """Group of each copy; further ones have their number in the name."""
        return [f"{self.group}_{copy}" if copy else self.group for copy in range(self.copies)]


class StalledModel(Exception):
    """The process has ended, as the model did not finish a batch in time; requests have to be sent
    again.
    """


class NotListening(grpc.RpcError):
    """The process has not reported its address yet."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the process has not reported its address"


class Request:
    """Rows for the model that are under way, and the times of their call and its answer."""

    def __init__(self, columns: bytes) -> None:
        self.columns = columns
        self.call: grpc.Future[Prediction] | None = None
        self.begun = self.ended = time.monotonic()
        self.watched = WatchedCall(uuid.uuid4().hex)

    @property
    def is_done(self) -> bool:
        return self.call is not None and self.call.done()

    def begin(self, call: grpc.Future[Prediction]) -> None:
        self.call = call
        self.ended = 0.0
        # A thread of gRPC calls this at once, while the task may look at the answer much later.
        call.add_done_callback(self._end)

    def note_stall(self, rows: list[int]) -> None:
        """Adjust the request to a batch that was not computed in time: it is tried again, then
        halved, down to one row.
        """
        watched = self.watched
        if watched.is_retried and len(rows) == 1:
            watched = watched._replace(most_rows=0, left_out=[*watched.left_out, *rows])
        elif watched.is_retried and rows:
            watched = watched._replace(most_rows=len(rows) // 2)
        self.watched = watched._replace(is_retried=watched.is_retried or bool(rows))

    def _end(self, call: grpc.Future[Prediction]) -> None:
        self.ended = time.monotonic()


class ModelProcess:
    """A task's hold on the model process of its host, and the channel to it.

    The first task starts the process, each holds a pipe that keeps it alive, and it ends with the
    last one. The object exists once the model is loaded; TaskError if that fails.
    """

    def __init__(self, settings: ModelSettings, model: str | PlacedModel) -> None:
        self._settings = settings
        self._serving = json_format.Parse(settings.serving, Serving())
        self.batch_size = self._serving.infer_batch_size or BATCH_ROWS
        sweep()
        self._folder = ProcessFolder(settings.group)
        self.folder = self._folder.path
        self._metadata = [(TOKEN, settings.token)]
        self._process: subprocess.Popen[bytes] | None = None  # if this task has started it
        self._channel: grpc.Channel | None = None
        self._model = model
        self._open()

    def _open(self) -> None:
        self._pipe = self._folder.join(self._start)
        self.description = self._wait_until_loaded()
        process = process_of(self.folder)
        # The file of a stall has this number in its name, because the next process uses the same
        # folder.
        self._pid = 0 if process is None else process.pid
        if self.description.HasField("failure"):
            self.close()
            raise TaskError(f"{self._settings.operator}: {_text(self.description.failure)}")

    def restart(self) -> None:
        """Join the process that follows one that has ended; the first task to do so starts it."""
        self.close()
        # The channel is closed, and another task may start the process that follows.
        self._channel = self._process = None
        self._open()

    def predict(self, columns: bytes) -> Prediction:
        request = Request(columns)
        while True:
            self.send(request)
            with suppress(StalledModel):
                return self.answer(request)
            self.restart()

    def send(self, request: Request) -> None:
        """Begin to predict rows; several requests may be under way."""
        metadata = [*self._metadata, (CALL, json.dumps(request.watched))]
        request.begin(
            self._method("Predict", None, Prediction).future(request.columns, metadata=metadata)
        )

    def answer(self, request: Request) -> Prediction:
        """Wait for an answer; after a StalledModel, all requests have to be sent again."""
        try:
            prediction: Prediction = self._result(request.call)
        except grpc.RpcError as error:
            stalled = self._stalled()
            if stalled is None:
                raise TaskError(self._lost(error)) from None
            request.note_stall(stalled.get(request.watched.name, []))
            raise StalledModel from None
        if prediction.HasField("failure"):
            raise TaskError(
                f"{self._settings.operator}: the model failed: {_text(prediction.failure)}"
            )
        self._log(prediction.notices)
        return prediction

    def replace(self, model: str, name: str) -> None:
        """Replace the model by the one at a path, which is free again on return. Where that fails,
        the log says why.
        """
        try:
            replace = self._method("Replace", Offer, Notices).future
            notices = self._result(replace(Offer(model=model, name=name), metadata=self._metadata))
        except grpc.RpcError as error:
            raise TaskError(self._lost(error)) from None
        self._log(notices.notices)

    def close(self) -> None:
        """Release the process; the last task to do so ends it. Safe to call twice."""
        if self._channel is not None:
            self._channel.close()
        self._folder.leave(self._pipe)
        kill_stopped(self.folder)

    def _wait_until_loaded(self) -> Description:
        """Ask the process again and again until it describes its model, or has failed."""
        deadline = time.monotonic() + self._settings.start_timeout_s
        while True:
            try:
                return self._describe(deadline)
            except grpc.RpcError as error:
                is_running = self._folder.has_process() and not self._has_exited
                # Its last task had just left when this one joined, so another one is started.
                was_ending = not is_running and self._process is None
                is_early = (
                    error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() <= deadline
                )
                if not (is_early and (is_running or was_ending)):
                    raise self._start_error(error) from None
            if is_running:
                time.sleep(_POLL_S)
            else:
                self.close()
                self._channel = None
                self._pipe = self._folder.join(self._start)

    def _describe(self, deadline: float) -> Description:
        if self._channel is None:
            address = self._folder.address
            # A channel is made only once the socket is there: gRPC repeats an attempt that fails
            # only after 5 s, and each prediction began that late.
            if address is None or not self._folder.has_listened:
                raise NotListening
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        timeout_s = max(deadline - time.monotonic(), _LEAST_CALL_S)
        description: Description = self._method("Describe", Empty, Description)(
            Empty(), metadata=self._metadata, timeout=timeout_s
        )
        return description

    def _start_error(self, error: grpc.RpcError) -> TaskError:
        where = "" if self._folder.has_listened else self._place_of_start()
        self.close()
        reason = self._lost(error, where)
        # A process removes its folder at its end, but may have failed before it could.
        if self._has_exited:
            self._folder.remove_unused()
        return TaskError(reason)

    def _place_of_start(self) -> str:
        """End the process that this task has started, and return a sentence about the place of its
        Python.

        A process that blocks before it watches its pipe would stay.
        """
        process = self._process
        if process is None or process.poll() == UNUSABLE:
            return ""
        late = (
            ""
            if self._has_exited
            else (
                f". It did not start within the {self._settings.start_timeout_s:g} s of"
                " startTimeout"
            )
        )
        # Python's faulthandler is on in the process, so at this signal it prints its stack before
        # it ends.
        process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired, OSError):
            process.wait(STACKS_S)
            late += place_in(self._folder.last_lines())
        return late + first_lines(self._python)

    def _start(self, pipe: int) -> None:
        """Start the process, with the lock of its folder held. It listens before it loads."""
        settings = self._settings
        serving = self._serving
        place = self.folder
        work = f"{place}/work"
        # A process that was killed has left its work folder, and an address where nothing listens.
        shutil.rmtree(work, ignore_errors=True)
        self._folder.forget_address()
        folder = WorkFolder(settings.user_files, work)
        operator = settings.operator
        try:
            # The process inherits the locks, and holds them from its start on.
            with (
                closing(open_interpreter(operator, settings.python)) as python,
                closing(lease_for(operator, settings.gpus, settings.start_timeout_s)) as gpus,
            ):
                self._python = python.path
                threads = serving.intra_op_parallelism or None
                environment = variables(threads, os.environ, python.path, folder, settings.env_vars)
                model = self._model
                if isinstance(model, PlacedModel):
                    model = self._brought(model)
                serving.model = model or work
                if serving.function:
                    serving.function_folder = work
                # The settings are in a file, because with thousands of columns they are too long
                # for a variable.
                serving_file = f"{place}/serving.json"
                with open(serving_file, "w", encoding="utf-8", opener=private) as file:
                    file.write(json_format.MessageToJson(serving))
                environment.update(
                    # If the path of the folder is too long for a unix socket, the process takes any
                    # free port, and writes its address into the folder.
                    AKDL_ADDRESS=self._folder.socket or "127.0.0.1:0",
                    AKDL_TOKEN=settings.token,
                    AKDL_PARENT_FD=str(pipe),
                    AKDL_SERVING=serving_file,
                    AKDL_WORK_DIR=place,
                    **gpus.variables,
                )
                with open(self._folder.log, "wb", opener=private) as log, python.starting(operator):
                    self._process = subprocess.Popen(
                        [python.path, "-m", "akdl.process.preflight", "akdl.serving.model_server"],
                        env=environment,
                        cwd=work,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        pass_fds=[pipe, *python.fds, *gpus.fds],
                        # The process leads a group of its own number, by which `kill` ends all that
                        # it has started.
                        start_new_session=True,
                    )
                note_process(place, self._process.pid)
        except BaseException:
            # The process would empty its folder at its end.
            self._folder.empty()
            raise
        # The process may outlive this task, which does not wait for it. Without a thread that does,
        # it would stay a zombie after its end.
        threading.Thread(target=self._process.wait, name="akdl-reap", daemon=True).start()
        logger.info("%s: process %d serves the model", operator, self._process.pid)

    def _brought(self, model: PlacedModel) -> str:
        """Return the path of a model of `modelDir`, which is copied to this host or read in place.

        The caller holds the lock of the folder, so that the tasks of a host copy it once.
        """
        place = f"{self.folder}/brought"
        begun = time.monotonic()
        # A task that was killed while it copied has left a part.
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place, 0o700)
        try:
            path = get_model(model.name, model.model_dir, place)
        except ModelError as error:
            raise TaskError(
                f"{self._settings.operator}: host {socket.gethostname()}: {error}"
            ) from None
        logger.info(
            "%s: the model was on this host after %.1f s",
            self._settings.operator,
            time.monotonic() - begun,
        )
        return path

    def _stalled(self) -> dict[str, list[int]] | None:
        """Rows of the batches that were not computed in time, by request; None when the process
        ended otherwise.
        """
        limit_s = self._serving.infer_timeout
        operator = self._settings.operator
        try:
            with open(stalled_file(self.folder, self._pid), encoding="ascii") as file:
                found: dict[str, list[int]] = json.load(file)
        except FileNotFoundError:
            return None
        what = (
            f"the model did not finish {sum(map(len, found.values()))} rows within {limit_s:g} s"
            " (inferTimeout)"
        )
        if not self._settings.restarts:
            raise TaskError(
                f"{operator}: {what}, and its process was ended. A model of a stream is not tried"
                " again"
            )
        logger.warning("%s: %s, and are tried again in a fresh process", operator, what)
        return found

    def _result(self, call: object) -> Any:
        limit_s = self._settings.stall_timeout_s
        try:
            return result_of(
                call,
                self.folder,
                limit_s and limit_s + (_LATER_S if self._serving.infer_timeout else 0.0),
            )
        except TimeoutError:
            raise TaskError(
                f"{self._settings.operator}: the process that serves the model made no progress for"
                f" {limit_s:g} s and was killed. Was it stopped, or does its model wait for"
                " something? stallTimeout sets the limit"
            ) from None

    def _method(self, name: str, request: Any, answer: Any) -> Any:
        serialize = None if request is None else request.SerializeToString
        assert self._channel is not None
        return self._channel.unary_unary(
            f"/{PREDICT_SERVICE}/{name}",
            request_serializer=serialize,
            response_deserializer=answer.FromString,
        )

    def _log(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            text = f"{self._settings.operator}: {notice.text}"
            # A predictor with a wrong folder of models would keep its first one silently.
            if notice.level > logging.INFO:
                warn(text, notice.level)
            else:
                logger.log(notice.level, "%s", text)

    @property
    def _has_exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _lost(self, error: grpc.RpcError, where: str = "") -> str:
        operator = self._settings.operator
        how = f"{error.code().name}: {error.details()}"
        status = None
        # Only the task that has started the process gets its status.
        if self._process is not None and error.code() == grpc.StatusCode.UNAVAILABLE:
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_STATUS_S)
            # A late one was aborted by `_place_of_start`.
            if status is not None and not (where and status == -signal.SIGABRT):
                how = describe_exit(status)
        what = f"{operator}: the process that serves the model has ended ({how}){where}"
        with suppress(OSError):
            if printed := self._folder.last_lines().strip():
                if status == UNUSABLE:
                    return f"{operator}: {printed}"
                what += f"\n--- last lines of the process ---\n{printed}"
        return what


def _text(failure: Failure) -> str:
    return "\n".join(part for part in (failure.message, failure.traceback) if part)


def result_of(call: Any, folder: str, stall_timeout_s: float) -> Any:
    """Wait for an answer of a process; after `stall_timeout_s` seconds (0: no limit) without CPU it
    is killed: TimeoutError.
    """
    process = process_of(folder)
    watch = ProgressWatch(time.monotonic())
    while True:
        # gRPC does not notice a process that is stopped or hangs, so its processor time is compared
        # at each turn.
        with suppress(grpc.FutureTimeoutError):
            return call.result(timeout=LOOK_S)
        cpu_s = 0.0
        with suppress(psutil.Error):
            if process is not None:
                times = process.cpu_times()
                cpu_s = times.user + times.system
        watch.look(time.monotonic(), 0, cpu_s)
        if process is not None and stall_timeout_s and watch.idle_s > stall_timeout_s:
            kill(process)
            raise TimeoutError
