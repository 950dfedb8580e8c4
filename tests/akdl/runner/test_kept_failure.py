"""The file that a failed script leaves: what is in it, and what is left out."""

from __future__ import annotations

import json
import pathlib
import random
import tarfile
from typing import Any

import numpy as np
import pytest

from akdl.rows.file_rows import FileRows
from akdl.runner import kept_failure
from akdl.runner.kept_failure import chunks_in, keep_failure, seed_python
from akdl.testing import arrived_rows, encode_rows, table_columns
from akdl.wire import Cluster, ExtraInput, Failure, Task

TYPES = {"id": "BIGINT"}
CLUSTER = Cluster(tf_config=json.dumps({"cluster": {}, "task": {"type": "worker", "index": 3}}))


@pytest.fixture
def work(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "work"
    for name in (".akdl/lib", "data", "savedmodel"):
        (folder / name).mkdir(parents=True)
    for name in (
        "script.py",
        "data/words.txt",
        "savedmodel/variables",
        ".akdl-lock",
        ".akdl/bridge.sock",
        ".akdl/extra-1.tfrecords",
    ):
        (folder / name).write_text("x" * 10)
    (folder / "large.bin").write_bytes(bytes(1000))
    (folder / "linked.py").symlink_to(folder / "script.py")
    return folder


@pytest.fixture
def rows(tmp_path: pathlib.Path) -> FileRows:
    (tmp_path / "rows").mkdir()
    rows = arrived_rows(
        encode_rows({"id": [1, 2, 3]}, TYPES), table_columns(TYPES), str(tmp_path / "rows")
    )
    assert len(list(rows.columns())) == 1
    return rows


def kept(folder: pathlib.Path, work: pathlib.Path, rows: FileRows, **changes: Any) -> str:
    task = Task(**{
        "operator": "Op", "work_dir": str(work), "main_script": str(work / "script.py"), "user_params": "{}",
        "log_dir": str(folder), "checkpoint_dir": "s3://bucket/of/the/job", "model_dir": "s3://bucket/model", "extra_inputs": [ExtraInput()], **changes,
    })  # fmt: skip
    failure = Failure(type="OSError", message=f"{work}/script.py: http://me:hidden@host/")
    return keep_failure(
        str(folder), task, CLUSTER, 2, rows, {"PATH": "/bin", "TMPDIR": "/tmp"}, failure
    )


def test_kept_failure_has_files_rows_and_task_without_secrets(
    tmp_path: pathlib.Path, work: pathlib.Path, rows: FileRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_failure, "FILES_BYTES", 500)
    path = tmp_path / "runs" / "failure-worker-3-2.tar"
    assert kept(tmp_path / "runs", work, rows) == f"Replay it with: akdl replay --pdb {path}"
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == [
            ".akdl/extra-1.tfrecords", ".akdl/failure.json", ".akdl/rows", "data", "data/words.txt", "script.py",
        ]  # fmt: skip
        archive.extractall(tmp_path / "kept", filter="data")
    description = json.loads((tmp_path / "kept/.akdl/failure.json").read_text())
    assert (description["left_out"], description["environment"]) == (
        ["large.bin"],
        {"PATH": "/bin"},
    )
    assert description["failure"] == ["OSError", "/script.py: http://host/"]
    task = description["task"]
    assert (task["main_script"], task["checkpoint_dir"]) == ("script.py", "checkpoints")
    assert not {"work_dir", "log_dir", "model_dir"} & set(task)
    chunk, end = chunks_in(str(tmp_path / "kept/.akdl/rows"))
    assert (chunk.rows, end.end.rows, description["first_row"]) == (3, 3, 0)


def test_a_file_that_cannot_be_written_is_said_in_the_error(
    tmp_path: pathlib.Path, work: pathlib.Path, rows: FileRows
) -> None:
    (tmp_path / "file").touch()
    assert kept(tmp_path / "file", work, rows).startswith(
        "Its rows could not be kept in logDir: FileExistsError: "
    )


def test_names_with_blanks_are_quoted_for_the_shell(
    tmp_path: pathlib.Path, work: pathlib.Path, rows: FileRows
) -> None:
    assert kept(tmp_path / "my runs", work, rows).endswith(
        f" '{tmp_path}/my runs/failure-worker-3-2.tar'"
    )


def test_seeds_come_from_the_environment() -> None:
    def drawn(environment: dict[str, str]) -> list[float]:
        seed_python(environment)
        return [random.random(), np.random.random()]

    assert (
        drawn({"PYTHONHASHSEED": "7"})
        == drawn({"PYTHONHASHSEED": "7"})
        != drawn({"PYTHONHASHSEED": "8"})
    )
    assert drawn({}) != drawn({})
