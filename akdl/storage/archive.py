"""Safe unpacking of zip and tar files, compressed or not: no entry can write outside the folder.

Archives come from users and addresses, and a process unpacks them with the rights of Flink. Links
are created last, so that no file is written through a link. Unpacked bytes are counted against
limits, because a small file can unpack to terabytes. The filters of `tarfile` are newer than Python
3.7, and `zipfile` has no filters.
"""

from __future__ import annotations

import contextlib
import errno
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
from typing import IO, Any, Callable, Iterator, Mapping, NamedTuple

# Endings of files that are unpacked automatically.
SUFFIXES = (".zip", ".tar.gz", ".tgz")

_COPY_BYTES = 1 << 20
# Bytes of one part of a path, in all usual file systems, and of a whole path on Linux. Longer ones
# would be errors of the system in the middle of the unpacking.
_NAME_BYTES = 255
_PATH_BYTES = 4096
# Bytes of the record at the end of a zip file, with the longest comment.
_END_BYTES = 22 + 65535
# Bytes of the target of a link.
_TARGET_BYTES = 4096
# Bytes of the extended headers of a tar file, which `tarfile` reads into memory as a whole.
_HEADER_BYTES = 1 << 20
_EXTENDED = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
# Errors of zipfile and tarfile for damaged bytes, and of makedirs for an entry that is both a file
# and a folder.
_BROKEN_ARCHIVE = (
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

ByteFile = IO[bytes]
# Copies a file of the archive to its place.
Copy = Callable[[ByteFile, ByteFile], object]


class ArchiveError(ValueError):
    """The archive is damaged, of another format, or has entries that are not allowed."""


class Limits(NamedTuple):
    """Bounds of an archive's content; environment variables of the user raise them."""

    members: int = 1_000_000
    bytes: int = 100 << 30
    ratio: float = 200.0  # of content to archive, for content of more than `free_bytes`
    free_bytes: int = 1 << 30  # of content that an archive of any size may have

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Limits:
        default = cls()
        try:
            return cls(
                int(environment.get("AKDL_ARCHIVE_MEMBERS", default.members)),
                int(float(environment.get("AKDL_ARCHIVE_GB", default.bytes / 2**30)) * 2**30),
                float(environment.get("AKDL_ARCHIVE_RATIO", default.ratio)),
            )
        except (ValueError, OverflowError) as error:
            raise ArchiveError(f"a variable AKDL_ARCHIVE_...: {error}") from None


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def is_zip(path: str) -> bool:
    """Return True for a zip file. A tar file that ends with one, such as that of a .keras file,
    does not count, although Python's module takes it for one.
    """
    return zipfile.is_zipfile(path) and not tarfile.is_tarfile(path)


def unpack_archive(
    file: ByteFile,
    folder: str,
    links: bool = False,  # as Python environments have them; they must stay inside the folder
    copy: Copy = shutil.copyfileobj,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Unpack a zip or tar file into an empty folder; return its files without links, each with the
    result of `copy`.
    """
    size = file.seek(0, os.SEEK_END)
    writing = _Unpacking(folder, links, copy, Counter(limits or Limits.of(os.environ), size))
    file.seek(0)
    with damage_is_named():
        # The content decides and not the ending of the name, which may be wrong or missing. It is
        # read as a tar file first: one that ends with a zip file, such as an .npz or .keras file,
        # would be taken for that.
        try:
            opened = tarfile.open(fileobj=file, tarinfo=_TarEntry)
        except tarfile.ReadError as error:
            if not zipfile.is_zipfile(file):
                raise ArchiveError("it is damaged, or neither a zip nor a tar file") from error
            with zipfile.ZipFile(file) as archive:
                _unpack_zip(archive, writing)
        else:
            with opened:
                _unpack_tar(opened, writing)
        writing.make_links()
    return writing.files


class Counter:
    """Entries and bytes of one archive so far; ArchiveError above a limit, with its variable."""

    def __init__(self, limits: Limits, archive_bytes: int) -> None:
        self._limits = limits
        self._most = min(limits.bytes, max(limits.free_bytes, int(limits.ratio * archive_bytes)))
        self._archive_bytes = archive_bytes
        self._members = 0
        self._bytes = 0

    def add_member(self) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise ArchiveError(
                f"it has more than {self._limits.members} entries; if you trust it, set"
                " AKDL_ARCHIVE_MEMBERS to a higher number"
            )

    def add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._most:
            name = "AKDL_ARCHIVE_GB" if self._most == self._limits.bytes else "AKDL_ARCHIVE_RATIO"
            raise ArchiveError(
                f"{self._archive_bytes} bytes unpack to more than {self._most} bytes; if you trust"
                f" it, set {name} to a higher number"
            )


class Counted:
    """Content that is counted while it is read, since sizes in headers may be wrong."""

    def __init__(self, content: ByteFile, counter: Counter) -> None:
        self._content = content
        self._counter = counter

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        self._counter.add_bytes(len(data))
        return data


class _TarEntry(tarfile.TarInfo):
    """An entry with extended headers of limited size; a damaged entry is not mistaken for the end
    of the archive.
    """

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Any:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # the mark at the end
            raise
        except tarfile.HeaderError as error:  # tarfile would stop silently and lose the rest
            if archive.offset:
                raise ArchiveError(
                    f"it is damaged, or cut off: {error} at byte {archive.offset}"
                ) from error
            raise

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _EXTENDED and self.size > _HEADER_BYTES:
            raise ArchiveError(f"it has a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


class _Unpacking:
    """The folder of one archive, with the same rules for entries of zip and tar files.

    Each name is checked before its entry is written. Files and folders are written in the order of
    the archive, and links are collected until `make_links`.
    """

    def __init__(self, folder: str, links: bool, copy: Copy, counter: Counter) -> None:
        self.files: dict[str, Any] = {}
        self._folder = folder
        self._may_link = links
        self._copy = copy
        self._counter = counter
        self._names: set[str] = set()
        self._links: dict[str, str] = {}

    def check(self, name: str) -> None:
        self._counter.add_member()
        parts = name.rstrip("/").split("/")
        if any(len(os.fsencode(part)) > _NAME_BYTES for part in parts):
            raise ArchiveError(
                f"it has an entry whose name is longer than {_NAME_BYTES} bytes: {name[:40]!r}..."
            )
        if (
            not all(parts)
            or "\\" in name
            or {".", ".."} & set(parts)
            or re.match("[A-Za-z]:", name)
        ):
            raise ArchiveError(f"it has an entry that would leave its folder: {name!r}")
        if len(os.fsencode(self._path(name))) >= _PATH_BYTES:
            raise ArchiveError(
                f"it has an entry whose path is longer than {_PATH_BYTES} bytes: {name[:40]!r}..."
            )
        if name in self._names:
            raise ArchiveError(f"it has the entry {name!r} twice")
        self._names.add(name)

    def add_folder(self, name: str) -> None:
        os.makedirs(self._path(name), exist_ok=True)

    def add_file(self, name: str, content: ByteFile, mode: int) -> None:
        path = self._prepared(name)
        # With x, a file that exists is an error and is never overwritten.
        with content, open(path, "xb") as target:
            self.files[name] = self._copy(self.counted(content), target)  # type: ignore[arg-type]
        # Of the modes only the right to execute is taken, which programs in an environment need.
        # Others, such as set-uid, stay out.
        if mode & 0o111:
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | (mode & 0o111))

    def counted(self, content: ByteFile) -> Counted:
        return Counted(content, self._counter)

    def add_link(self, name: str, target: str) -> None:
        self._refuse_links(name)
        if len(os.fsencode(target)) > _TARGET_BYTES:
            raise ArchiveError(
                f"the link {name!r} leads to a name of more than {_TARGET_BYTES} bytes"
            )
        self._links[name] = target

    def add_hard_link(self, name: str, of: str) -> None:
        self._refuse_links(name)
        # An earlier file of the archive is inside the folder, so a link to it cannot lead out.
        if of not in self.files:
            raise ArchiveError(
                f"{name!r} is a link to {of!r}, which is not an earlier file of the archive"
            )
        os.link(self._path(of), self._prepared(name))
        self.files[name] = self.files[of]

    def make_links(self) -> None:
        """Create all links, then test where they lead, since one may pass through a later one."""
        for name, target in self._links.items():
            parts = name.split("/")
            if any("/".join(parts[:depth]) in self._links for depth in range(1, len(parts))):
                raise ArchiveError(
                    f"it has an entry that would leave its folder: {name!r} lies behind a link"
                )
            os.symlink(target, self._prepared(name))
        # The folder itself may be behind a link, as /tmp is on some systems.
        root = os.path.realpath(self._folder)
        for name, target in self._links.items():
            # realpath, because the target's text may pass through another link.
            if os.path.isabs(target) or not (
                os.path.realpath(self._path(name)) + os.sep
            ).startswith(root + os.sep):
                raise ArchiveError(f"the link {name!r} leaves its folder: it leads to {target!r}")

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, *name.rstrip("/").split("/"))

    def _prepared(self, name: str) -> str:
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _refuse_links(self, name: str) -> None:
        if not self._may_link:
            raise ArchiveError(f"it has an entry that is not a regular file: {name!r}")


def check_directory(archive: zipfile.ZipFile) -> None:
    """Compare the number of entries with the record at the end of a zip file, which zipfile
    ignores.
    """
    # Damage to the directory of a zip file makes entries disappear, and zipfile reads the remaining
    # ones without an error.
    file = archive.fp
    assert file is not None
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_BYTES))
    end = file.read()
    place = end.rfind(b"PK\5\6")
    found = len(archive.infolist())
    if not found and place != 0:  # an empty zip file has only this record
        raise ArchiveError("it is damaged: it lists no entries but has content")
    counts = set(struct.unpack_from("<HH", end, place + 8)) if place >= 0 else set()
    if b"PK\6\7" in end:
        counts.discard(0xFFFF)  # placeholder in large files
    if counts - {found}:
        raise ArchiveError(
            f"it is damaged: it has {found} entries, expected {max(counts - {found})}"
        )


def _unpack_zip(archive: zipfile.ZipFile, writing: _Unpacking) -> None:
    check_directory(archive)
    entries = archive.infolist()
    # A zip file lists its entries, so all are checked before anything is written. A tar file has no
    # list, and its entries are checked one by one.
    for entry in entries:
        writing.check(entry.filename)
    for entry in entries:
        mode = entry.external_attr >> 16
        # Programs that run on Windows write no Unix modes, so a kind of 0 is a regular file too.
        kind = stat.S_IFMT(mode)
        if entry.is_dir():
            if entry.file_size:
                raise ArchiveError(f"it is damaged: the folder {entry.filename!r} has content")
            writing.add_folder(entry.filename)
        elif kind == stat.S_IFLNK:
            with archive.open(entry) as content:
                writing.add_link(entry.filename, os.fsdecode(content.read(_TARGET_BYTES + 1)))
        elif kind in (0, stat.S_IFREG):
            writing.add_file(entry.filename, archive.open(entry), mode)
        else:
            raise ArchiveError(f"it has an entry that is not a regular file: {entry.filename!r}")


def _unpack_tar(archive: tarfile.TarFile, writing: _Unpacking) -> None:
    for entry in archive:
        name = _without_dot(entry.name)
        # `tar -C folder -cf a.tar .` begins with an entry for the folder itself.
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
                raise ArchiveError(f"it has an entry that is not a regular file: {name!r}")
            writing.add_file(name, content, entry.mode)
    # The rest is read, because the checksum of compressed data is at the end: without it a damaged
    # last file would be accepted.
    if archive.fileobj is not None:
        rest = writing.counted(archive.fileobj)  # type: ignore[arg-type]
        for data in iter(lambda: rest.read(_COPY_BYTES), b""):
            if data.strip(b"\0"):
                raise ArchiveError("it is damaged: something follows the mark at its end")


def _without_dot(name: str) -> str:
    return name[2:] if name.startswith("./") else name


@contextlib.contextmanager
def damage_is_named() -> Iterator[None]:
    """Turn the many errors of libraries for damaged bytes into ArchiveError.

    Errors of the disk pass unchanged, because the archive may be good.
    """
    try:
        yield
    except ArchiveError:
        raise
    except _BROKEN_ARCHIVE as error:
        raise ArchiveError(f"it is damaged: {error}") from error
    except OSError as error:
        # An error of the file system. For damaged bytes, bz2 raises one without errno, and zipfile
        # one for a negative seek.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise ArchiveError(f"it is damaged: {error}") from error
