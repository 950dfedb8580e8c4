"""Files at addresses, listed lazily: local paths and globs, folders with their subfolders, and
storages of fsspec.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, takewhile
from types import MappingProxyType
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

from akdl.masking import shown
from akdl.storage.files import (
    UNFINISHED,
    FileError,
    is_remote,
    local_path,
    opened_with_fsspec,
    place_of,
)
from akdl.storage.limits import TEXT
from akdl.storage.local_files import ENDING
from akdl.wire.column_type import parse_type
from bridge.exceptions import refused_at

_FileSystem = Any  # of fsspec, which is installed only where it is needed
# So many names of a folder are sorted. Further ones are listed in the order in which the folder
# stores them, so that they are not all in memory.
_SORTED = 20_000
_HIDDEN = (".", "_")
# The end of the name of a staging folder of a sink, and of the earlier files while they are
# replaced.
STAGED = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(ENDING)}(\.old)?$")
# Hive and Spark give this name to the partition of null.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# A sink writes this file, see publishing.py. If it names files, the other files of the folder do
# not count.
MANIFEST = "_manifest.json"


class FoundFile(NamedTuple):
    """A file: a local path or an address, and its bytes."""

    path: str
    size: int


def list_files(
    where: str, addresses: Sequence[str], may_be_empty: bool = False
) -> Iterator[FoundFile]:
    """Yield the files of each address, lazily, since there may be millions.

    In folders and below patterns, hidden names are left out, unless the pattern has them literally.
    If a sink has left a manifest in a folder, the folder has the files that the manifest names.

    Raises:
        ConfigurationError: An address has no files, or cannot be listed.
    """
    for address in addresses:
        with refused_at(f"{where}: parameter 'filePath'", FileError, OSError):
            files = _remote(address) if is_remote(address) else _local(local_path(address))
            is_empty = True
            for file in files:
                is_empty = False
                yield file
            if is_empty and not may_be_empty:
                matches = (
                    "matches no files" if glob.has_magic(address) else "is a folder without files"
                )
                raise FileError(f"{shown(address)} {matches}")


class Manifest(NamedTuple):
    """Notes of a sink on its folder: the files that count, if not all do, and SQL types of names of
    folders.
    """

    files: list[str] | None = None
    partitions: Mapping[str, str] = MappingProxyType({})


def manifest_of(folder: str) -> Manifest:
    """Read the notes of a sink on a folder, perhaps of a stranger; an empty manifest without any,
    and for one of another program.
    """
    if not is_remote(folder):
        with suppress(FileNotFoundError), open(os.path.join(folder, MANIFEST), "rb") as file:
            return read_manifest(folder, file)
        return Manifest()
    with opened_with_fsspec(folder) as (system, inside):
        if not system.isfile(f"{inside}/{MANIFEST}"):
            return Manifest()
        return _remote_manifest(system, inside)


def root_of(address: str) -> str:
    """Folder of an address below which names of folders may have values: itself, or what stands
    before a pattern.
    """
    path = place_of(address)
    exists = not is_remote(address) and os.path.exists(path)
    if exists or not glob.has_magic(path):
        return path
    return re.split(r"[*?\[]", path, maxsplit=1)[0].rpartition("/")[0]


def partition_values(path: str, roots: Sequence[str]) -> dict[str, str | None]:
    """Values in the names of folders below a root, such as {"day": "2024-05-31"} for
    /data/day=2024-05-31/0.parquet.
    """
    pairs = (name.partition("=") for name in _folders(path, roots)[1] if _is_partition(name))
    return {unquote(key): None if value == NO_VALUE else unquote(value) for key, _, value in pairs}


def partitioned_folder(path: str, roots: Sequence[str]) -> str:
    """Folder that has the partitions of a file: what stands before the first name with a value."""
    root, names = _folders(path, roots)
    return root + "/".join(takewhile(lambda name: not _is_partition(name), names))


def _folders(path: str, roots: Sequence[str]) -> tuple[str, list[str]]:
    # Of two roots of which one is inside the other, the inner one counts: names of folders above it
    # are part of an address.
    root = max((root for root in roots if path.startswith(root)), key=len, default=path)
    return root, path[len(root) :].split("/")[:-1]


def _local(path: str) -> Iterator[FoundFile]:
    # This comes before the patterns, because the name of a file may have the characters of one,
    # such as [1].
    if os.path.exists(path):
        return _below(path)
    if not glob.has_magic(path):
        raise FileError(f"there is no file {path}")
    found = (
        each
        for each in glob.iglob(path, recursive=True)
        if not _has_hidden(each, path, os.path.isdir(each))
    )
    # With **, a pattern yields folders and also the files in them, so a folder would be listed
    # twice.
    return chain.from_iterable(
        map(_below, _sorted(found if "**" not in path else filter(os.path.isfile, found)))
    )


def _below(path: str) -> Iterator[FoundFile]:
    if not os.path.isdir(path):
        yield FoundFile(path, os.path.getsize(path))
        return
    named = manifest_of(path).files
    if named is not None:
        # A manifest may be a stranger's, and its names could point to any file of the host, also
        # by links.
        inside = os.path.join(os.path.realpath(path), "")
        for each in (os.path.join(path, name) for name in named):
            if not os.path.realpath(each).startswith(inside) or not os.path.isfile(each):
                raise FileError(
                    f"{path}/{MANIFEST} names {each!r}, which is not a file of this folder"
                )
            yield FoundFile(each, os.path.getsize(each))
        return
    with os.scandir(path) as scanned:
        seen = (
            entry
            for entry in scanned
            if not _is_hidden(entry.name, "=" in entry.name and entry.is_dir())
        )
        for entry in _sorted(seen, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _below(entry.path)
            else:
                # The file may have been removed since the folder was read.
                with suppress(FileNotFoundError):
                    yield FoundFile(entry.path, entry.stat().st_size)


def _remote(address: str) -> Iterator[FoundFile]:
    """Files of a storage; fsspec lists a folder as a whole, so at most one folder of each depth is
    in memory.
    """
    head, chained, rest = address.partition("::")  # as in zip://a.parquet::s3://bucket/b.zip
    with opened_with_fsspec(address) as (system, inside):
        head = head.rstrip("/")
        prefix = head[: -len(inside)] if inside and head.endswith(inside) else None
        # fsspec keeps listings, and would not see files that have appeared since.
        system.invalidate_cache()
        if glob.has_magic(inside) and not system.exists(inside):
            found = system.glob(inside, detail=True)
            infos = [
                info
                for name, info in sorted(found.items())
                if not _has_hidden(name.rstrip("/"), inside, info["type"] == "directory")
                # With **, a folder would be listed twice, as in `_local`.
                and not ("**" in inside and info["type"] == "directory")
            ]
        else:
            infos = [system.info(inside)]
        for info in infos:
            for name, size in _below_remote(system, info):
                full = system.unstrip_protocol(name) if prefix is None else prefix + name
                yield FoundFile(f"{full}{chained}{rest}", size)


def _below_remote(system: _FileSystem, info: dict[str, Any]) -> Iterator[FoundFile]:
    if info["type"] != "directory":
        yield FoundFile(info["name"], int(info["size"] or 0))
        return
    folder = info["name"].rstrip("/")
    inside = {each["name"].rstrip("/"): each for each in system.ls(folder, detail=True)}
    # The cache of fsspec may take a kilobyte for each file.
    system.invalidate_cache(folder)
    named = _remote_manifest(system, folder).files if f"{folder}/{MANIFEST}" in inside else None
    if named is not None:
        found = system.find(folder, detail=True)
        for name in named:
            if f"{folder}/{name}" not in found:
                raise FileError(
                    f"{folder}/{MANIFEST} names the file {name!r}, which does not exist"
                )
            yield from _below_remote(system, found[f"{folder}/{name}"])
        return
    for name, each in sorted(inside.items()):
        if name != folder and not _is_hidden_remote(each):
            yield from _below_remote(system, each)


def _remote_manifest(system: _FileSystem, folder: str) -> Manifest:
    with system.open(f"{folder}/{MANIFEST}", "rb") as file:
        return read_manifest(folder, file)


def read_manifest(folder: str, file: IO[bytes]) -> Manifest:
    """Read an open file of such notes; `folder` is named in its errors."""
    try:
        found = json.loads(TEXT.read(file))
        if not isinstance(found, dict):
            return Manifest()
        files = found.get("files", {})
        partitions = found.get("partitions", {})
        if not isinstance(files, dict) or not isinstance(partitions, dict):
            raise ValueError("expected objects of files and partitions")
        if any(
            not name or "\0" in name or name[0] == "/" or ".." in name.split("/") for name in files
        ):
            raise ValueError("expected relative names of files")
        # Types are parsed only to refuse a manifest with others.
        for type_ in partitions.values():
            parse_type(type_)
    # A stranger's JSON may be nested so deeply that Python's parser raises RecursionError.
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{folder}/{MANIFEST} is not a manifest that a sink has written: {str(error)[:200]}:"
            " remove it, or give a pattern"
        ) from None
    return Manifest(sorted(files) if "files" in found else None, partitions)


def _sorted(found: Iterator[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """Sort the first 20,000 of them; see `_SORTED`."""
    return chain(sorted(islice(found, _SORTED), key=key), found)


def _is_partition(name: str) -> bool:
    return name.find("=") > 0


def _is_hidden(name: str, is_folder: bool) -> bool:
    """True for temporary files and folders; as in Spark and Hive, a folder such as _year=2024 is a
    partition.
    """
    if is_folder and _is_partition(name):
        # A sink whose target is a partition has its staging folder next to it.
        return STAGED.search(name) is not None
    return name.startswith(_HIDDEN) or name.endswith((UNFINISHED, ENDING, f"{ENDING}.old"))


def _has_hidden(path: str, pattern: str, is_folder: bool) -> bool:
    """True if a name in a path is hidden, and is not in the pattern that has found the path."""
    *folders, name = path.split("/")
    literal = pattern.split("/")
    return any(_is_hidden(each, True) for each in folders if each not in literal) or (
        name not in literal and _is_hidden(name, is_folder)
    )


def _is_hidden_remote(info: dict[str, Any]) -> bool:
    return _is_hidden(info["name"].rstrip("/").rpartition("/")[2], info["type"] == "directory")
