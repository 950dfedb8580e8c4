"""Paths with the characters that globs, addresses, shells, format strings and SQL read: they work,
or are refused beforehand.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from pyflink.table import StreamTableEnvironment

from akdl.storage.archive import unpack_archive
from akdl.storage.files import fetch
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import (
    AkSinkBatchOp,
    AkSourceBatchOp,
    BatchOperator,
    CsvSinkBatchOp,
    CsvSourceBatchOp,
    KerasSequentialRegressorTrainBatchOp,
    TableSourceBatchOp,
    TF2TableModelTrainBatchOp,
)
from operators.prepare.model_file import packed_model
from operators.prepare.plan import plan
from operators.prepare.python_env import find_python

# A name for each reader of such characters.
NAMES = {
    "glob": "run[1]",
    "star": "run*",
    "question": "run?",
    "backslash": "run\\1",
    "braces": "{run,1}",
    "shell": "$HOME ~ `id` ; a & b | c > d (e) !f",
    "quotes": 'it\'s "run"',
    "address": "a%20b #x=1 ;x=1 @host:80 +1",
    "format": "%s %(x)d {0} %",
    "text": "übung 中文 \u00a0",
    "list": "a,b:c=d",
}
# Two names for all kinds of readers, one that is no pattern and one that is: each file of the job
# costs as much as a small job.
TOGETHER = [
    NAMES["shell"]
    + NAMES["quotes"]
    + " %s {0} % a%20b,c:d=e #x=1 ;x=1 @host:80 +1 "
    + NAMES["text"],
    "run[1]*?\\1{run,1} %20",
]
PATTERNS = {"glob", "star", "question", "backslash"}


@pytest.fixture(params=NAMES)
def odd(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / NAMES[request.param]
    folder.mkdir()
    return folder


def planned(folder: pathlib.Path, **values: Any) -> Any:
    (folder / "main.py").write_text("def main(task_config): pass")
    (folder / "words.txt").write_text("a")
    return plan_of(
        TF2TableModelTrainBatchOp(
            userFiles=[str(folder / "words.txt")], mainScriptFile=str(folder / "main.py"), **values
        )
    )


def plan_of(op: Any) -> Any:
    schema = Schema.parse("x DOUBLE")
    return plan(
        "Op",
        "train",
        op._values_of_all(),
        schema,
        [],
        1,
        env_variable="AKDL_TEST_ENV",
        print_process_info=False,
    )


def test_user_files_in_odd_folders_are_found(odd: pathlib.Path) -> None:
    settings = planned(odd)
    assert {file.path: file.content for file in settings.user_files}[
        "words.txt"
    ] == b"a" and settings.main_script == "main.py"


def test_user_files_of_odd_folders_keep_their_paths(odd: pathlib.Path) -> None:
    (odd / "main.py").write_text("def main(task_config): pass")
    op = TF2TableModelTrainBatchOp(userFiles=[str(odd)], mainScriptFile=f"{odd.name}/main.py")
    settings = plan(
        "Op", "train", op._values_of_all(), Schema.parse("x INT"), [], 1, "AKDL_TEST_ENV", False
    )
    assert settings.main_script == f"{odd.name}/main.py"


def test_python_env_in_an_odd_folder_is_found(odd: pathlib.Path) -> None:
    (odd / "bin").mkdir()
    (odd / "bin" / "python").symlink_to(sys.executable)
    assert (
        find_python("Op", str(odd))
        == find_python("Op", f"file://{odd}")
        == str(odd / "bin" / "python")
    )


@pytest.mark.parametrize("parameter", ["checkpointDir", "logDir", "modelDir"])
@pytest.mark.fault(
    "data", "A path with characters of globs or addresses works, or the error names the character"
)
def test_folders_of_hosts_with_odd_names_work_or_are_refused(
    odd: pathlib.Path, request: pytest.FixtureRequest, parameter: str
) -> None:
    attribute = {"checkpointDir": "checkpoint_dir", "logDir": "log_dir", "modelDir": "model_dir"}[
        parameter
    ]
    if parameter == "checkpointDir" and request.node.callspec.params["odd"] in PATTERNS:
        with pytest.raises(
            ConfigurationError,
            match=r"Op: parameter 'checkpointDir': .*TensorFlow reads .* as a pattern",
        ):
            planned(odd, **{parameter: str(odd)})
    else:
        assert getattr(planned(odd, **{parameter: str(odd)}), attribute) == str(odd)


@pytest.mark.parametrize("parameter", ["checkpointDir", "modelDir"])
def test_addresses_with_odd_names_work_or_are_refused(
    odd: pathlib.Path, request: pytest.FixtureRequest, parameter: str
) -> None:
    address = f"memory://bucket/{odd.name}"
    if request.node.callspec.params["odd"] in ("glob", "star"):
        with pytest.raises(
            ConfigurationError, match=f"Op: parameter '{parameter}': .*fsspec reads .* as a pattern"
        ):
            planned(odd, **{parameter: address})
    else:
        planned(odd, **{parameter: address})


def test_checkpoint_path_with_patterns_is_refused(
    odd: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    op = KerasSequentialRegressorTrainBatchOp(
        layers=["Dense(1)"], tensorCol="x", labelCol="y", checkpointFilePath=str(odd)
    )
    if request.node.callspec.params["odd"] in PATTERNS:
        with pytest.raises(
            ConfigurationError,
            match="Op: parameter 'checkpointFilePath': .*TensorFlow reads .* as a pattern",
        ):
            plan_of(op)
    else:
        assert plan_of(op).checkpoint_dir == str(odd)


@pytest.mark.parametrize("address", [str, lambda path: f"file://{path}"], ids=["path", "file"])
def test_models_in_odd_folders_are_packed(
    odd: pathlib.Path, tmp_path: pathlib.Path, address: Callable[[Any], str]
) -> None:
    model = odd / "model"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"graph")
    for path in (str(model), shutil.make_archive(str(odd / "packed"), "zip", model)):
        unpacked = tmp_path / "unpacked"
        with open(packed_model("here", address(path)), "rb") as file:
            unpack_archive(file, str(unpacked))
        assert (unpacked / "saved_model.pb").read_bytes() == b"graph"
        shutil.rmtree(unpacked)
    assert os.path.samefile(
        fetch(address(model / "saved_model.pb"), str(tmp_path)), model / "saved_model.pb"
    )


@pytest.mark.flink
def test_sources_and_sinks_work_in_odd_folders(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp, tmp_path: pathlib.Path
) -> None:
    """One job writes all kinds, and one reads them; file:// too."""
    schema = "id INT, name STRING, score DECIMAL(2, 1)"
    for name in TOGETHER:
        people.link(CsvSinkBatchOp(filePath=str(tmp_path / name / "csv" / f"{name}.csv")))
        people.link(AkSinkBatchOp(filePath=f"file://{quote(str(tmp_path / name / name))}.ak"))
    BatchOperator.execute()
    found: dict[str, list[int]] = {}

    def read(source: BatchOperator, path: str) -> None:
        source.lazyCollectToDataframe(lambda frame: found.update({path: sorted(frame["id"])}))

    for name in TOGETHER:
        csv, ak = tmp_path / name / "csv" / f"{name}.csv", str(tmp_path / name / f"{name}.ak")
        for path in (str(csv), f"file://{csv}", str(csv.parent)):
            read(CsvSourceBatchOp(filePath=path, schemaStr=schema), path)
        read(AkSourceBatchOp(filePath=ak), ak)
    BatchOperator.execute()
    assert (
        len(found) == 4 * len(TOGETHER)
        and {path: ids for path, ids in found.items() if ids != [1, 2, 3]} == {}
    )
