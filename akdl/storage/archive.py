"""Unpack archives into folders safely: zip and tar files, compressed or not. No entry can write outside the folder.

Links are made last, so no file can be written through a link. No link may lead out of the folder.
"""

import contextlib
import gzip
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from typing import IO, Any, Callable, Dict, Iterator, Optional, Set

SUFFIXES = (".zip", ".tar.gz", ".tgz")  # of files that are unpacked without being asked for

_COPY_BYTES = 1 << 20
_BROKEN_ARCHIVE = (  # what zipfile and tarfile raise for damaged bytes, and makedirs for a file that is also a folder
    zipfile.BadZipFile,
    tarfile.TarError,
    getattr(gzip, "BadGzipFile", EOFError),  # new in Python 3.8
    lzma.LZMAError,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    FileExistsError,
    NotADirectoryError,
)


class ArchiveError(ValueError):
    """An archive that is damaged, is none, or would write where it must not."""


def is_archive(name: str) -> bool:
    """Return whether a file's name is that of an archive."""
    return name.lower().endswith(SUFFIXES)


def unpack_archive(
    file: IO[bytes],
    folder: str,
    links: bool = False,
    copy: Optional[Callable[[IO[bytes], IO[bytes]], Any]] = None,
) -> Dict[str, Any]:
    """Write what an archive holds into an empty folder.

    Args:
        file: A zip file, or a tar file compressed with gzip, bzip2, xz or nothing, open for reading and seeking.
        folder: Where to.
        links: Whether the archive may hold links, as Python environments do; they must lead to places inside the folder.
        copy: How content is copied from one file to the other; what it returns comes back.

    Returns:
        Names of the files, without links, with what `copy` has returned for each.

    Raises:
        ArchiveError: It is no archive, is damaged, or has an entry that would leave the folder, occurs twice, or is neither a
            file nor a folder.
    """
    writing = _Unpacking(folder, links, copy or _plain_copy)
    with _damage_is_named():
        if zipfile.is_zipfile(file):
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                _unpack_zip(archive, writing)
        else:
            file.seek(0)
            try:
                opened = tarfile.open(fileobj=file)
            except tarfile.ReadError as error:
                raise ArchiveError("it is damaged, or neither a zip nor a tar file") from error
            with opened:
                _unpack_tar(opened, writing)
        writing.make_links()
    return writing.files


class _Unpacking:
    """The folder that is being filled, and the rules for what goes into it."""

    def __init__(self, folder: str, links: bool, copy: Callable[[IO[bytes], IO[bytes]], Any]) -> None:
        self.files: Dict[str, Any] = {}
        self._folder = folder
        self._may_link = links
        self._copy = copy
        self._names: Set[str] = set()
        self._links: Dict[str, str] = {}

    def check(self, name: str) -> None:
        """Refuse the name of an entry that would leave the folder, or has come before."""
        parts = name.rstrip("/").split("/")
        if not all(parts) or "\\" in name or {".", ".."} & set(parts) or re.match("[A-Za-z]:", name):
            raise ArchiveError(f"it has an entry that would leave its folder: {name!r}")
        if name in self._names:
            raise ArchiveError(f"it has the entry {name!r} twice")
        self._names.add(name)

    def add_folder(self, name: str) -> None:
        os.makedirs(self._path(name), exist_ok=True)

    def add_file(self, name: str, content: IO[bytes], mode: int) -> None:
        path = self._made(name)
        with content, open(path, "xb") as target:
            self.files[name] = self._copy(content, target)
        if mode & 0o111:
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | (mode & 0o111))

    def add_link(self, name: str, target: str) -> None:
        """Note a symbolic link; `make_links` makes it."""
        self._refuse_links(name)
        self._links[name] = target

    def add_hard_link(self, name: str, of: str) -> None:
        self._refuse_links(name)
        if of not in self.files:
            raise ArchiveError(f"{name!r} is a link to {of!r}, which is no earlier file of the archive")
        os.link(self._path(of), self._made(name))
        self.files[name] = self.files[of]

    def make_links(self) -> None:
        for name, target in self._links.items():
            parts = name.split("/")
            if any("/".join(parts[:depth]) in self._links for depth in range(1, len(parts))):
                raise ArchiveError(f"it has an entry that would leave its folder: {name!r} lies behind a link")
            os.symlink(target, self._made(name))
        root = os.path.realpath(self._folder)
        for name, target in self._links.items():
            # Not by the text of the target: a link on the way may lead elsewhere.
            if os.path.isabs(target) or not (os.path.realpath(self._path(name)) + os.sep).startswith(root + os.sep):
                raise ArchiveError(f"the link {name!r} leaves its folder: it leads to {target!r}")

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, *name.rstrip("/").split("/"))

    def _made(self, name: str) -> str:
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _refuse_links(self, name: str) -> None:
        if not self._may_link:
            raise ArchiveError(f"it has an entry that is no plain file: {name!r}")


def _unpack_zip(archive: zipfile.ZipFile, writing: _Unpacking) -> None:
    entries = archive.infolist()
    for entry in entries:  # all of them before anything is written
        writing.check(entry.filename)
    for entry in entries:
        mode = entry.external_attr >> 16
        kind = stat.S_IFMT(mode)
        if entry.is_dir():
            writing.add_folder(entry.filename)
        elif kind == stat.S_IFLNK:
            writing.add_link(entry.filename, os.fsdecode(archive.read(entry)))
        elif kind in (0, stat.S_IFREG):
            writing.add_file(entry.filename, archive.open(entry), mode)
        else:
            raise ArchiveError(f"it has an entry that is no plain file: {entry.filename!r}")


def _unpack_tar(archive: tarfile.TarFile, writing: _Unpacking) -> None:
    for entry in archive:
        name = _without_dot(entry.name)
        if name == "." and entry.isdir():
            continue
        writing.check(name)
        if entry.isdir():
            writing.add_folder(name)
        elif entry.issym():
            writing.add_link(name, entry.linkname)
        elif entry.islnk():
            writing.add_hard_link(name, _without_dot(entry.linkname))
        else:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise ArchiveError(f"it has an entry that is no plain file: {name!r}")
            writing.add_file(name, content, entry.mode)


def _without_dot(name: str) -> str:
    return name[2:] if name.startswith("./") else name


def _plain_copy(source: IO[bytes], target: IO[bytes]) -> None:
    shutil.copyfileobj(source, target, _COPY_BYTES)


@contextlib.contextmanager
def _damage_is_named() -> Iterator[None]:
    try:
        yield
    except ArchiveError:
        raise
    except _BROKEN_ARCHIVE as error:
        raise ArchiveError(f"it is damaged: {error}") from error
