"""Python environments as uv makes them. TensorFlow, which is large, is that of the tests; what else
scripts need is installed.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests.support.deadline import DEADLINE_S

_PACKAGES = [
    f"{name}=={importlib.metadata.version(name)}" for name in ("numpy", "grpcio", "protobuf")
]
_LIBRARY = pathlib.Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}"
# a Python there shares its folder with others, and cannot be moved
_SYSTEM = ("/usr", "/usr/local")


def make_venv(folder: pathlib.Path) -> pathlib.Path:
    """Make a venv, whose interpreter is a link to one elsewhere."""
    _uv("venv", "--relocatable", "--python", sys.base_prefix + "/bin/python3", str(folder))
    return _with_packages(folder)


def make_movable_python(folder: pathlib.Path) -> pathlib.Path:
    """Copy the Python of the tests to a folder that can be moved, as those that uv downloads, and
    install into it.
    """
    needs_movable_python()
    (folder / "bin").mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), folder / "bin" / "python3")
    (folder / "bin" / "python").symlink_to("python3")
    left_out = shutil.ignore_patterns("site-packages", "test", "config-*", "__pycache__")
    shutil.copytree(pathlib.Path(sys.base_prefix) / _LIBRARY, folder / _LIBRARY, ignore=left_out)
    (folder / _LIBRARY / "site-packages").mkdir()
    return _with_packages(folder)


def _with_packages(folder: pathlib.Path) -> pathlib.Path:
    _uv("pip", "install", "--python", str(folder / "bin" / "python"), *_PACKAGES)
    (folder / _LIBRARY / "site-packages" / "tensorflow.pth").write_text(
        sysconfig.get_path("purelib")
    )
    return folder


def find_uv() -> str:
    """Return the path of uv; skip the test where there is none."""
    beside = pathlib.Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        pytest.skip("there is no uv, neither beside the Python of the tests nor on PATH")
    return uv


def needs_movable_python() -> None:
    """Skip the test where the Python of the tests belongs to the system."""
    if sys.base_prefix in _SYSTEM:
        pytest.skip(f"the Python of {sys.base_prefix} cannot be moved")


def needs_package_index() -> None:
    """Skip the test where no package index is reached; another failure of uv fails it."""
    asked = subprocess.run(
        [find_uv(), "pip", "compile", "--no-cache", "-"],
        input="six",
        capture_output=True,
        text=True,
    )
    if re.search("error sending request|dns error", asked.stderr):
        pytest.skip(f"no package index is reached: {asked.stderr}")
    assert asked.returncode == 0, asked.stderr


def _uv(*arguments: str) -> None:
    done = subprocess.run(
        [find_uv(), *arguments], capture_output=True, text=True, timeout=7 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
