"""Pythons as they are on machines of users: Flink's side alone on a cluster's hosts, our wheel
beside it where programs start.
"""

from __future__ import annotations

import functools
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from tests.support.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).parents[2]

# What the Python of the tests has and that of a host has not: TensorFlow's side, and us. What ends
# in .pth would bring packages back that are installed by a link to their sources, as we are.
_LEFT_OUT = ("akdl*", "__editable__*", "*.pth", "tensorflow*", "keras*", "tensorboard*")


def make_flink_side(folder: pathlib.Path) -> str:
    """Make an environment with the packages of Flink's side, as links to those of the tests; return
    its interpreter.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = folder / pathlib.Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for path in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
        if not any(path.match(pattern) for pattern in _LEFT_OUT):
            (packages / path.name).symlink_to(path)
    return str(folder / "bin" / "python")


def make_driver(folder: pathlib.Path) -> str:
    """Make an environment with Flink's side and our wheel; return its interpreter."""
    python = make_flink_side(folder)
    _pip("--python", python, "install", "--no-deps", "--no-index", str(wheel()))
    return python


@functools.cache
def wheel() -> pathlib.Path:
    """Build our wheel from this checkout, without writing into it; it stays until the tests end."""
    place = pathlib.Path(_place().name)
    sources = place / "sources"
    (sources / "scripts").mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "scripts/build_stubs.py"):
        shutil.copy(ROOT / name, sources / name)
    for package in ("akdl", "bridge", "operators"):
        shutil.copytree(
            ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    _pip(
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        str(place),
        str(sources),
    )
    (built,) = place.glob("*.whl")
    return built


@functools.cache
def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="wheel-")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=7 * DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
