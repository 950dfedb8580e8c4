"""When a JVM takes its classes from an archive, and when it writes one."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable

import pexpect
import pytest

from bridge.workarounds.gateway import _is_whole, archive_options
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until

WRITES, TAKES = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="
Options = Callable[..., str]


@pytest.fixture
def java(tmp_path: pathlib.Path) -> pathlib.Path:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    (home / "bin" / "java").touch()
    return home / "bin" / "java"


@pytest.fixture
def first(tmp_path: pathlib.Path, java: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Give the first option of a JVM in a notebook, "" for none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AKDL_CLASS_ARCHIVE", raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"jar")

    def first(options: str = "-XX:+UseSerialGC") -> str:
        found = archive_options(str(java), [str(jar)], options)
        return found[0] if found else ""

    return first


def written(option: str, content: bytes = b"classes") -> pathlib.Path:
    """Write what a JVM with the option would write."""
    assert option.startswith(WRITES)
    archive = pathlib.Path(option[len(WRITES) :])
    archive.write_bytes(content)
    return archive


def test_archive_is_written_once_and_then_taken(first: Options) -> None:
    archive = written(first())
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    # The folder of temporary files differs from program to program.
    assert first("-Djava.io.tmpdir=/tmp/a -XX:+UseSerialGC") == f"{TAKES}{archive}"


def test_changed_jar_or_collector_takes_a_new_archive_in_place_of_the_old_one(
    first: Options, tmp_path: pathlib.Path
) -> None:
    archive = written(first())
    (tmp_path / "a.jar").write_bytes(b"newer jar")
    newer = written(first())
    assert newer != archive and not archive.exists()
    assert first("-XX:+UseG1GC") != f"{TAKES}{newer}"


def test_archive_of_a_killed_jvm_is_written_again(first: Options) -> None:
    archive = written(first(), bytes(4096))
    assert first() == f"{WRITES}{archive}"


def test_program_whose_output_is_read_takes_an_archive_and_writes_none(
    first: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = first()
    monkeypatch.delitem(sys.modules, "ipykernel")
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    assert first() == ""
    archive = written(option)
    assert first() == f"{TAKES}{archive}"


@pytest.mark.parametrize(
    "options", ["-XX:SharedArchiveFile=/a.jsa", "-XX:ArchiveClassesAtExit=/a.jsa", "-Xshare:off"]
)
def test_own_archive_of_the_user_stays(first: Options, options: str) -> None:
    assert first(options) == ""


@pytest.mark.parametrize("release", ['JAVA_VERSION="11.0.2"', "nothing"])
def test_java_without_archives_gets_no_option(
    first: Options, java: pathlib.Path, release: str
) -> None:
    (java.parents[1] / "release").write_text(release)
    assert first() == ""


def test_archive_is_turned_off_by_a_variable(
    first: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKDL_CLASS_ARCHIVE", "0")
    assert first() == ""


@pytest.mark.fault(
    "security", "Classes are taken only from an archive that no other user can write"
)
def test_archive_in_a_folder_of_others_is_not_taken(first: Options) -> None:
    archive = written(first())
    archive.parent.chmod(0o777)
    assert first() == ""


PROGRAM = """
from bridge.workarounds.pyflink_defects import open_gateway
gateway = open_gateway()
maps = open(f"/proc/{gateway.jvm.java.lang.ProcessHandle.current().pid()}/maps").read()
print("taken:", "akdl/classes" in maps)
beans = gateway.jvm.java.lang.management.ManagementFactory.getPlatformMXBeans(
    gateway.jvm.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
)
for limit in ("Tier4InvocationThreshold", "Tier4BackEdgeThreshold"):
    print(limit, beans[0].getVMOption(limit).getValue())
"""


@pytest.mark.flink
def test_jvm_of_a_program_on_a_terminal_writes_the_archive_of_the_next_ones(
    tmp_path: pathlib.Path,
) -> None:
    environment = {
        **ENVIRONMENT,
        "JVM_ARGS": "-XX:+UseSerialGC -XX:Tier4BackEdgeThreshold=50000",
        "XDG_CACHE_HOME": str(tmp_path / ".cache"),
    }
    command = [sys.executable, "-c", PROGRAM]
    terminal = pexpect.spawn(command[0], command[1:], env=environment, timeout=10 * DEADLINE_S)
    terminal.expect("taken: False")
    terminal.expect(pexpect.EOF)
    terminal.close()
    folder = tmp_path / ".cache" / "akdl" / "classes"

    wait_until(lambda: any(map(_is_whole, folder.glob("*.jsa"))), "the archive is written")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    # The second limit is the user's.
    expected = "taken: True\nTier4InvocationThreshold 50000\nTier4BackEdgeThreshold 50000\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr
