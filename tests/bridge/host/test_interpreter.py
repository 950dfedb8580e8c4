"""Archives of Python environments: unpacked once, checked, and gone when nobody uses them."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from akdl.storage.files import sha256_of
from akdl.storage.locked_folder import hold, locked
from bridge.exceptions import ConfigurationError, TaskError
from bridge.host.interpreter import open_interpreter
from bridge.host.program_folder import sweep
from bridge.settings import PythonArchive
from tests.bridge.member.test_member import BATCH, decoded, start  # noqa: F401  a fixture
from tests.support.environments import make_environment, pack
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Where environments are unpacked; empty at the end."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    place = tmp_path / f"akdl_envs_{os.geteuid()}"
    yield place
    wait_until(lambda: not place.exists() or not any(place.iterdir()), "no environment is left")


def archive_of(folder: pathlib.Path, suffix: str = "tar.gz", inside: str = "") -> PythonArchive:
    path = pack(folder, f"{folder}.{suffix}", inside)
    return PythonArchive(path, sha256_of(path), "there/env")


@pytest.mark.parametrize("suffix", ["tar.gz", "zip"])
@pytest.mark.parametrize("inside", ["", "env"])
def test_environment_is_unpacked_once_and_removed_with_its_last_user(
    tmp_path: pathlib.Path,
    place: pathlib.Path,
    suffix: str,
    inside: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    archive = archive_of(make_environment(tmp_path / "made"), suffix, inside)
    first = open_interpreter("Op", archive)
    assert first.path.startswith(str(place)) and os.path.islink(first.path)
    assert (
        f"pythonEnv there/env: unpacked {archive.path} in " in caplog.text
        and f"Python {sys.version.split()[0]}, tensorflow" in caplog.text
    )
    child = subprocess.Popen(
        [first.path, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=first.fds
    )
    first.close()
    first.close()
    second = open_interpreter("Op", archive)
    assert second.path == first.path and caplog.text.count("unpacked /") == 1
    second.close()
    assert os.path.exists(first.path), "the child still uses it"
    child.kill()
    child.communicate()
    wait_until(lambda: not any(place.iterdir()), "the environment is removed")
    again = open_interpreter("Op", archive)
    assert os.path.exists(again.path) and caplog.text.count("unpacked /") == 2
    again.close()


def test_many_users_at_once_unpack_an_environment_once(
    tmp_path: pathlib.Path, place: pathlib.Path
) -> None:
    archive = archive_of(make_environment(tmp_path / "made"))
    (tmp_path / "count").mkdir()
    opened, threads = [], []
    for _ in range(8):
        threads.append(
            threading.Thread(target=lambda: opened.append(open_interpreter("Op", archive)))
        )
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8 and len({each.path for each in opened}) == 1
    for each in opened:
        each.close()


def test_late_worker_starts_before_the_faster_one_ends(
    tmp_path: pathlib.Path, place: pathlib.Path
) -> None:
    archive = archive_of(make_environment(tmp_path / "made"))
    folder = place / archive.sha256[:32]
    place.mkdir(0o700)
    faster, opened = hold(str(folder)), []
    late = threading.Thread(target=lambda: opened.append(open_interpreter("Op", archive)))
    with locked(f"{folder}-unpacking"):
        late.start()
        make_environment(folder / "env")
        time.sleep(0.1)
        assert not opened, "it waits for the environment"
        (folder / ".akdl-complete").touch()
    try:
        wait_until(lambda: bool(opened), "it takes what is there")
        opened[0].close()
    finally:
        os.close(faster)
        late.join()
    assert [path.name for path in place.iterdir()] == [folder.name]
    shutil.rmtree(place)


@pytest.mark.fault("hosts", "An unpacked environment is removed although its users were killed")
def test_leftovers_of_killed_users_and_removers_are_swept(
    tmp_path: pathlib.Path, place: pathlib.Path
) -> None:
    """The process that removes is killed with its user: the next process of ours that starts
    removes what is left.
    """
    left = open_interpreter("Op", archive_of(make_environment(tmp_path / "one")))
    # Right after its start, a process may have no command line yet.
    wait_until(lambda: bool(removers(place)), "the remover runs")
    (remover,) = removers(place)
    remover.send_signal(signal.SIGKILL)
    wait_until(lambda: not remover.is_running(), "the remover is gone")
    left.close()
    assert os.path.exists(left.path)
    sweep()
    wait_until(lambda: not os.path.exists(left.path), "what was left is gone")


def removers(place: pathlib.Path) -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        # one of another test that has ended, and that nobody has reaped yet
        with suppress(psutil.NoSuchProcess):
            if str(place) in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_conda_unpack_runs_in_its_place(tmp_path: pathlib.Path, place: pathlib.Path) -> None:
    text = "import os\nopen(os.path.join(os.path.dirname(__file__), 'unpacked'), 'w').write(os.getcwd())\n"
    opened = open_interpreter(
        "Op", archive_of(make_environment(tmp_path / "made", conda_unpack=text))
    )
    assert pathlib.Path(opened.path).with_name("unpacked").exists()
    opened.close()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"python3": "#!/nowhere/python\n"}, "this host cannot run the interpreter .*; is it built for this system and processor"),
        ({"python3": "\x7fELF of another processor"}, r"this host cannot run the interpreter .*Exec format error"),
        ({"python3": "#!/bin/sh\necho no libpython; exit 127\n"}, "failed with status 127: no libpython; pack it with conda-pack"),
        ({"python3": f'#!/bin/sh\nexec {sys.executable} -S "$@"\n'}, "failed with status 87: .*numpy is missing.*pip install"),
        ({"conda_unpack": "raise OSError('no room')"}, "conda-unpack failed with status 1: .*no room"),
    ],
)  # fmt: skip
def test_unusable_archives_are_refused_and_leave_nothing(
    tmp_path: pathlib.Path, place: pathlib.Path, files: dict[str, str], message: str
) -> None:
    archive = archive_of(make_environment(tmp_path / "made", **files))
    with pytest.raises(ConfigurationError, match=f"(?s)^Op: pythonEnv there/env: .*{message}"):
        open_interpreter("Op", archive)
    assert not any(place.iterdir())


def test_venv_that_links_to_another_python_is_refused(
    tmp_path: pathlib.Path, place: pathlib.Path
) -> None:
    folder = make_environment(tmp_path / "made")
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(
        ConfigurationError,
        match="link 'bin/python' leaves its folder: .*; pack it with conda-pack, or .*a venv cannot be",
    ):
        open_interpreter("Op", archive_of(folder))


def test_archive_without_an_interpreter_is_refused(
    tmp_path: pathlib.Path, place: pathlib.Path
) -> None:
    (tmp_path / "made" / "lib").mkdir(parents=True)
    with pytest.raises(
        ConfigurationError,
        match="expected bin/python at the root of the archive or in its only folder, found lib",
    ):
        open_interpreter("Op", archive_of(tmp_path / "made"))


def test_changed_or_lost_archive_is_refused(tmp_path: pathlib.Path, place: pathlib.Path) -> None:
    archive = archive_of(make_environment(tmp_path / "made"))
    with open(archive.path, "ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigurationError, match="the archive has changed since the job was built"):
        open_interpreter("Op", archive)
    os.remove(archive.path)
    with pytest.raises(ConfigurationError, match="the archive was not shipped with the job"):
        open_interpreter("Op", archive)


def test_member_runs_in_the_unpacked_environment(
    tmp_path: pathlib.Path,
    place: pathlib.Path,
    start: Callable[..., Any],  # noqa: F811
) -> None:  # noqa: F811, RUF100
    script = (
        "import os\ndef main(config):\n"
        "    assert 'akdl_envs' in os.environ['TESTED_ENV'] and os.environ['MINE'] == 'x' and 'NOT_MINE' not in os.environ\n"
        "    assert config.dataset_length == 1000\n"
    )
    os.environ["NOT_MINE"] = "secret"
    try:
        member = start(
            script, python=archive_of(make_environment(tmp_path / "made")), env_vars=("MINE=x",)
        )
        assert decoded(member.feed(BATCH)) + decoded(member.finish()) == []
    finally:
        del os.environ["NOT_MINE"]


def test_environment_without_needed_packages_is_an_error_with_the_remedy(
    tmp_path: pathlib.Path,
    start: Callable[..., Any],  # noqa: F811
) -> None:
    folder = make_environment(
        tmp_path / "made", python3=f'#!/bin/sh\nexec {sys.executable} -S "$@"\n'
    )
    member = start("def main(config): pass\n", python=str(folder / "bin" / "python"))
    with pytest.raises(
        TaskError,
        match="(?s)its Python environment cannot be used.*grpcio is missing.*pip install.*grpcio>=1.34",
    ):
        list(member.finish())


@pytest.mark.fault(
    "hosts", "An interpreter for another processor is an error that names that of the host"
)
def test_interpreter_for_another_processor_is_refused(
    tmp_path: pathlib.Path,
    start: Callable[..., Any],  # noqa: F811
) -> None:  # noqa: F811, RUF100
    folder = make_environment(tmp_path / "made", python3="\x7fELF of another processor")
    with pytest.raises(
        ConfigurationError, match="TestOp: this host cannot run the interpreter .*Exec format error"
    ):
        start("def main(config): pass\n", python=str(folder / "bin" / "python"))
