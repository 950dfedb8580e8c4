"""`akdl env`, and the Python environments that it shows.

An environment is made by uv from requirements, once, in a cache of the user. It is a folder named
by a hash of everything that determines it: requirements, interpreter and platform. Programs share
it. Each holds a shared lock on the folder until the program ends, so that no other program removes
an environment in use. The file `complete` is written last, because a program may be killed while uv
installs.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from akdl.masking import masked
from akdl.process import preflight
from akdl.storage.local_files import WholeFile
from akdl.storage.locked_folder import hold, locked, remove_unused
from bridge.exceptions import ConfigurationError
from bridge.host.interpreter import look_into
from bridge.host.places import cache_folder
from operators.prepare.requirements import Wanted, wanted_by

logger = logging.getLogger(__name__)

# An environment with TensorFlow takes gigabytes, so old ones are removed when another one is made.
# An environment in use stays nevertheless.
_KEPT = 10
# Names of the files of an environment: its requirements, the mark of a complete one, and its
# archive for other hosts.
_REQUIREMENTS = "requirements.txt"
_COMPLETE = "complete"
_PACKED = "env.tar.gz"
# These parts of the base Python are not packed: tests, caches and tools that no script imports, and
# its site-packages, whose place the packages of the environment take.
_LEFT_OUT = re.compile(r"/(site-packages|test|config-[^/]*|__pycache__|ensurepip|idlelib|tkinter)$")
# The folder of such a Python has other programs in it, so packing it would pack half of the system.
_SYSTEM = ("/usr", "/usr/local", "/")
# uv draws its errors as a tree with these characters, which are noise in a single line.
_TREE = re.compile(r"^[\s×╰├─▶│]*((error|cause): )?", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run `akdl env` and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="akdl env", description="Python environments that were made for scripts."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("list", help="show the environments")
    make = commands.add_parser("make", help="make an environment, or find it, and print its Python")
    make.add_argument(
        "wanted",
        metavar="REQUIREMENT",
        nargs="+",
        help="such as 'tensorflow==2.21.*' or 'python==3.11.*'; or a FILE",
    )
    commands.add_parser("remove", help="remove environments that no program uses").add_argument(
        "names", metavar="NAME", nargs="+", help="beginning of a name that `list` shows, or all"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        if options.command == "make":
            first, *others = options.wanted
            is_file = not others and os.path.isfile(first)
            wanted = wanted_by(first if is_file else options.wanted)
            if wanted is None:
                raise ConfigurationError(
                    f"{first}: expected requirements, a requirements.txt or a pyproject.toml"
                )
            lines = [made_python(wanted)]
        else:
            lines = list(_listed()) if options.command == "list" else list(_removed(options.names))
    except ConfigurationError as error:
        parser.exit(1, f"{error}\n")
    print("\n".join(lines))
    return 0


def made_python(wanted: Wanted) -> str:
    """Interpreter of the environment with these requirements, which is made if need be and kept
    until this program ends.
    """
    return str(_python_in(_made(wanted)))


def packed_env(wanted: Wanted) -> str:
    """Archive of such an environment with its Python, made once."""
    folder = _made(wanted)
    archive = folder / _PACKED
    # Two programs may want the same archive at once, so one of them packs it while the other waits.
    with locked(str(folder.parent)):
        if not archive.exists():
            _pack(folder, archive)
    return str(archive)


@functools.cache
def _made(wanted: Wanted) -> Path:
    """Folder of the environment with these requirements, made unless it is complete.

    It stays locked until this program ends. The result is cached, because every operator asks
    again.
    """
    cache = Path(cache_folder("envs"))
    version = "{}.{}.{}".format(*sys.version_info)
    # This program's own Python is taken where it fits, because uv would otherwise download one. The
    # base interpreter is named, because the virtual environment of this program may be removed
    # before the new one.
    fits = SpecifierSet(wanted.python).contains(version, prereleases=True)
    python = (
        os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        if fits
        else wanted.python
    )
    lines = [*wanted.lines, *_own_side()]
    # Wheels differ by platform and C library, and an updated base Python needs another environment.
    described = json.dumps(
        [
            sorted(lines),
            python,
            version if fits else "",
            sysconfig.get_platform(),
            platform.libc_ver(),
        ]
    )
    folder = cache / hashlib.sha256(described.encode()).hexdigest()[:32]
    try:
        os.makedirs(cache, 0o700, exist_ok=True)
        # The lock is shared with other programs that use the environment, and is released when this
        # program ends.
        lock = hold(str(folder))
        try:
            if not _is_complete(folder):
                # Other programs wait here, and then find the environment complete.
                with locked(str(cache)):
                    if not _is_complete(folder):
                        _make(folder, wanted, lines, python)
                        for number, other in enumerate(_environments(cache)):
                            if number >= _KEPT or not _is_complete(other):
                                remove_unused(str(other))
            # The time of this file says when the environment was last used, which decides what is
            # removed.
            os.utime(folder / _COMPLETE)
        except BaseException:
            # The folder stays if another program has completed it meanwhile, or uses it.
            os.close(lock)
            if not _is_complete(folder):
                remove_unused(str(folder))
            raise
    except OSError as error:
        raise ConfigurationError(
            f"no Python environment with {wanted.shown} could be made in {cache}: {error}."
            " XDG_CACHE_HOME names another folder"
        ) from None
    return folder


def _make(folder: Path, wanted: Wanted, lines: list[str], python: str) -> None:
    """Make an environment with uv, in a folder whose lock the caller holds.

    If the packages have no wheel for the Python, the newest Python that has wheels is tried.
    """
    started = time.monotonic()
    # Programs without a configuration of logging show warnings, and this may take minutes.
    logger.warning(
        "making a Python environment with %s in %s; it stays there for other programs",
        wanted.shown,
        folder,
    )
    # A program that was killed leaves half an environment, and an environment is useless once its
    # base Python has been removed.
    shutil.rmtree(folder / "env", ignore_errors=True)
    with open(folder / _REQUIREMENTS, "w", encoding="utf-8") as file:
        file.write("\n".join([f"# {wanted.shown}", *lines, ""]))
    _uv(wanted, folder, "venv", "--no-project", f"--python={python}", "env")
    try:
        _uv(
            wanted,
            folder,
            "pip",
            "install",
            "--python",
            str(_python_in(folder)),
            "--requirement",
            _REQUIREMENTS,
        )
    except ConfigurationError as error:
        # The text is uv's, and a test compares it. Each Python that is tried takes up to 10 s where
        # the index is slow, so only Pythons that uv names are tried.
        others = re.findall(r"`cp3(\d+)m?`", str(error).partition("we only found wheels for")[2])
        if wanted.python or not others:
            raise
        # This is the newest Python for which the packages have wheels, because uv lists them in
        # ascending order.
        wanted = Wanted(wanted.lines, f"==3.{others[-1]}.*")
        _make(folder, wanted, lines, wanted.python)
        return
    # The installed packages may not fit akdl, for example an old protobuf, so the new Python is
    # asked before the environment counts as complete.
    status, output = look_into(str(_python_in(folder)))
    if status:
        reason = output.rpartition("cannot be used: ")[2].partition("; install")[0]
        raise ConfigurationError(
            f"a Python environment with {wanted.shown} cannot run scripts: {reason}. Require it too"
        )
    (folder / _COMPLETE).touch()
    logger.warning("made it in %.1f s: %s", time.monotonic() - started, output)


def _uv(wanted: Wanted, folder: Path, *arguments: str) -> None:
    """Run uv in `folder`, and turn a failure into an error with uv's own reason."""
    # These variables describe the environment of this program and would lead uv to it instead of
    # the new one.
    hidden = ("PYTHON", "VIRTUAL_ENV", "CONDA_")
    done = subprocess.run(
        [_find_uv(), "--quiet", "--color=never", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(hidden)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        reason = textwrap.shorten(masked(_TREE.sub("", done.stderr)), 1000)
        raise ConfigurationError(
            f"no Python environment with {wanted.shown} could be made. uv:"
            f" {reason or f'status {done.returncode}'}\nChange the requirements; where no package"
            " index is reached, name one in UV_DEFAULT_INDEX, or an environment that exists in"
            " pythonEnv"
        )


def _find_uv() -> str:
    """Path of uv: that of the Python package `uv` if it is installed, else the one on PATH."""
    with suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return str(find_uv_bin())
    found = shutil.which("uv")
    if found is None:
        raise ConfigurationError(
            "making a Python environment needs uv, which is not there: pip install uv"
        )
    return found


def _own_side() -> list[str]:
    """Requirements of akdl itself, because its `entry` module runs in the environment too."""
    try:
        declared = [Requirement(each) for each in importlib.metadata.requires("akdl") or ()]
    # akdl is not installed but on the path, as in a checkout, so it has no metadata with
    # requirements.
    except importlib.metadata.PackageNotFoundError:
        declared = [Requirement(each) for each in (preflight.GRPCIO, "protobuf", "numpy")]
    lines = [str(each) for each in declared if "extra" not in str(each.marker)]
    # Before Python 3.8, akdl reads the versions of packages with setuptools, since the standard
    # library cannot.
    return [*lines, 'setuptools; python_version < "3.8"']


def _python_in(folder: Path) -> Path:
    return folder / "env" / "bin" / "python"


def _is_complete(folder: Path) -> bool:
    """Return True if the environment can be used.

    Its Python is checked too, because the base to which it links may have been removed.
    """
    return (folder / _COMPLETE).exists() and os.access(_python_in(folder), os.X_OK)


def _environments(cache: Path) -> list[Path]:
    """Folders of environments, the last used first."""
    used = {
        folder: (folder / _COMPLETE).stat().st_mtime if _is_complete(folder) else 0.0
        # Names of environments have 32 characters, see `_made`. A folder that is being removed has
        # a longer name.
        for folder in cache.glob("?" * 32)
    }
    return sorted(used, key=lambda folder: -used[folder])


def _pack(folder: Path, archive: Path) -> None:
    """Pack the Python that a venv links to, with the packages of the venv."""
    started = time.monotonic()
    python = _python_in(folder).resolve()
    base = python.parent.parent
    (library,) = (folder / "env" / "lib").glob("python3*")
    # A host that unpacks the archive has nothing but its content, so the standard library has to be
    # in the same folder as the interpreter.
    if str(base) in _SYSTEM or not (base / "lib" / library.name / "os.py").exists():
        raise ConfigurationError(
            f"the Python {python} belongs to this system and cannot be packed for other hosts:"
            " start the program with a Python of its own, as `uv python install` brings it, or"
            " name an archive in pythonEnv"
        )
    with (
        WholeFile(str(archive)) as file,
        # Links of the venv lead to other folders of this host, so their targets are packed. The
        # lowest level of compression is the fastest.
        tarfile.open(mode="w:gz", fileobj=file, compresslevel=1, dereference=True) as packed,
    ):
        packed.add(python, "bin/python")
        for each in [*(base / "lib").glob("libpython*"), base / "lib" / library.name]:
            packed.add(
                each,
                f"lib/{each.name}",
                filter=lambda entry: None if _LEFT_OUT.search(entry.name) else entry,
            )
        packed.add(library / "site-packages", f"lib/{library.name}/site-packages")
    logger.warning(
        "packed %s in %.1f s: %d MB",
        archive,
        time.monotonic() - started,
        archive.stat().st_size >> 20,
    )


def _listed() -> Iterator[str]:
    cache = Path(cache_folder("envs"))
    yield f"environments in {cache}"
    for folder in _environments(cache):
        if _is_complete(folder):
            used = time.strftime(
                "%Y-%m-%d %H:%M", time.localtime((folder / _COMPLETE).stat().st_mtime)
            )
            with open(folder / _REQUIREMENTS, encoding="utf-8") as file:
                yield f"{folder.name[:12]}  last used {used}  {file.readline()[2:].strip()}"


def _removed(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        there = _environments(Path(cache_folder("envs")))
        found = [each for each in there if name == "all" or (name and each.name.startswith(name))]
        if not found and name != "all":
            raise ConfigurationError(f"there is no environment {name!r}; akdl env list shows them")
        for folder in found:
            remove_unused(str(folder))
            yield f"{folder.name[:12]}  {'is in use and stays' if folder.exists() else 'removed'}"
