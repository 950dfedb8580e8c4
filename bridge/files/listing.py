"""Files at addresses, listed lazily: local paths and globs, folders with their subfolders, and storages of fsspec."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from akdl.masking import shown
from akdl.storage.files import UNFINISHED, FileError, is_remote, local_path, opened_with_fsspec
from bridge.exceptions import ConfigurationError

_SORTED = 20_000  # names of one folder; more are listed as the folder stores them, without holding them in memory
_HIDDEN = (".", "_")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class FoundFile(NamedTuple):
    """A file: a local path or an address, and its bytes."""

    path: str
    size: int


def list_files(where: str, addresses: Sequence[str], may_be_empty: bool = False) -> Iterator[FoundFile]:
    """Yield the files of each address; without names that begin with . or _, or that end in .part, inside folders."""
    for address in addresses:
        try:
            files = _remote(address) if is_remote(address) else _local(local_path(address))
            first = next(files, None)
            if first is None and not may_be_empty:
                matches = "matches no files" if glob.has_magic(address) else "is a folder without files"
                raise FileError(f"{shown(address)} {matches}")
            yield from chain([] if first is None else [first], files)
        except (FileError, OSError) as error:
            raise ConfigurationError(f"{where}: parameter 'filePath': {error}") from None


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
    for each in sorted(system.ls(info["name"], detail=True), key=lambda each: str(each["name"])):
        name = each["name"].rstrip("/")
        if name != info["name"].rstrip("/") and not _is_hidden(name.rpartition("/")[2]):
            yield from _below_remote(system, each)


def _sorted(found: Iterator[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    return chain(sorted(islice(found, _SORTED), key=key), found)


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN) or name.endswith(UNFINISHED)
