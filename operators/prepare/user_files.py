"""User files: read from any address when a job is built, and laid out as the script will find them.

The layout is decided here and not on the hosts, so that all processes of a group see the same
paths, and a name that would hide a module is an error before the job starts.
"""

from __future__ import annotations

import ast
import filecmp
import logging
import os
import pkgutil
import shutil
import sys
import sysconfig
import tempfile
import urllib.parse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from akdl.masking import shown
from akdl.storage.archive import ArchiveError, is_archive, unpack_archive
from akdl.storage.files import FileError, fetch, is_remote, local_path, place_of
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.program_folder import named_by_content, scratch_folder
from bridge.settings import UserFile
from operators.errors.summary import note_source_path
from operators.params.function_script import FunctionScript

logger = logging.getLogger(__name__)

# The description of a job is kept in memory by Flink and sent to every task, so larger files travel
# through Flink's distribution of files.
LARGE_BYTES = 1 << 20

# In addition to Python's own: modules that our process or TensorFlow may import before the script
# does.
_NEEDED_MODULES = {"akdl", "google", "grpc", "keras", "numpy", "tensorflow", "tf_keras"}
# Python has these modules too, but no program imports them.
_HARMLESS_MODULES = {"test", "this"}


class _Source(NamedTuple):
    """A file without a final place.

    If `above` is set, parent folders from it are added to the path until the path differs from the
    paths of other files. The path of a file from a folder or an archive is fixed, because scripts
    import by it.
    """

    origin: str
    file: Path
    path: str
    above: tuple[str, ...] | None = None


def read_files(
    operator: str,
    user_files: Sequence[str],
    main_script: str | FunctionScript,
    parameter: str = "mainScriptFile",
) -> tuple[tuple[UserFile, ...], str]:
    """Read the user's files, with the path of the main script; folders keep files of one name but
    different content apart.
    """
    with refused_at(operator, ConfigurationError), scratch_folder() as folder:
        loader = _Loader(folder)
        sources = [source for named in user_files for source in loader.load("userFiles", named)]
        if isinstance(main_script, FunctionScript):
            file = Path(folder, main_script.file_name)
            file.write_text(main_script.text, encoding="utf-8")
            main = _Source(main_script.origin, file, main_script.file_name, ())
        else:
            main = loader.find_main(parameter, main_script, sources)
        placed = _place(sources, main, parameter)
        files = tuple(_read(path, source.file) for path, source in placed.items())
        for read in files:
            _check_syntax(read, placed[read.path].origin)
        _check_names(placed, main.path)
        for path, source in placed.items():
            # The script of a function is made by akdl, so there is no file of the user that errors
            # could name.
            if source is not main or not isinstance(main_script, FunctionScript):
                note_source_path(path, source.origin)
        return files, main.path


def _read(path: str, file: Path) -> UserFile:
    """Read a file, or ship it by its content if it is large.

    Sources always travel in the job, because the checks below and error messages read them.
    """
    if path.endswith(".py") or file.stat().st_size <= LARGE_BYTES:
        return UserFile(path, file.read_bytes())
    with scratch_folder() as folder:
        copy = f"{folder}/file"
        shutil.copyfile(file, copy)
        return UserFile(path, b"", named_by_content(copy, "file")[0])


class _Loader:
    """Finds files and fetches remote ones.

    Each address is fetched once, for `userFiles` and `mainScriptFile` together. The object lives as
    long as the scratch folder that holds the fetched files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fetched: dict[str, str] = {}

    def load(self, parameter: str, named: str) -> Iterator[_Source]:
        """Yield the files at a path or address: one, or all of a folder or an archive."""
        file = Path(self._fetch(parameter, named))
        if file.is_dir():
            for path in _below(file):
                yield _Source(
                    str(path) if not is_remote(named) else shown(named),
                    path,
                    str(path.relative_to(file.parent)),
                )
        elif is_archive(file.name):
            # The files are read later, when all have their places, so this folder stays until the
            # loader's folder is removed.
            unpacked = tempfile.mkdtemp(dir=self._folder)
            with refused_at(f"{parameter}: the archive {shown(named)}", ArchiveError):
                with file.open("rb") as stream:
                    unpack_archive(stream, unpacked)
            for path in _below(Path(unpacked)):
                inside = str(path.relative_to(unpacked))
                yield _Source(f"{inside} in {shown(named)}", path, inside)
        else:
            yield self._single(named, file)

    def find_main(self, parameter: str, named: str, sources: list[_Source]) -> _Source:
        """Find the main script among the user's files, or else at its own path or address.

        A bare name, as Alink's programs give it, may stand for a file in an archive or a folder.
        """
        if not is_remote(named) and not os.path.exists(local_path(named)):
            found = [
                source
                for source in sources
                if named in (source.path, os.path.basename(source.path))
            ]
            # A path that is given in full wins over files of that name in other folders.
            whole = [source for source in found if source.path == named] or found
            if not all(_equal(whole[0], source) for source in whole[1:]):
                several = " and ".join(source.origin for source in whole)
                raise ConfigurationError(f"{parameter} {named!r} may be {several}: say which")
            if whole:
                return whole[0]
        file = Path(self._fetch(parameter, named))
        if not file.is_file():
            raise ConfigurationError(f"{parameter} {shown(named)} is not a file")
        return next(
            (source for source in sources if source.file == file), self._single(named, file)
        )

    def _single(self, named: str, file: Path) -> _Source:
        if not is_remote(named):
            return _Source(str(file), file, file.name, file.parts[1:-1])
        parts = urllib.parse.urlsplit(shown(named))
        above = urllib.parse.unquote(f"{parts.netloc}{parts.path}").rstrip("/").split("/")[:-1]
        return _Source(
            shown(named),
            file,
            file.name,
            # The parts become folders on the hosts. A colon comes from the port of an address and
            # separates entries of Python's path, and .. would lead out of the folder.
            tuple(part.replace(":", "_") for part in above if part not in ("", "..")),
        )

    def _fetch(self, parameter: str, named: str) -> str:
        key = place_of(named)
        if key not in self._fetched:
            subject = parameter if is_remote(named) else f"{parameter} {named!r}"
            with refused_at(subject, FileError):
                self._fetched[key] = fetch(named, tempfile.mkdtemp(dir=self._folder))
        return self._fetched[key]


def _below(folder: Path) -> Iterator[Path]:
    return (
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )


def _place(sources: list[_Source], main: _Source, parameter: str) -> dict[str, _Source]:
    """Give each file its path for the script.

    Raises:
        ConfigurationError: Two different files need the same path.
    """
    placed: dict[str, _Source] = {}
    singles: dict[str, list[_Source]] = {}
    for source in [*sources, main]:
        if source.above is None:
            _put(placed, source.path, source)
        else:
            # The same file is often given twice, as `mainScriptFile` and in `userFiles`, so files
            # of equal content are one file.
            same = singles.setdefault(source.path, [])
            if not any(_equal(source, other) for other in same):
                same.append(source)
    for name, same in singles.items():
        if main.above is not None and main.path == name and len(same) > 1:
            other = next(source for source in same if not _equal(source, main))
            raise ConfigurationError(
                f"there are two main scripts: {parameter} is {main.origin}, and another {name}"
                f" among userFiles is {other.origin}: leave one out, or rename it"
            )
        paths = [name] if len(same) == 1 else _apart(name, same)
        for path, source in zip(paths, same):
            _put(placed, path, source)
    return placed


def _apart(name: str, sources: list[_Source]) -> list[str]:
    """Paths for files of one name, with as many parent folders as it takes to tell them apart."""
    for depth in range(1, max(len(source.above or ()) for source in sources) + 1):
        paths = ["/".join([*(source.above or ())[-depth:], name]) for source in sources]
        if len(set(paths)) == len(paths):
            logger.warning(
                "userFiles has %d files %s; for the script they are %s",
                len(paths),
                name,
                ", ".join(paths),
            )
            return paths
    origins = " and ".join(source.origin for source in sources)
    raise ConfigurationError(
        f"these user files have the same name, and their folders do not tell them apart: {origins}"
    )


def _put(placed: dict[str, _Source], path: str, source: _Source) -> None:
    other = placed.setdefault(path, source)
    if not _equal(other, source):
        raise ConfigurationError(
            f"two user files would both have the path {path!r}: {other.origin} and {source.origin}"
        )


def _equal(one: _Source, other: _Source) -> bool:
    """Return True if two files have the same content. Times and attributes don't count."""
    return one.file == other.file or filecmp.cmp(one.file, other.file, shallow=False)


def _check_syntax(file: UserFile, origin: str) -> None:
    """Refuse a file that isn't valid Python.

    Its import would fail on the hosts only, minutes after the start of the job.
    """
    if not file.path.endswith(".py"):
        return
    try:
        with warnings.catch_warnings():
            # Warnings about the script, for example for odd escapes, belong to the user's own run
            # and not to this check.
            warnings.simplefilter("ignore")
            ast.parse(file.content, origin)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{origin}, line {line}" if line else origin
        raise ConfigurationError(f"{where}: {getattr(error, 'msg', error)}") from None


def _check_names(placed: dict[str, _Source], main: str) -> None:
    """Refuse a file that Python would import in place of a module that is needed."""
    home = os.path.dirname(main)
    # Python searches the root of the files, and the folder of the main script unless that folder is
    # a package.
    folders = {""} if f"{home}/__init__.py" in placed else {"", home}
    # The folder of the script is first on Python's path, so a file `random.py` in it would also
    # replace the module for TensorFlow, with an error far from its cause.
    taken = (_modules_of_python() | _NEEDED_MODULES) - _HARMLESS_MODULES
    for path, source in placed.items():
        folder, file = os.path.split(path)
        module, suffix = os.path.splitext(file)
        if file == "__init__.py":
            folder, module = os.path.split(folder)
        if suffix == ".py" and folder in folders and module in taken:
            raise ConfigurationError(
                f"the script and TensorFlow would find {source.origin} when they import the module"
                f" {module!r}: give it another name"
            )


def _modules_of_python() -> frozenset[str]:
    """Names of the modules of Python itself."""
    # `sys.stdlib_module_names` is new in Python 3.10.
    names: frozenset[str] | None = getattr(sys, "stdlib_module_names", None)
    if names is None:
        library = pkgutil.iter_modules([sysconfig.get_path("stdlib")])
        names = frozenset([*sys.builtin_module_names, *(module.name for module in library)])
    return names
