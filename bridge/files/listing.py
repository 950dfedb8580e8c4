"""Files at addresses, listed lazily: local paths and globs, folders with their subfolders, and storages of fsspec."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from akdl.masking import shown
from akdl.storage.files import UNFINISHED, FileError, is_remote, local_path, opened_with_fsspec
from bridge.exceptions import refused_at

_SORTED = 20_000  # names of one folder; more are listed as the folder stores them, without holding them in memory
_HIDDEN = (".", "_")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
MANIFEST = "_manifest.json"  # of a sink, see publishing.py: the other files of the folder do not count


class FoundFile(NamedTuple):
    """A file: a local path or an address, and its bytes."""

    path: str
    size: int


def list_files(where: str, addresses: Sequence[str], may_be_empty: bool = False) -> Iterator[FoundFile]:
    """Yield the files of each address. In folders, names that begin with . or _ or end in .part are left out.

    Where a sink has left a manifest, the folder has the files that it names.
    """
    for address in addresses:
        with refused_at(f"{where}: parameter 'filePath'", FileError, OSError):
            files = _remote(address) if is_remote(address) else _local(local_path(address))
            first = next(files, None)
            if first is None and not may_be_empty:
                matches = "matches no files" if glob.has_magic(address) else "is a folder without files"
                raise FileError(f"{shown(address)} {matches}")
            yield from chain([] if first is None else [first], files)


def root_of(address: str) -> str:
    """Folder of an address below which names of folders may have values: itself, or what stands before a pattern."""
    path = address if is_remote(address) else local_path(address)
    exists = not is_remote(address) and os.path.exists(path)
    if exists or not glob.has_magic(path):
        return path
    return re.split(r"[*?\[]", path, maxsplit=1)[0].rpartition("/")[0]


def partition_values(path: str, roots: Sequence[str]) -> dict[str, str | None]:
    """Values in the names of folders below a root, such as {"day": "2024-05-31"} for /data/day=2024-05-31/0.parquet."""
    root = max((root for root in roots if path.startswith(root)), key=len, default=path)
    pairs = (name.partition("=") for name in path[len(root) :].split("/")[:-1] if "=" in name)
    return {unquote(key): None if value == NO_VALUE else unquote(value) for key, _, value in pairs}


def _local(path: str) -> Iterator[FoundFile]:
    if os.path.exists(path):
        return _below(path)
    if not glob.has_magic(path):
        raise FileError(f"there is no file {path}")
    found = (each for each in glob.iglob(path, recursive=True) if not _is_hidden(os.path.basename(each)))
    return chain.from_iterable(map(_below, _sorted(found if "**" not in path else filter(os.path.isfile, found))))


def _below(path: str) -> Iterator[FoundFile]:
    if not os.path.isdir(path):
        yield FoundFile(path, os.path.getsize(path))
        return
    if os.path.isfile(manifest := os.path.join(path, MANIFEST)):
        with open(manifest, "rb") as file:
            named = _named(file.read())
        if named is not None:
            yield from (FoundFile(each, os.path.getsize(each)) for each in (os.path.join(path, name) for name in named))
            return
    with os.scandir(path) as scanned:
        for entry in _sorted((entry for entry in scanned if not _is_hidden(entry.name)), key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _below(entry.path)
            else:
                with suppress(FileNotFoundError):  # removed meanwhile
                    yield FoundFile(entry.path, entry.stat().st_size)


def _remote(address: str) -> Iterator[FoundFile]:
    """Files of a storage; fsspec lists a folder as a whole, so at most one folder of each depth is in memory."""
    head, chained, rest = address.partition("::")  # as in zip://a.parquet::s3://bucket/b.zip
    with opened_with_fsspec(address) as (system, inside):
        head = head.rstrip("/")
        prefix = head[: -len(inside)] if inside and head.endswith(inside) else None
        system.invalidate_cache()
        if glob.has_magic(inside) and not system.exists(inside):
            found = system.glob(inside, detail=True)
            infos = [info for name, info in sorted(found.items()) if not _is_hidden(name.rpartition("/")[2])]
        else:
            infos = [system.info(inside)]
        for info in infos:
            for name, size in _below_remote(system, info):
                full = system.unstrip_protocol(name) if prefix is None else prefix + name
                yield FoundFile(f"{full}{chained}{rest}", size)


def _below_remote(system: Any, info: dict[str, Any]) -> Iterator[FoundFile]:
    if info["type"] != "directory":
        yield FoundFile(info["name"], int(info["size"] or 0))
        return
    folder = info["name"].rstrip("/")
    inside = {each["name"].rstrip("/"): each for each in system.ls(folder, detail=True)}
    system.invalidate_cache(folder)  # it may have a kilobyte for each file
    named = _named(system.cat_file(f"{folder}/{MANIFEST}")) if f"{folder}/{MANIFEST}" in inside else None
    if named is not None:
        found = system.find(folder, detail=True)
        for name in named:
            if f"{folder}/{name}" not in found:
                raise FileError(f"{folder}/{MANIFEST} names the file {name!r}, which does not exist")
            yield from _below_remote(system, found[f"{folder}/{name}"])
        return
    for name, each in sorted(inside.items()):
        if name != folder and not _is_hidden(name.rpartition("/")[2]):
            yield from _below_remote(system, each)


def _named(manifest: bytes) -> list[str] | None:
    """Names of the files that count in a folder; None if the manifest is not one of our sinks."""
    try:
        return sorted(json.loads(manifest)["files"])
    except (ValueError, KeyError, TypeError):
        return None


def _sorted(found: Iterator[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    return chain(sorted(islice(found, _SORTED), key=key), found)


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN) or name.endswith(UNFINISHED)
