"""What `pythonEnv` may name."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile
from contextlib import nullcontext

import pytest

from akdl.process import preflight
from bridge.exceptions import ConfigurationError
from bridge.settings import PythonArchive
from operators.prepare.python_env import check_python, find_python
from tests.support.environments import make_environment, pack
from tests.support.http import served

pytestmark = pytest.mark.estimator


def test_empty_python_env_names_no_environment() -> None:
    assert find_python("Op", "") is None


def test_folders_and_interpreters_are_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bin").mkdir()
    os.symlink(sys.executable, tmp_path / "bin" / "python")
    assert find_python("Op", str(tmp_path)) == str(tmp_path / "bin" / "python")
    assert find_python("Op", f"file://{tmp_path}") == str(tmp_path / "bin" / "python")
    assert find_python("Op", sys.executable) == sys.executable


def test_tar_file_that_ends_with_a_zip_file_is_taken_for_an_environment(
    tmp_path: pathlib.Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "last.zip", "w") as inner:
        inner.writestr("inside", "x")
    with tarfile.open(tmp_path / "env.tgz", "w") as archive:
        archive.add(tmp_path / "last.zip", "env/lib/last.zip")
    assert isinstance(find_python("Op", str(tmp_path / "env.tgz")), PythonArchive)


@pytest.mark.parametrize("name", ["env.zip", "env.tar.gz", "env.tgz"])
def test_archive_is_copied_and_known_by_its_checksum(tmp_path: pathlib.Path, name: str) -> None:
    path = pack(make_environment(tmp_path / "env"), str(tmp_path / name))
    content = pathlib.Path(path).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    with served(files={"/get": content, f"/{name}": content}) as site:
        addresses = [
            path,
            f"file://{path}",
            f"{site.url}/{name}?token=secret",
            f"{site.url}/get#sha256={sha256}",
        ]
        found = [find_python("Op", address) for address in addresses]
    assert [archive.origin for archive in found] == [
        path,
        f"file://{path}",
        f"{site.url}/{name}?...",
        f"{site.url}/get",
    ]
    for archive in found:
        assert isinstance(archive, PythonArchive) and archive.sha256 == sha256
        assert pathlib.Path(archive.path).read_bytes() == content and "." not in os.path.basename(
            archive.path
        )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "nope",
            "expected a folder with bin/python, an interpreter, an archive of a folder .*; .*/nope is not a file$",
        ),
        ("nope.zip", "expected a folder with bin/python.*nope.zip is not a file$"),
        ("empty", "has no bin/python$"),
        ("text", "/text is not executable$"),
        ("text.zip", "^Op: pythonEnv: .*text.zip: it is damaged, or neither a zip nor a tar file$"),
        (
            "other.zip",
            "^Op: pythonEnv: .*other.zip: expected bin/python at its root or in its one folder",
        ),
        (
            "damaged.zip",
            "^Op: pythonEnv: .*damaged.zip: it is damaged: Bad magic number for central directory$",
        ),
        (
            "memory://akdl-nothing/env.zip",
            "^Op: pythonEnv: memory://akdl-nothing/env.zip: there is no such file$",
        ),
    ],
)
def test_paths_without_an_environment_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("text", "text.zip"):
        (tmp_path / name).write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("")
    pack(tmp_path / "folder", "other.zip")
    (tmp_path / "damaged.zip").write_bytes(
        (tmp_path / "other.zip").read_bytes().replace(b"PK\1\2", b"XX\1\2")
    )
    with pytest.raises(ConfigurationError, match=message):
        find_python("Op", kind)


def test_failed_download_of_an_environment_names_the_address(tmp_path: pathlib.Path) -> None:
    with served(status={"/env.zip": 404}) as site:
        with pytest.raises(
            ConfigurationError,
            match=r"^Op: pythonEnv: http://[0-9.:]+/env.zip: HTTP 404: it has no such file$",
        ):
            find_python("Op", f"{site.url}/env.zip")


def test_paths_of_other_hosts_are_not_checked_unless_they_exist(tmp_path: pathlib.Path) -> None:
    assert find_python("Op", "/on/the/hosts", elsewhere=True) == "/on/the/hosts"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="has no bin/python"):
        find_python("Op", str(tmp_path / "empty"), elsewhere=True)


@pytest.mark.process
def test_packages_that_scripts_need_are_checked_before_a_job_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_python("Op", None)
    check_python("Op", sys.executable)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True
    )
    bare = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(
        ConfigurationError,
        match=rf"^Op: the Python environment of {bare} cannot be used: .*numpy is missing",
    ):
        check_python("Op", bare)
    found = preflight.versions()
    monkeypatch.setattr(preflight, "versions", lambda: {**found, "tensorflow": "1.14.0"})
    message = r"^Op: .*: tensorflow 1.14.0 is too old; install what it needs \(.*tensorflow>=1.15"
    with pytest.raises(ConfigurationError, match=message):
        check_python("Op", None)
    del found["tensorflow"]
    monkeypatch.setattr(preflight, "versions", lambda: found)
    check_python("Op", None)  # a script may do without


@pytest.mark.process
@pytest.mark.parametrize("version", ["2.16.2", "2.15.1", "1.15.5", "(version unknown)"])
def test_an_estimator_is_refused_before_a_job_starts_where_there_is_none(
    version: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho Python 3.12.1, tensorflow '{version}', numpy 2.1.3\n")
    python.chmod(0o755)
    found = preflight.versions()
    monkeypatch.setattr(
        preflight, "versions", lambda: {**found, "tensorflow": version if version[0] != "(" else ""}
    )
    for named, path in ((str(python), python), (None, sys.executable)):
        check_python("Op", named)
        message = f'^Op: s.py needs tf.estimator, which TensorFlow {version} of {path} does not have: .*pythonEnv="tensorflow==2.15.'
        with (
            pytest.raises(ConfigurationError, match=message)
            if version == "2.16.2"
            else nullcontext()
        ):
            check_python("Op", named, "s.py")


def test_an_interpreter_that_does_not_answer_is_left_to_its_start(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    check_python("Op", str(python))


@pytest.mark.process
@pytest.mark.fault(
    "hosts",
    "An interpreter that blocks is named before the job starts, after startTimeout, with the place",
)
def test_interpreter_that_blocks_is_named_with_its_place(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (packages / "blocker.py").write_text("import threading\n\nthreading.Event().wait()\n")
    (packages / "blocks.pth").write_text("import blocker\n")
    with pytest.raises(ConfigurationError) as caught:
        check_python("Op", str(tmp_path / "env/bin/python"), limit_s=4.0)
    said = str(caught.value)
    assert (
        "akdl.process.preflight did not end within 4 s. It stood at File " in said
        and '/blocker.py", line 3' in said
    )
    assert said.endswith(f"this Python runs {packages}/blocks.pth: import blocker (startTimeout)")
