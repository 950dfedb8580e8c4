"""Folders of model processes; the processes themselves are tested in tests/serving and, with Flink,
in tests/e2e.
"""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import grpc
import psutil
import pytest
from google.protobuf import json_format

from akdl.storage.model_place import PlacedModel, get_model, named_model, put_model
from akdl.wire import Serving, TableColumn
from akdl.wire.columns import encode_columns
from bridge.exceptions import ConfigurationError, TaskError
from bridge.host.gpus import lease_for
from bridge.host.process_folder import kill_stopped, note_process
from bridge.serving.model_process import ModelProcess, ModelSettings, Request, result_of
from bridge.settings import UserFile
from tests.akdl.serving import models
from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, suspend, task_processes, wait_until
from tests.support.warm_python import warm_python

pytestmark = pytest.mark.process


@pytest.mark.fault("jobs", "A model process that ends as a task finds it is replaced")
def test_model_process_that_ends_when_it_is_found_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as base:
        monkeypatch.setattr("tempfile.tempdir", base)
        folder = pathlib.Path(base, f"akdl_models_{os.geteuid()}", "ending")
        folder.mkdir(0o700, parents=True)
        folder.parent.chmod(0o700)
        os.mkfifo(folder / "alive")
        pipe = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "model.sock"))
        listener.listen()

        def end_at_the_first_question() -> None:
            listener.settimeout(DEADLINE_S)
            connection, _ = listener.accept()
            os.close(pipe)
            listener.close()
            connection.close()

        process = threading.Thread(target=end_at_the_first_question)
        process.start()
        # The next process is started, which has no interpreter here.
        with pytest.raises(ConfigurationError, match="/no/python"):
            ModelProcess(
                ModelSettings("TestOp", "ending", "{}", "secret", python="/no/python"), "model"
            )
        process.join()


@pytest.fixture(params=[40, 47, 100, "ü", "%41"])
def temporary(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pathlib.Path]:
    """A folder for temporary files whose path has so many bytes, or ends with this."""
    models.folder()  # of all tests, so not in here
    warm_python()
    base = pathlib.Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    name = request.param
    if isinstance(name, int):
        name = "x" * (name - len(str(base)) - 1)
    folder = base / name
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield folder
    shutil.rmtree(base)


@pytest.mark.tf
@pytest.mark.fault("hosts", "A predictor works with a TMPDIR too long for a Unix socket")
def test_a_model_predicts_wherever_temporary_files_lie(temporary: pathlib.Path) -> None:
    """A unix socket's path has a limit of about 100 bytes."""
    inputs = [TableColumn(name="x", type="ARRAY<FLOAT>"), TableColumn(name="k", type="BIGINT")]
    serving = Serving(input_columns=inputs, output_columns=[TableColumn(name="p", type="DOUBLE")])
    settings = ModelSettings(
        "TFTableModelPredictBatchOp",
        "TFTableModelPredictBatchOp_0123abcd",
        json_format.MessageToJson(serving),
        "secret",
        warm_python(),
    )
    model = models.scaled(2.0)
    first = ModelProcess(settings, model)
    second = ModelProcess(settings, model)  # joins it
    rows = encode_columns({"x": [[1.0, 1.0, 1.0]], "k": [0]}, inputs).SerializeToString()
    for each in (first, second):
        assert each.predict(rows).rows.rows == 1
    first.close()
    second.close()
    wait_until(lambda: not os.listdir(os.path.dirname(first.folder)), "the process has ended")


@pytest.mark.tf
@pytest.mark.fault("jobs", "A model process that hangs fails the task and is killed")
def test_a_stopped_process_fails_the_task_and_is_gone() -> None:
    inputs = [TableColumn(name="x", type="ARRAY<FLOAT>"), TableColumn(name="k", type="BIGINT")]
    serving = Serving(input_columns=inputs, output_columns=[TableColumn(name="p", type="DOUBLE")])
    limit_s = 5.0 * SLOWER
    settings = ModelSettings(
        "TestOp", "stopped", json_format.MessageToJson(serving), "secret", stall_timeout_s=limit_s
    )
    process = ModelProcess(settings, models.scaled(2.0))
    rows = encode_columns({"x": [[1.0, 1.0, 1.0]], "k": [0]}, inputs).SerializeToString()
    assert process.predict(rows).rows.rows == 1
    (running,) = task_processes()
    suspend(running)
    with pytest.raises(
        TaskError, match=f"made no progress for {limit_s:g} s and was killed. Was it stopped"
    ):
        while True:  # one of its threads may still answer
            process.predict(rows)
    process.close()
    wait_until(lambda: not task_processes(), "the process is gone")


@pytest.mark.fault("jobs", "A function of SQL whose model stalls predicts again in a fresh process")
def test_a_stalled_model_is_tried_again(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = str(tmp_path / "seen")
    source = f"""
import os, time

def load():
    is_first = not os.path.exists({seen!r})
    open({seen!r}, "w").close()
    return lambda batch: time.sleep(600) if is_first else {{"p": batch["k"] + 0.5}}
"""
    inputs = [TableColumn(name="k", type="BIGINT")]
    serving = Serving(
        function="stalls.py:load",
        infer_timeout=1.0 * SLOWER,
        input_columns=inputs,
        output_columns=[TableColumn(name="p", type="DOUBLE")],
        model_stream_file_path=str(tmp_path / "modles"),
        model_stream_scan_interval=0.1,
    )
    files = (UserFile("stalls.py", source.encode()),)
    process = ModelProcess(
        ModelSettings(
            "TestOp", "stalls", json_format.MessageToJson(serving), "secret", user_files=files
        ),
        "",
    )
    prediction = process.predict(encode_columns({"k": [1, 2]}, inputs).SerializeToString())
    assert prediction.rows.rows == 2 and not prediction.bad_rows
    process.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("akdl: TestOp: ") and str(tmp_path / "modles") in line, (
        "a program has to see that the folder of its models does not exist"
    )
    wait_until(lambda: not task_processes(), "the process is gone")


def test_a_row_is_at_fault_after_a_call_of_its_own_alone() -> None:
    """The first call may have been shared with the request of another task."""
    request = Request(b"")
    request.note_stall([])
    assert not request.watched.is_retried, "the batch of another request took too long"
    request.note_stall([0])
    assert request.watched.is_retried and not request.watched.left_out
    request.note_stall([0])
    assert request.watched.left_out == [0]


@pytest.mark.fault(
    "jobs", "A host that cannot read the model in modelDir is an error that names the host"
)
def test_missing_placed_model_is_an_error_that_names_the_host(tmp_path: pathlib.Path) -> None:
    gone = PlacedModel(f"akdl-model-{'0' * 64}.zip", str(tmp_path))
    with pytest.raises(
        TaskError,
        match=rf"TestOp: host .*: expected the model of the table in modelDir {tmp_path}: .* no file",
    ):
        ModelProcess(ModelSettings("TestOp", "gone", "{}", "secret", warm_python()), gone)


@pytest.mark.tf
def test_a_placed_model_is_brought_once_for_all_tasks_of_a_host(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = []

    def bring(name: str, model_dir: str, folder: str) -> str:
        brought.append(os.listdir(folder))
        return get_model(name, model_dir, folder)

    monkeypatch.setattr("bridge.serving.model_process.get_model", bring)
    monkeypatch.setenv("AKDL_GPUS", f"fake{os.getpid()}")
    placed = PlacedModel(named_model(put_model(models.scaled(2.0), str(tmp_path))), str(tmp_path))
    inputs = [TableColumn(name="x", type="ARRAY<FLOAT>"), TableColumn(name="k", type="BIGINT")]
    serving = Serving(input_columns=inputs, output_columns=[TableColumn(name="p", type="DOUBLE")])
    settings = ModelSettings(
        "TestOp", "placed", json_format.MessageToJson(serving), "secret", warm_python()
    )
    tasks = [ModelProcess(settings, placed) for _ in range(2)]
    rows = encode_columns({"x": [[1.0, 1.0, 1.0]], "k": [0]}, inputs).SerializeToString()
    assert [task.predict(rows).rows.rows for task in tasks] == [1, 1]
    assert brought == [[]] and {task.description.gpus for task in tasks} == {f"fake{os.getpid()}"}
    for task in tasks:
        task.close()
    wait_until(lambda: not os.path.exists(tasks[0].folder), "the process has ended")


@pytest.mark.fault("hosts", "A model that has to wait for a GPU says at once which process has it")
def test_model_process_leases_a_gpu_or_names_its_holder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    device, python = f"fake{os.getpid()}waits", tmp_path / "python"
    monkeypatch.setenv("AKDL_GPUS", device)
    python.write_text("#!/bin/sh\necho it has $CUDA_VISIBLE_DEVICES.\nexit 1\n")
    python.chmod(0o755)

    def gpus_of(group: str, gpus: int | None, wait_s: float = 60.0) -> str:
        settings = ModelSettings(
            "TestOp", group, "{}", "secret", str(python), start_timeout_s=wait_s, gpus=gpus
        )
        with pytest.raises(TaskError) as raised:
            ModelProcess(settings, "model")
        (said,) = (line for line in str(raised.value).splitlines() if line.startswith("it has"))
        return said

    assert gpus_of("free", None) == f"it has {device}."
    assert gpus_of("unwanted", 0) == "it has ."
    holder = lease_for("Holder", 1, 0.0)
    assert gpus_of("taken", None) == "it has ."
    with pytest.raises(
        ConfigurationError,
        match=rf"TestOp: 1 GPU is wanted .* {device} \(leased by process {os.getpid()}, Holder\)",
    ):
        ModelProcess(
            ModelSettings(
                "TestOp", "late", "{}", "secret", str(python), start_timeout_s=0.0, gpus=1
            ),
            "model",
        )
    said: list[str] = []
    caplog.set_level(logging.WARNING, "bridge")
    waiting = threading.Thread(target=lambda: said.append(gpus_of("waiting", 1)))
    waiting.start()
    wait_until(
        lambda: any(
            "at most 60 s" in line and f"{os.getpid()}, Holder" in line for line in caplog.messages
        ),
        "it says so",
    )
    holder.close()
    waiting.join(2 * DEADLINE_S)
    assert said == [f"it has {device}."]


@pytest.mark.fault(
    "hosts",
    "A .pth file that blocks the Python of a model is named after startTimeout, with the place",
)
def test_pth_file_that_blocks_the_python_of_a_model_is_named(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (packages / "blocks.pth").write_text("import blocker\n")
    (packages / "blocker.py").write_text("import threading\n\nthreading.Event().wait()\n")
    limit_s = 4.0 * SLOWER
    settings = ModelSettings(
        "TestOp",
        "blocks",
        "{}",
        "secret",
        str(tmp_path / "env/bin/python"),
        start_timeout_s=limit_s,
        gpus=0,
    )
    with pytest.raises(TaskError) as caught:
        ModelProcess(settings, "model")
    said = str(caught.value).splitlines()[0]
    assert (
        f"It did not start within the {limit_s:g} s of startTimeout. It stood at File " in said
        and '/blocker.py", line 3' in said
    )
    assert said.endswith(f"this Python runs {packages}/blocks.pth: import blocker")


class Call:
    """A call that is answered after so many looks; none for never."""

    def __init__(self, looks: int | None = None) -> None:
        self.looks = looks

    def result(self, timeout: float) -> str:
        if self.looks == 0:
            return "answer"
        if self.looks is not None:
            self.looks -= 1
        raise grpc.FutureTimeoutError


@pytest.fixture
def process(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) as started:
        note_process(str(tmp_path), started.pid)
        yield started
        started.kill()


def test_a_process_without_progress_is_killed(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        result_of(Call(), str(tmp_path), 0.2)
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_a_process_that_computes_may_take_its_time(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = 0.002  # of a processor, which many others may use
    monkeypatch.setattr("bridge.member.observer.BUSY", busy)

    class SlowCall(Call):
        def result(self, timeout: float) -> str:
            used, began = psutil.Process(process.pid), time.monotonic()
            before = used.cpu_times().user

            def has_computed() -> bool:
                least_s = 0.05 + 2 * busy * (time.monotonic() - began)
                return bool(used.cpu_times().user - before > least_s)

            wait_until(has_computed, "the process computes")
            return super().result(timeout)

    assert result_of(SlowCall(looks=3), str(tmp_path), 0.001) == "answer"
    assert process.poll() is None


def test_only_a_stopped_process_is_killed_at_the_end(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    kill_stopped(str(tmp_path))
    assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    kill_stopped(str(tmp_path))
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_another_process_of_the_same_number_is_left_alone(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "process").write_text(f"{process.pid} 1.0")
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    kill_stopped(str(tmp_path))
    assert result_of(Call(looks=2), str(tmp_path), 0.001) == "answer"
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None
