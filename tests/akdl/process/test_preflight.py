"""What a Python environment lacks, and what happens then."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from akdl.process.preflight import GRPCIO, UNUSABLE, deadlocks, missing, versions
from tests.support.leftovers import DEADLINE_S

ROOT = Path(__file__).parents[3]
(BOTH_SIDES,) = (
    ast.literal_eval(statement.value)
    for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "BOTH_SIDES"
)
GOOD = {"tensorflow": "2.15.1", "numpy": "1.26.4", "grpcio": "1.59.5", "protobuf": "4.25.1"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"tensorflow": "1.15.5", "numpy": "1.16.0", "protobuf": "3.20.3"}, {}),
        ({"tensorflow": ""}, {}),
        ({"tensorflow": "2.21.0rc1", "numpy": "2.0.0b1"}, {}),
        ({"grpcio": None}, {"grpcio>=1.34": "grpcio is missing"}),
        ({"protobuf": "3.9.2"}, {"protobuf>=3.20": "protobuf 3.9.2 is too old"}),
        ({"tensorflow": "1.14.0"}, {"tensorflow>=1.15": "tensorflow 1.14.0 is too old"}),
    ],
)
def test_missing_lists_packages_that_are_absent_or_too_old(
    changes: dict[str, str | None], expected: dict[str, str]
) -> None:
    assert missing({**GOOD, **changes}) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.47.5", False), ("1.48.0", True), ("1.48.1", False), ("1.58.3", False), ("1.59.0", True), ("1.59.5", True),
        ("1.61.3", True), ("1.62.1", True), ("1.62.2", False), ("1.65.5", False), ("1.66.0", True), ("1.70.0", True),
        ("1.71.0", False), ("1.85.3", False), ("", False),
    ],
)  # fmt: skip
def test_releases_of_grpcio_that_can_deadlock_are_known(version: str, expected: bool) -> None:
    """The requirements refuse them too, and are shown by the message."""
    assert deadlocks(version) == expected
    (required,) = (text for text in BOTH_SIDES if text.startswith("grpcio"))
    is_new = bool(version) and Version(version) >= Version("1.62.3")
    assert required == GRPCIO and Requirement(required).specifier.contains(version or "0") == (
        is_new and not expected
    )


@pytest.mark.process
def test_environment_whose_grpcio_can_deadlock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "grpcio-1.62.1.dist-info").mkdir()
    (tmp_path / "grpcio-1.62.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: grpcio\nVersion: 1.62.1\n"
    )
    done = run(
        "-m",
        "akdl.process.preflight",
        "akdl.process.preflight",
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]),
    )
    assert (
        done.returncode == 0
        and "akdl: grpcio 1.62.1 can deadlock: " in done.stderr
        and GRPCIO in done.stderr
    )


def test_versions_are_those_of_the_installed_packages() -> None:
    import grpc
    import numpy

    found = versions()
    assert (found["grpcio"], found["numpy"]) == (grpc.__version__, numpy.__version__)


def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=4 * DEADLINE_S
    )  # fmt: skip


@pytest.mark.process
def test_preflight_prints_the_versions() -> None:
    done = run("-m", "akdl.process.preflight")
    assert done.returncode == 0 and done.stdout.startswith(
        f"Python {sys.version.split()[0]}, tensorflow "
    )


@pytest.mark.process
def test_preflight_lists_the_packages_that_an_environment_lacks() -> None:
    """`-S` keeps site-packages off the path, so this interpreter has nothing but the standard
    library.
    """
    done = run("-S", "-m", "akdl.process.preflight", "akdl.entry")
    assert done.returncode == UNUSABLE
    assert "numpy is missing, grpcio is missing, protobuf is missing" in done.stderr
    assert (
        f"{sys.executable} -m pip install 'grpcio>=1.34' 'numpy>=1.16' 'protobuf>=3.20'"
        in done.stderr
    )


@pytest.mark.process
def test_preflight_runs_the_module_as_main(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(
        "import sys\nprint(__name__, sys.argv, sys.modules['__main__'].__file__ == __file__)\n"
    )
    done = run(
        "-m", "akdl.process.preflight", "shown", "a", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}"
    )
    assert (done.stdout, done.returncode) == (
        f"__main__ {[str(tmp_path / 'shown.py'), 'a']} True\n",
        0,
    ), done.stderr
