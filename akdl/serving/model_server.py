"""`python -m akdl.serving.model_server`: a process that holds one model and predicts for all Flink
tasks on its host.

It listens at once and loads the model afterwards; a call of `Describe` waits for the model, or
returns the reason for its failure. It ends with status 0 on SIGTERM and when the parent closes its
end of the pipe or dies.

Another model can take over: one that appears in a watched folder, or one named by a client. Notices
report the outcome; they travel with the next prediction, for the log of the job.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from concurrent import futures
from typing import Any, Callable

import grpc
from google.protobuf import json_format

from akdl.process.parent import exit_with_parent, take_settings
from akdl.serving.loaded_model import ServingError
from akdl.serving.model import BATCH_ROWS, CALL, BatchWatch, WatchedCall
from akdl.serving.model_store import ModelStore
from akdl.serving.output_cells import result_columns
from akdl.serving.shared_calls import SharedCalls
from akdl.storage.files import version_of
from akdl.storage.local_files import WholeFile
from akdl.storage.locked_folder import remove_unused
from akdl.storage.model_forms import ModelError, kind_at
from akdl.tf_version import import_tensorflow
from akdl.user_code.failure import failure_of
from akdl.wire import (
    BadRow,
    Description,
    Empty,
    Failure,
    Notice,
    Notices,
    Offer,
    Prediction,
    Rows,
    Serving,
)
from akdl.wire.columns import decode_columns, fill_rows
from akdl.wire.service import ADDRESS_FILE, PREDICT_SERVICE
from akdl.wire.token import guarded_server

logger = logging.getLogger(__name__)

Behaviour = Callable[[Any, grpc.ServicerContext], Any]

# Threads of gRPC, which decode and encode the rows. TensorFlow computes in threads of its own.
_CALLS_AT_ONCE = 16
# A request with more bytes would cost more for its copy than it gains by a shared call.
_SHARED_BYTES = 1 << 20
# Seconds until a waiting call notices that its client has gone.
_LOOK_AGAIN_S = 0.5
# Notices queued for the next prediction. Without a bound they would grow while no client predicts.
_MOST_NOTICES = 100


class ModelServer:
    """Serves the calls of all tasks of a host with one store of models.

    It listens from its start on. `load` fills it, and every call waits for that. A free port of
    "127.0.0.1:0" is written to `work_dir`, which is removed at the end. A task that is about to
    connect, or to start a server, holds the lock of that folder, so the folder does not disappear
    under it.
    """

    def __init__(
        self, serving: Serving, address: str, token: str, work_dir: str | None = None
    ) -> None:
        self._serving = serving
        self._watch = BatchWatch(serving.infer_timeout, work_dir or ".")
        self._work_dir = work_dir
        self._ready = threading.Event()
        self._store: ModelStore | None = None
        self._notices: list[Notice] = []
        self._notices_lock = threading.Lock()
        self._description = Description()
        self._socket = address[len("unix:") :] if address.startswith("unix:") else None
        calls = futures.ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="akdl-predict")
        self._server = guarded_server(calls, token, "this process has no token for this model")
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(PREDICT_SERVICE, self._handlers()),)
        )
        port = self._server.add_insecure_port(address)
        if not port:
            raise ServingError(f"cannot listen on {address}")
        self._server.start()
        if self._socket is None and work_dir is not None:
            with WholeFile(os.path.join(work_dir, ADDRESS_FILE)) as file:
                file.write(f"{address.rsplit(':', 1)[0]}:{port}".encode("ascii"))

    def load(self) -> None:
        """Load the model, and release the calls that wait for it. An error becomes their answer.

        The process does not end with an error, because each task has to receive its text.
        """
        started = time.monotonic()
        try:
            # TensorFlow is imported by akdl for SavedModels only, so that its objects are left out
            # of garbage collection. Models of other kinds need not have it installed.
            if not (self._serving.function or kind_at(self._serving.model)):
                # A folder of models, one for each key, may have other kinds, which do without
                # TensorFlow.
                with contextlib.suppress(ImportError):
                    import_tensorflow()
            self._load()
        # Any error has to reach the clients, which wait for this model.
        except Exception as error:
            self._description = Description(failure=_failure(error))
            logger.error("the model cannot be served: %s", error)
        self._description.load_s = time.monotonic() - started
        # Also after a failure, so that waiting calls get the reason as their answer.
        self._ready.set()

    def wait(self) -> None:
        self._server.wait_for_termination()

    def clean_up(self) -> None:
        """Remove the files of this process. Called before it ends, by whichever thread ends it.

        The folder is removed last and after a wait: a task that holds its lock may be starting the
        next server in it.
        """
        if self._store is not None:
            self._store.remove_files()
        if self._socket is not None and os.path.exists(self._socket):
            os.remove(self._socket)
        if self._work_dir is not None:
            remove_unused(self._work_dir, waits=True)

    def _load(self) -> None:
        serving = self._serving
        self._description = Description(gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        # An alias may move while its model is loaded, so the version is chosen once.
        serving.model = version_of(serving.model)
        self._store = store = ModelStore(serving, self._report, self._watch)
        # With `cellsHoldBatches`, each row is a call of its own.
        is_single = serving.cells_hold_batches
        self._most_rows = 0 if is_single else serving.infer_batch_size or BATCH_ROWS
        self._calls = SharedCalls(store.predict, self._most_rows, _CALLS_AT_ONCE)

    def _report(self, level: int, text: str) -> None:
        logger.log(level, "%s", text)
        with self._notices_lock:
            # The newest notices stay, because they say which model is in use.
            self._notices = [*self._notices, Notice(level=level, text=text)][-_MOST_NOTICES:]

    def _pop_notices(self) -> list[Notice]:
        with self._notices_lock:
            notices, self._notices = self._notices, []
        return notices

    def _handlers(self) -> Any:
        behaviours: dict[str, tuple[Behaviour, Any]] = {
            "Describe": (lambda _, context: self._description, Empty),
            "Predict": (self._predict, Rows),
            "Replace": (self._replace, Offer),
        }
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(behaviour),
                request.FromString,
                lambda message: message.SerializeToString(),
            )
            for name, (behaviour, request) in behaviours.items()
        }

    def _guarded(self, behaviour: Behaviour) -> Callable[[Any, Any], Any]:
        """Let a call wait until the model is loaded, or its client has gone.

        A call without client would otherwise occupy one of the few threads during a long load.
        """

        def call(request: Any, context: Any) -> Any:
            while not self._ready.wait(_LOOK_AGAIN_S):
                if not context.is_active():
                    context.abort(grpc.StatusCode.CANCELLED, "the client has gone")
            return behaviour(request, context)

        return call

    def _predict(self, rows: Rows, context: grpc.ServicerContext) -> Prediction:
        if self._store is None:
            return Prediction(failure=self._description.failure)
        try:
            columns = decode_columns(rows, self._serving.input_columns)
            call = WatchedCall(*json.loads(dict(context.invocation_metadata()).get(CALL, "[]")))
            # Two larger requests would not fit into a batch, so each is computed at once, side by
            # side with the others.
            if (
                rows.rows <= min(self._most_rows // 2, BATCH_ROWS)
                and rows.ByteSize() < _SHARED_BYTES
                and not call.is_retried
            ):
                results, bad, served_by = self._calls.predict(columns, rows.rows, call.name)
            else:
                results, bad, served_by = self._store.predict(columns, rows.rows, call)
            bad_rows = [BadRow(row=row, message=message) for row, message in bad]
            number, kind, device = served_by
            prediction = Prediction(bad_rows=bad_rows, model=number, kind=kind, device=device)
            fill_rows(prediction.rows, results, result_columns(self._serving))
            # The list is read without the lock first, because nearly all predictions find it empty.
            if self._notices:
                prediction.notices.extend(self._pop_notices())
            return prediction
        # The client decides how to handle it. An exception that left this function would reach it
        # as an unknown error of gRPC.
        except Exception as error:
            return Prediction(failure=_failure(error))

    def _replace(self, offer: Offer, context: grpc.ServicerContext) -> Notices:
        assert self._store is not None
        try:
            self._store.offer(offer.model, offer.name)
        except Exception as error:  # after any error, the model in use stays
            self._report(logging.ERROR, f"the model {offer.name} is refused: {error}")
        return Notices(notices=self._pop_notices())


def main() -> int:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    # TensorFlow otherwise allocates all memory of the GPU, which other processes of the host may
    # share.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    settings = take_settings(os.environ)
    # Python caches the folder with this call. After the parent's end the folder is gone, and Python
    # would choose /tmp.
    tempfile.gettempdir()
    # The settings are in a file, because with 2,500 columns they are longer than a variable may be.
    with open(settings["AKDL_SERVING"], encoding="utf-8") as file:
        serving = json_format.Parse(file.read(), Serving())
    os.remove(settings["AKDL_SERVING"])
    server = ModelServer(
        serving, settings["AKDL_ADDRESS"], settings["AKDL_TOKEN"], settings.get("AKDL_WORK_DIR")
    )
    # The pipe is watched from before the model is loaded, which may take minutes.
    exit_with_parent(int(settings["AKDL_PARENT_FD"]), server.clean_up, 0)

    # os._exit, because threads inside TensorFlow may never return to the interpreter.
    def terminate(number: int, frame: object) -> None:
        server.clean_up()
        os._exit(0)

    signal.signal(signal.SIGTERM, terminate)
    server.load()
    server.wait()
    return 0


def _failure(error: Exception) -> Failure:
    """Convert an error to data; errors that say what to change need no traceback."""
    failure = failure_of(error)
    if isinstance(error, (ServingError, ModelError)):
        failure.traceback = ""
    return failure


if __name__ == "__main__":
    sys.exit(main())
