"""Python environments with another TensorFlow than that of the tests: made by uv once, and kept in
`.venv/matrix`.

They hold what the README asks of a user's environment, and nothing else. One is made anew when its
requirements change; to get a TensorFlow that came out since, remove its folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.deadline import DEADLINE_S
from tests.support.uv import find_uv

KEPT = pathlib.Path(__file__).parents[2] / ".venv" / "matrix"


@dataclass(frozen=True)
class Version:
    """A TensorFlow of the test matrix.

    Attributes:
        name: What tests call it.
        pythons: Interpreters that it runs on, the best first.
        packages: Those that bring it, as uv wants them; the first one that the registry has is
            taken.
        more: What is installed beside it.
    """

    name: str
    pythons: tuple[str, ...]
    packages: tuple[str, ...]
    more: tuple[str, ...] = ("numpy", "grpcio", "protobuf")

    def python(self) -> str:
        """Return the interpreter of its environment, which is made if need be; skip the test where
        it cannot be had.
        """
        base = self._base()
        folder = kept_folder(self.name, base, self)
        with made_once(folder) as is_new:
            if is_new and not self._install(base, folder):
                pytest.skip(
                    f"{self.name}: the package registry has no {' or '.join(self.packages)} for {base}"
                )
        return _python_in(folder)

    def _base(self) -> str:
        for name in self.pythons:
            kept_by_pyenv = pathlib.Path.home().glob(
                f".pyenv/versions/{name.removeprefix('python')}*/bin/{name}"
            )
            for path in [shutil.which(name), *map(str, sorted(kept_by_pyenv))]:
                # What is on the path may be a stand-in that knows no interpreter.
                if (
                    path is not None
                    and _run([path, "-c", "import venv, ensurepip"]).returncode == 0
                ):
                    return path
        pytest.skip(
            f"{self.name}: {' or '.join(self.pythons)} is neither on PATH nor in ~/.pyenv/versions"
        )

    def _install(self, base: str, folder: pathlib.Path) -> bool:
        made = _run([base, "-m", "venv", "--without-pip", str(folder)])
        assert made.returncode == 0, made.stderr
        return any(install(_python_in(folder), [package, *self.more]) for package in self.packages)


TF_1 = Version(
    "tf-1.15", ("python3.7",), ("tensorflow==1.15.5",), ("numpy", "grpcio", "protobuf<3.21")
)
NEWEST = Version(
    "tf-newest", ("python3.13", "python3.12"), ("tensorflow-cpu>=2.16", "tensorflow>=2.16")
)


def pytest_for(python: str) -> str:
    """Return a folder with pytest for an interpreter, to put on PYTHONPATH: its environment stays
    as it is.
    """
    packages = ["pytest>=8", "pytest-timeout>=2.3"]
    folder = kept_folder("pytest", python, packages)
    with made_once(folder) as is_new:
        if is_new and not install(python, ["--target", str(folder), *packages]):
            pytest.skip(f"the package registry has no pytest for {python}")
    return str(folder)


def install(python: str, arguments: Sequence[str]) -> bool:
    """Install packages and return whether the registry has them; what else goes wrong fails the
    test.
    """
    done = _run([find_uv(), "pip", "install", "--quiet", "--python", python, *arguments])
    if done.returncode != 0 and "No solution found" in done.stderr:
        return False
    assert done.returncode == 0, done.stderr[-3000:]
    return True


@contextmanager
def made_once(folder: pathlib.Path) -> Iterator[bool]:
    """Hold the folder's lock, and yield whether the folder has to be made; it is complete when the
    block ends without error.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    complete = folder.with_name(f"{folder.name}.complete")
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
        yield not complete.exists()
        complete.touch()


def kept_folder(name: str, *key: object) -> pathlib.Path:
    """Return the folder of an environment, another one for each key."""
    return KEPT / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}"


def _python_in(folder: pathlib.Path) -> str:
    return str(folder / "bin" / "python")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=20 * DEADLINE_S)
