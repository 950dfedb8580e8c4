"""A user's file with the name of one of our packages is named, with what to do."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from operators.errors.shadowed_packages import check_shadowing
from tests.support.installs import ROOT
from tests.support.leftovers import DEADLINE_S


def test_installed_packages_are_not_shadowed() -> None:
    check_shadowing()


@pytest.mark.process
@pytest.mark.parametrize("on_the_path", [False, True])
@pytest.mark.parametrize("name", ["bridge.py", "akdl/__init__.py", "operators/__init__.py"])
def test_file_that_shadows_a_package_is_named_when_operators_are_imported(
    tmp_path: pathlib.Path, name: str, on_the_path: bool
) -> None:
    """Of the user's own `operators` no line of ours runs, and Python says where it lies."""
    (tmp_path / "job").mkdir()
    job = tmp_path / "job" / "job.py"
    folder = tmp_path if on_the_path else job.parent
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    job.write_text("from operators import useLocalEnv\n")
    path = os.pathsep.join([*([str(folder)] if on_the_path else []), str(ROOT)])
    # without the finder of a checkout's packages, as where a wheel is installed
    command = [sys.executable, "-S", str(job)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = run.stderr.splitlines()
    assert run.returncode == 1 and len(lines) <= 15, run.stderr
    package = name.split("/")[0].removesuffix(".py")
    if package == "operators":
        assert (
            lines[-1]
            == f"ImportError: cannot import name 'useLocalEnv' from 'operators' ({folder / name})"
        )
    else:
        assert lines[-1].startswith(
            f"ImportError: {folder / name} shadows the package {package!r} that operators needs"
        )
        assert "rename it, or start" in lines[-1]
