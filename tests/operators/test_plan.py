"""From parameters and columns to the settings of a group, without Flink."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import TensorFlow2BatchOp
from operators.plan import counts, find_python, plan, read_files

INPUT = Schema.parse("id BIGINT, score DOUBLE")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "main.py": "def main(config): pass\n",
        "words.txt": "żółć",
        "lib/deep/helper.py": "X = 1\n",
        "lib/data.bin": "\0",
        "lib/__pycache__/helper.pyc": "",
        "other/main.py": "def main(config): return 1\n",
        "broken.py": "x = 1\ndef main(:\n",
        "odd_escape.py": "PATTERN = '\\d'\n",
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("workers", "servers", "parallelism", "expected"),
    [
        (None, None, 1, (1, 0)),
        (None, None, 2, (1, 1)),
        (None, None, 3, (2, 1)),
        (None, None, 4, (3, 1)),
        (None, None, 8, (6, 2)),
        (None, None, 103, (78, 25)),
        (1, None, 1, (1, 0)),
        (2, None, 3, (2, 1)),
        (3, None, 3, (3, 0)),
        (None, 0, 1, (1, 0)),
        (None, 1, 4, (3, 1)),
        (4, 0, 1, (4, 0)),
        (2, 3, 2, (2, 3)),
    ],
)
def test_counts(workers, servers, parallelism, expected):
    assert counts("Op", workers, servers, parallelism) == expected


@pytest.mark.parametrize(
    ("workers", "servers", "parallelism", "message"),
    [
        (2, None, 1, "Op: numWorkers=2 leaves no room in the parallelism of 1 for numPSs"),
        (None, 1, 1, "Op: numPSs=1 leaves no room in the parallelism of 1 for numWorkers"),
        (None, 4, 4, "Op: numPSs=4 leaves no room in the parallelism of 4"),
        (5, None, 4, "Op: numWorkers=5 leaves no room in the parallelism of 4"),
    ],
)
def test_counts_that_do_not_fit(workers, servers, parallelism, message):
    with pytest.raises(ConfigurationError, match=message):
        counts("Op", workers, servers, parallelism)


def test_files_and_folders_keep_their_paths(folder):
    files, main = read_files("Op", ["words.txt", "lib"], "main.py")
    assert {file.path: file.content for file in files} == {
        "words.txt": "żółć".encode(),
        "lib/data.bin": b"\0",
        "lib/deep/helper.py": b"X = 1\n",
        "main.py": b"def main(config): pass\n",
    }
    assert main == "main.py"


@pytest.mark.parametrize("main", ["main.py", "lib/../main.py", "{folder}/main.py", "file://{folder}/main.py"])
def test_the_main_script_is_found_among_the_files(folder, main):
    files, path = read_files("Op", ["main.py", "main.py"], main.format(folder=folder))
    assert [file.path for file in files] == ["main.py"] and path == "main.py"


def test_the_main_script_may_lie_in_a_folder(folder):
    files, path = read_files("Op", ["other"], "other/main.py")
    assert [file.path for file in files] == ["other/main.py"] and path == "other/main.py"


def test_content_is_read_when_the_job_is_built(folder):
    files, _ = read_files("Op", [], "main.py")
    (folder / "main.py").write_text("changed")
    assert files[0].content == b"def main(config): pass\n"


def test_two_files_with_one_name(folder):
    with pytest.raises(ConfigurationError) as raised:
        read_files("Op", ["main.py"], "other/main.py")
    assert str(raised.value) == (f"Op: two user files would both be 'main.py': {folder}/main.py and {folder}/other/main.py")


@pytest.mark.parametrize(
    ("files", "main", "message"),
    [
        (["nope.py"], "main.py", "Op: userFiles 'nope.py': there is no file {folder}/nope.py"),
        ([], "nope.py", "Op: mainScriptFile 'nope.py': there is no file {folder}/nope.py"),
        ([], "lib", "Op: mainScriptFile {folder}/lib is no file"),
        (["https://host/a.py"], "main.py", "Op: userFiles 'https://host/a.py': only local paths and file:// are supported"),
        ([], "hdfs://host/a.py", "Op: mainScriptFile 'hdfs://host/a.py': only local paths and file:// are supported"),
        ([], "broken.py", "Op: {folder}/broken.py, line 2: "),
        (["broken.py"], "main.py", "Op: {folder}/broken.py, line 2: "),
    ],
)
def test_files_that_cannot_be_used(folder, files, main, message):
    with pytest.raises(ConfigurationError) as raised:
        read_files("Op", files, main)
    assert str(raised.value).startswith(message.format(folder=folder))


def test_warnings_about_the_script_are_left_to_the_script(folder):
    assert read_files("Op", [], "odd_escape.py")[1] == "odd_escape.py"


def test_no_python_env():
    assert find_python("Op", "") is None


def test_a_python_env_is_a_folder_or_an_interpreter(tmp_path):
    (tmp_path / "bin").mkdir()
    os.symlink(sys.executable, tmp_path / "bin" / "python")
    assert find_python("Op", str(tmp_path)) == str(tmp_path / "bin" / "python")
    assert find_python("Op", f"file://{tmp_path}") == str(tmp_path / "bin" / "python")
    assert find_python("Op", sys.executable) == sys.executable


@pytest.mark.parametrize("kind", ["nope", "empty", "env.zip"])
def test_a_python_env_that_cannot_be_used(tmp_path, kind):
    (tmp_path / "empty").mkdir()
    (tmp_path / "env.zip").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="Op: pythonEnv .*: expected a folder with bin/python or an interpreter"):
        find_python("Op", str(tmp_path / kind))


def test_a_python_env_elsewhere():
    with pytest.raises(ConfigurationError, match="only a folder or an interpreter on the hosts is supported"):
        find_python("Op", "oss://bucket/env.tar.gz")


def _plan(op: TensorFlow2BatchOp, **changes: object) -> object:
    arguments = {"parallelism": 3, "env_variable": "AKDL_TEST_ENV", "print_process_info": False, **changes}
    return plan("Op", "batch", op._values_of_all(), INPUT, [], **arguments)  # type: ignore[arg-type]


def test_settings(folder):
    op = TensorFlow2BatchOp(
        userFiles=["words.txt"], mainScriptFile="main.py", userParams='{"a": 1}', outputSchemaStr="x INT",
        exactDoubles=True, intraOpParallelism=2, numWorkers=2, numPSs=0,
    )  # fmt: skip
    settings = _plan(op, print_process_info=True)
    assert (settings.operator, settings.kind) == ("Op", "batch")
    assert (settings.num_workers, settings.num_ps) == (2, 0)
    assert settings.input_schema == INPUT
    assert settings.output_schema == Schema.parse("x INT")
    assert settings.main_script == "main.py"
    assert [file.path for file in settings.user_files] == ["words.txt", "main.py"]
    assert settings.user_params == '{"a": 1}'
    assert settings.python is None
    assert settings.intra_op_parallelism == 2
    assert settings.exact_doubles and settings.print_process_info


def test_parameter_servers_follow_from_the_parallelism(folder):
    op = TensorFlow2BatchOp(userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT")
    settings = _plan(op, parallelism=8)
    assert (settings.num_workers, settings.num_ps, list(settings.fed)) == (6, 2, [0, 1, 2, 3, 4, 5])


def test_settings_of_a_group(folder):
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", numWorkers=3, numPSs=1, chiefCoordinates=True,
        equalSteps="pad", weightCol="w", hostNetwork="10.1.2.3/16", gpusPerWorker=2, startTimeout=10, stallTimeout=0,
    )  # fmt: skip
    settings = _plan(op)
    assert (list(settings.fed), list(settings.deciding), settings.size) == ([1, 2], [0], 4)
    assert (settings.equal_steps, settings.weight_column, settings.script_schema.names[-1]) == ("pad", "w", "w")
    assert (settings.host_network, settings.gpus_per_worker) == ("10.1.0.0/16", 2)
    assert (settings.start_timeout_s, settings.stall_timeout_s) == (10.0, 0.0)
    assert settings.token not in repr(settings)


@pytest.mark.parametrize("workers, servers", [(1, 1), (2, 0)])
def test_a_coordinating_chief_needs_somebody_to_coordinate(folder, workers, servers):
    op = TensorFlow2BatchOp(
        userFiles=[],
        mainScriptFile="main.py",
        outputSchemaStr="x INT",
        numWorkers=workers,
        numPSs=servers,
        chiefCoordinates=True,
    )
    with pytest.raises(ConfigurationError, match=f"chiefCoordinates needs .*; there would be {workers} and {servers}"):
        _plan(op)


def test_a_weight_column_of_the_table_has_to_be_a_float(folder):
    name = INPUT.names[0]
    op = TensorFlow2BatchOp(
        userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", numPSs=0, equalSteps="pad", weightCol=name
    )
    with pytest.raises(ConfigurationError, match=f"weightCol '{name}' is a column of the table and would have to be a FLOAT"):
        _plan(op)
    assert _plan(op.setEqualSteps("repeat")).weight_column is None, "it matters for pad only"


def test_the_environment_variable_is_the_default_of_python_env(folder, monkeypatch):
    op = TensorFlow2BatchOp(userFiles=[], mainScriptFile="main.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0)
    monkeypatch.setenv("AKDL_TEST_ENV", sys.executable)
    assert _plan(op).python == sys.executable
    with pytest.raises(ConfigurationError, match="'/nowhere'"):
        _plan(op.setPythonEnv("/nowhere"))


def test_relative_paths_are_those_of_the_moment(folder, monkeypatch):
    monkeypatch.chdir(pathlib.Path(folder, "other"))
    files, _ = read_files("Op", [], "main.py")
    assert files[0].content == b"def main(config): return 1\n"
