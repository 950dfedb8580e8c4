"""A model folder as numbered rows of a table, in Alink's format, and back.

Row 0 is the name of a zip archive; rows 1 to n are the base64 text of its consecutive pieces of 1,048,576 bytes. The
archive holds the contents of the SavedModel's folder, and a manifest of ours with the size and SHA-256 of each file.
Archives written by Alink have no manifest and can be read all the same.
"""

import base64
import binascii
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from typing import Any, Dict, Iterable, Iterator, List, Tuple

CHUNK_BYTES = 1 << 20
MANIFEST = "akdl_manifest.json"
ROWS_AT_ONCE = 4  # of the model table in one message


class ModelError(ValueError):
    """A folder or a table that holds no model that can be used."""


def find_saved_model(folder: str) -> str:
    """Return the SavedModel in `folder`: the folder itself, or the only one directly below it.

    Raises:
        ModelError: There is none, or more than one.
    """
    if _is_saved_model(folder):
        return folder
    below = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [name for name in below if _is_saved_model(os.path.join(folder, name))]
    if len(found) != 1:
        raise ModelError(
            "expected one SavedModel in {}, directly or one folder below; found {} there: {}".format(
                folder, f"{len(found)} models" if found else "none", ", ".join(found or below) or "nothing"
            )
        )
    return os.path.join(folder, found[0])


def pack(folder: str) -> Iterator[Tuple[int, str]]:
    """Yield the rows (model_id, model_info) of the model in `folder`. One piece is in memory at a time."""
    with tempfile.TemporaryFile() as archive:
        _write_archive(folder, archive)
        archive.seek(0)
        yield 0, os.path.basename(os.path.normpath(folder)) + ".zip"
        for number, piece in enumerate(iter(lambda: archive.read(CHUNK_BYTES), b""), start=1):
            yield number, base64.b64encode(piece).decode("ascii")


def unpack(rows: Iterable[Tuple[int, str]], target: str) -> str:
    """Write the model of a model table into the folder `target`, which must not exist, and return its path.

    Args:
        rows: (model_id, model_info) in any order.
        target: The new folder.

    Raises:
        ModelError: A row is missing, doubled or damaged, or the archive is no archive of a model.
    """
    with tempfile.TemporaryFile() as archive:
        _gather(rows, archive)
        try:
            with zipfile.ZipFile(archive) as opened:
                os.makedirs(target)
                _extract(opened, target)
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise ModelError(f"the model table holds no whole archive: {error}") from error
        except ModelError:
            shutil.rmtree(target, ignore_errors=True)
            raise
    return target


def write_model(folder: str, output_writer: Any) -> None:
    """Write the model in `folder` as rows through a task's output writer, columns model_id and model_info."""
    waiting: List[Tuple[int, str]] = []
    for row in pack(folder):
        waiting.append(row)
        if len(waiting) == ROWS_AT_ONCE:
            _write(waiting, output_writer)
            waiting = []
    _write(waiting, output_writer)


def _write(rows: List[Tuple[int, str]], output_writer: Any) -> None:
    if rows:
        output_writer.write_batch({"model_id": [row[0] for row in rows], "model_info": [row[1] for row in rows]})


def _is_saved_model(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in ("saved_model.pb", "saved_model.pbtxt"))


def _write_archive(folder: str, archive: Any) -> None:
    manifest: Dict[str, Any] = {"files": {}}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as opened:
        for path in _files(folder):
            name = os.path.relpath(path, folder).replace(os.sep, "/")
            manifest["files"][name] = {"size": os.path.getsize(path), "sha256": _sha256(path)}
            with open(path, "rb") as source, opened.open(_entry(name), "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, CHUNK_BYTES)
        opened.writestr(_entry(MANIFEST), json.dumps(manifest, indent=1, sort_keys=True))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980: the same model makes the same archive
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _files(folder: str) -> List[str]:
    return sorted(os.path.join(base, name) for base, _, names in os.walk(folder) for name in names)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(piece)
    return digest.hexdigest()


def _gather(rows: Iterable[Tuple[int, str]], archive: Any) -> None:
    """Put each piece where it belongs; all but the last are full, so their places are known in any order."""
    sizes: Dict[int, int] = {}
    for number, text in rows:
        if number in sizes:
            raise ModelError(f"the model table has row {number} twice")
        if number == 0:
            sizes[0] = 0
            continue
        try:
            piece = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ModelError(f"row {number} of the model table is no base64 text: {error}") from error
        sizes[number] = len(piece)
        archive.seek((number - 1) * CHUNK_BYTES)
        archive.write(piece)
    missing = sorted(set(range(max(sizes, default=0) + 1)) - set(sizes))
    if missing or len(sizes) < 2:
        raise ModelError("the model table lacks row {}".format(", ".join(map(str, missing or [0, 1]))))
    short = [number for number in range(1, max(sizes)) if sizes[number] != CHUNK_BYTES]
    if short:
        raise ModelError(f"row {short[0]} of the model table holds {sizes[short[0]]} bytes, not {CHUNK_BYTES}")


def _extract(archive: zipfile.ZipFile, target: str) -> None:
    for entry in archive.infolist():
        path = os.path.normpath(os.path.join(target, entry.filename))
        is_link = (entry.external_attr >> 16) & 0o170000 == 0o120000
        if is_link or not path.startswith(os.path.normpath(target) + os.sep):
            raise ModelError(f"the archive of the model would write outside its folder: {entry.filename!r}")
        if entry.filename.endswith("/"):
            os.makedirs(path, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(entry) as source, open(path, "wb") as sink:
            shutil.copyfileobj(source, sink, CHUNK_BYTES)
    _check_manifest(target)
    if not _is_saved_model(target):
        raise ModelError("the archive holds no saved_model.pb; it holds {}".format(", ".join(archive.namelist()[:10])))


def _check_manifest(target: str) -> None:
    path = os.path.join(target, MANIFEST)
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        files = json.load(file)["files"]
    for name, expected in files.items():
        member = os.path.join(target, *name.split("/"))
        if not os.path.isfile(member) or _sha256(member) != expected["sha256"]:
            raise ModelError(f"the file {name!r} of the model is missing or damaged")
