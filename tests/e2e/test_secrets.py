"""Passwords that a job is given stay with its process: nothing that others can look at shows them.

On a cluster: tests/e2e/test_cluster.py. The one place that hides them: tests/akdl/test_masking.py.
"""

from __future__ import annotations

import json
import logging
import pathlib
import re
import socket
import threading
from typing import Any

import psutil
import pyarrow as pa
import pytest

from akdl.storage.files import FileError
from bridge.exceptions import BridgeError
from bridge.files.publishing import FileSink, check_target
from bridge.schema import Schema
from bridge.serving.resumption import Resumption
from operators import (
    AkSourceBatchOp,
    BatchOperator,
    CsvSinkBatchOp,
    CsvSourceBatchOp,
    LocalPredictor,
    Pipeline,
    PipelineModel,
    TensorFlow2BatchOp,
    TFSavedModelPredictor,
    TFTableModelPredictStreamOp,
    getMLEnv,
    useLocalEnv,
)
from operators.params.prediction_settings import serving_of
from operators.predict_stream import TFSavedModelPredictStreamOp
from operators.prepare.model_file import packed_model
from operators.prepare.python_env import find_python
from operators.prepare.user_files import read_files
from operators.progress.record import Recorder
from operators.tools.doctor import environments
from tests.e2e.jobs import sequence
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.secret_values import ADDRESSES, SECRET, TREES, leaks

SCRIPT = """
import os, pathlib, time

def main(config):
    assert os.environ["DB_PASSWORD"] == "{secret}" and config.user_params["password"] == "{secret}"
    assert config.checkpoint_dir == "s3://me:{secret}@bucket/models"
    pathlib.Path("{folder}/begun").touch()
    while not os.path.exists("{folder}/seen"):
        time.sleep(0.05)
    raise ValueError("it fails")
"""


def command_lines() -> str:
    """Return the command lines of this program and of all that it has started."""
    found = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(found)


def descriptions(**params: Any) -> str:
    """Return what prompts and notebooks show of an operator, a stage and a pipeline with
    parameters.
    """
    op = TensorFlow2BatchOp(mainScriptFile="a.py", **params)
    path = next((value for value in params.values() if isinstance(value, str)), "m.zip")
    stages = Pipeline(TFSavedModelPredictor(modelPath=path, outputSchemaStr="y FLOAT"))
    return "\n".join(
        text for each in (op, stages, *stages._stages) for text in (repr(each), each._repr_html_())
    )


def errors_of(*attempts: Any) -> list[str]:
    """Return the errors that calls raise; each has to raise one."""
    found = []
    for attempt in attempts:
        try:
            attempt()
        except (BridgeError, FileError) as error:
            found.append(f"{error!r} {error} {error.__cause__!r}")
    assert len(found) == len(attempts), found
    return found


def no_network(*arguments: object, **named: object) -> None:
    """Stands for a resolver that knows no host, which takes a tenth of a second to say so."""
    raise socket.gaierror(-2, "Name or service not known")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.fault("security", "Errors, logs and pages leave out secrets of addresses")
def test_an_address_shows_its_secrets_nowhere(
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: pathlib.Path,
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", no_network)
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", address)
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.DEBUG):
        shown = descriptions(
            userFiles=[address], checkpointDir=address, logDir=address, pythonEnv=address
        )
        CsvSinkBatchOp(filePath=address)
        watching = TFSavedModelPredictStreamOp(
            modelPath="m", outputSchemaStr="y FLOAT", modelStreamFilePath=address
        )
        errors = errors_of(
            lambda: PipelineModel.load(address),
            lambda: LocalPredictor(address, "a FLOAT"),
            lambda: packed_model("Op: modelFilePath", address),
            lambda: find_python("Op", address),
            lambda: read_files("Op", [address], "main.py"),
            lambda: AkSourceBatchOp(filePath=address)._make(None),  # type: ignore[arg-type]
            lambda: CsvSourceBatchOp(filePath=[address]),
            lambda: TensorFlow2BatchOp(checkpointDir={"at": address}),
            lambda: check_target(FileSink("Op", address, "csv", "", pa.schema([])), False),
            lambda: serving_of(watching, Schema.parse("a FLOAT")),
            lambda: Resumption("Op", address, Schema.parse("id BIGINT, y FLOAT"), "").split(
                None, None, [], ""
            ),  # type: ignore[arg-type]
        )
        recorder = Recorder(address, "op", "group_1", 1)
        recorder.end(failed=False)
        doctor = "\n".join(map(str, environments()))
    # Packages of storages write requests into their logs at DEBUG; who turns that on has asked for
    # them.
    ours = re.compile(r"(akdl|bridge|operators)\b")
    log = [
        each.getMessage()
        for each in caplog.records
        if each.levelno > logging.DEBUG or ours.match(each.name)
    ]
    places = {
        "descriptions": shown,
        "errors": "\n".join(errors),
        "log": "\n".join(log),
        "doctor": doctor,
    }
    assert "cannot write a record to logDir" in caplog.text
    assert {place: leaks(text) for place, text in places.items() if leaks(text)} == {}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.fault("security", "Errors, logs and pages leave out secrets in userParams")
def test_parameters_show_their_secrets_nowhere(tree: dict[str, Any]) -> None:
    shown = descriptions(userParams=tree) + descriptions(userParams=json.dumps(tree))
    errors = errors_of(
        lambda: TensorFlow2BatchOp(userParams=[tree]),
        lambda: TensorFlow2BatchOp(userParams={**tree, "not JSON": {1, 2}}),
        lambda: TFTableModelPredictStreamOp(defaults=[tree]),
        lambda: useLocalEnv(1, config={key: [value] for key, value in tree.items()}),
    )
    assert not leaks(shown) and not leaks("\n".join(errors))


@pytest.mark.flink
@pytest.mark.fault("security", "The error of a failed job shows no secrets")
def test_secrets_of_a_job_that_fails_show_nowhere(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    useLocalEnv(1)
    script = tmp_path / "main.py"
    script.write_text(SCRIPT.replace("{folder}", str(tmp_path)).replace("{secret}", SECRET))
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="x INT", numWorkers=1, numPSs=0,
        envVars=[f"DB_PASSWORD={SECRET}"], checkpointDir=f"s3://me:{SECRET}@bucket/models", logDir=str(tmp_path / "runs"),
        userParams={"password": SECRET, "trees": TREES},
    )  # fmt: skip
    result = sequence(getMLEnv().btenv, 10).link(op)
    errors: list[str] = []

    def run() -> None:
        try:
            BatchOperator.collectToDataframe(result)
        except Exception as error:
            errors.append(f"{error!r} {error.__cause__!r}")

    with caplog.at_level(logging.DEBUG):
        job = threading.Thread(target=run)
        job.start()
        wait_until(
            lambda: (tmp_path / "begun").exists() or not job.is_alive(),
            "the script runs",
            4 * DEADLINE_S,
        )
        commands = command_lines()
        (tmp_path / "seen").touch()
        job.join()
    assert "it fails" in errors[0] and "akdl.entry" in commands
    (record,) = (path.read_text() for path in (tmp_path / "runs").glob("*.jsonl"))
    out, err = capfd.readouterr()
    assert "ended early" in err, "the progress is shown"
    shown = {
        "errors": errors[0], "log": caplog.text, "command lines": commands, "plan": result.getOutputTable().explain(),
        "description": repr(op), "page": op._repr_html_(), "record": record, "progress": out + err,
    }  # fmt: skip
    assert {place: leaks(text) for place, text in shown.items() if leaks(text)} == {}
