"""A SavedModel, or any folder, as rows of a table in Alink's format.

Row 0 names a zip file, and rows 1 to n are its chunks as base64, in any order. akdl adds
`MANIFEST`, with which `unpack` verifies every file. A model may include a checkpoint to continue
its training: row 0 is then a JSON list with the name, size and number of chunks of two zips, whose
chunks follow one another. Rows of a table have no order, so each chunk carries its number.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import hashlib
import itertools
import json
import operator
import os
import shutil
import stat
import tempfile
import zipfile
from typing import Any, Iterable, Iterator

from akdl.near_names import short
from akdl.storage.archive import ArchiveError, ByteFile, unpack_archive
from akdl.storage.limits import TEXT
from akdl.storage.model_forms import ModelError, find_model, find_saved_model

# Bytes of a chunk, fixed by Alink. `unpack` computes the place of a chunk from it, so chunks may
# arrive in any order.
CHUNK_BYTES = 1 << 20
MANIFEST = "akdl_manifest.json"

# Rows that `write_model` writes at a time: each has 1.4 MB of text.
_ROWS_PER_PIECE = 4
# At most 1 TiB of chunks. A larger id does not number a chunk, and would make a sparse file of any
# size.
_MOST_CHUNKS = 1 << 20
_COPY_BYTES = 1 << 20
# The earliest date of zip files. A fixed date makes archives of equal models equal, so that models
# in modelDir, which are named by their content, keep their names.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def pack(
    folder: str, checkpoint: str | None = None, as_is: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield the rows of the SavedModel in `folder`, or with `as_is` of any content; equal
    directories give equal rows.

    Memory stays at a few chunks, whatever the size of the model; the zip file is a temporary file.

    Args:
        folder: See `find_saved_model`.
        checkpoint: A folder whose contents are added in a zip file of their own.

    Raises:
        ModelError: There is no SavedModel, or it holds a symbolic link to a folder.
    """
    folders = [folder if as_is else find_saved_model(folder)]
    folders += [] if checkpoint is None else [checkpoint]
    names = [os.path.abspath(each) + ".zip" for each in folders]
    with contextlib.ExitStack() as stack:
        spools = [
            stack.enter_context(tempfile.TemporaryFile(prefix="akdl-model-")) for _ in folders
        ]
        for each, spool in zip(folders, spools):
            write_zip(each, spool, has_manifest=spool is spools[0])
        head = os.path.basename(names[0])
        if checkpoint is not None:
            head = json.dumps(
                [
                    {
                        "name": name,
                        "size": spool.tell(),
                        "chunk_size": CHUNK_BYTES,
                        "chunks": -(-spool.tell() // CHUNK_BYTES),
                    }
                    for name, spool in zip(names, spools)
                ]
            )
        yield 0, head
        number = 0
        for spool in spools:
            spool.seek(0)
            for chunk in iter(functools.partial(spool.read, CHUNK_BYTES), b""):
                number += 1
                yield number, base64.b64encode(chunk).decode("ascii")


def unpack(rows: Iterable[tuple[int, str]], target: str, as_is: bool = False) -> str:
    """Write the model in the rows into the folder `target`, as a whole or not at all; return its
    path.

    Args:
        rows: (model_id, model_info), in any order.
        target: A folder that does not exist or is empty.
        as_is: The model need not be a SavedModel; `target` is returned.

    Raises:
        ModelError: The rows are not a model, or a damaged one: a chunk is missing, repeated or
            unreadable, an entry would leave the folder, or a file differs from the manifest.
    """
    with _new_folder(target, as_is) as folder, tempfile.TemporaryFile(
        dir=os.path.dirname(folder)
    ) as spool:
        _write_chunks(rows, spool)
        _extract(spool, folder)
    return target if as_is else find_model(os.path.abspath(target))


def unpack_file(path: str, target: str) -> str:
    """Write the model of an archive file into the folder `target` and return its path.

    Args:
        path: A zip, tar, tar.gz or tar.bz2 file with a model at its root, or a SavedModel in one
            folder.
        target: A folder that does not exist or is empty. It appears with the whole model or not at
            all.

    Raises:
        ModelError: The file is not such an archive, or is damaged.
    """
    with _new_folder(target) as folder, open(path, "rb") as file:
        _extract(file, folder, path)
    return find_model(os.path.abspath(target))


def write_model(
    folder: str, output_writer: Any, checkpoint: str | None = None, as_is: bool = False
) -> None:
    """Send the model in `folder` as rows of a table with the columns model_id BIGINT and model_info
    STRING.

    Args:
        folder: See `pack`, as for `checkpoint` and `as_is`.
        output_writer: `task_config.output_writer`, or anything with its `write_batch`.

    Raises:
        ModelError: See `pack`.
    """
    rows = pack(folder, checkpoint, as_is)
    for piece in iter(lambda: list(itertools.islice(rows, _ROWS_PER_PIECE)), []):
        ids, texts = zip(*piece)
        output_writer.write_batch({"model_id": list(ids), "model_info": list(texts)})


@contextlib.contextmanager
def _new_folder(target: str, as_is: bool = False) -> Iterator[str]:
    """Yield an empty folder that becomes `target` once it holds a model, or with `as_is` once it is
    filled.
    """
    target = os.path.abspath(target)
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise ModelError(
            f"the model cannot be written to {target}: it exists and is not an empty folder"
        )
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # The folder is made next to the target, because a rename works within one file system only.
    work = tempfile.mkdtemp(prefix=".akdl-model-", dir=os.path.dirname(target))
    try:
        folder = os.path.join(work, "model")
        os.mkdir(folder)
        yield folder
        if not as_is:
            find_model(folder)
        os.rename(folder, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


# Directory to zip.


def write_zip(
    folder: str, file: ByteFile, has_manifest: bool = True, compress: bool = True
) -> None:
    """Write a folder as a zip file at the file's position."""
    files: dict[str, dict[str, Any]] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _contents(folder):
            if name.endswith("/"):
                archive.writestr(_entry(name, 0, stat.S_IFDIR | 0o755), b"")
                continue
            path = os.path.join(folder, name)
            entry = _entry(name, os.path.getsize(path), stat.S_IFREG | 0o644)
            if not compress:
                entry.compress_type = zipfile.ZIP_STORED
            with open(path, "rb") as source, archive.open(entry, "w") as packed:
                files[name] = _copy(source, packed)
        if has_manifest:
            text = json.dumps({"files": files}, sort_keys=True, indent=1)
            archive.writestr(_entry(MANIFEST, len(text), stat.S_IFREG | 0o644), text)
    file.seek(0, os.SEEK_END)


def _contents(folder: str) -> Iterator[str]:
    """Yield names of files, and of empty folders with a final slash, in a fixed order."""
    for parent, folders, files in os.walk(folder):
        # `os.walk` visits folders in the order of this list, which the disk leaves open. Equal
        # models have to give equal archives.
        folders.sort()
        inside = os.path.relpath(parent, folder)
        prefix = "" if inside == "." else inside + "/"
        for name in folders:
            if os.path.islink(os.path.join(parent, name)):
                raise ModelError(
                    f"{prefix}{name} in {folder} is a link to a folder: replace it by the files"
                )
        if prefix and not folders and not files:
            yield prefix
        for name in sorted(files):
            if prefix + name != MANIFEST:  # a new manifest is written
                yield prefix + name


def _entry(name: str, size: int, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EARLIEST)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, whose modes follow
    entry.external_attr = mode << 16
    # The size is set beforehand, so that zipfile can choose the format for large files.
    entry.file_size = size
    return entry


def _copy(source: ByteFile, target: ByteFile) -> dict[str, Any]:
    size, digest = 0, hashlib.sha256()
    for piece in iter(lambda: source.read(_COPY_BYTES), b""):
        target.write(piece)
        digest.update(piece)
        size += len(piece)
    return {"size": size, "sha256": digest.hexdigest()}


# Rows to directory.


def _write_chunks(rows: Iterable[tuple[int, str]], spool: ByteFile) -> None:
    """Write chunks, which arrive in any order, to their places in a file; all have to be there.

    Only the last chunk of a zip may be short, because places are multiples of `CHUNK_BYTES`.
    """
    seen: set[int] = set()
    short: set[int] = set()
    of_model: int | None = None
    for row_id, text in rows:
        number = _number(row_id, text)
        if number in seen:
            raise ModelError(f"the model row with model_id {number} occurs twice")
        seen.add(number)
        if number == 0:
            of_model = _bytes_of_model(text)
            continue
        chunk = _decode(number, text)
        if len(chunk) < CHUNK_BYTES:
            short.add(number)
        spool.seek((number - 1) * CHUNK_BYTES)
        spool.write(chunk)
    if not seen:
        raise ModelError("expected the rows of a model, got no rows")
    last = max(seen)
    if len(seen) != last + 1:
        # Among the first len(seen) + 1 numbers at least one is missing, so a huge id does not make
        # a huge list.
        missing = [str(number) for number in range(min(last, len(seen) + 1)) if number not in seen]
        raise ModelError(
            "the rows of the model are incomplete: {} of {} are missing, among them model_id {}".format(  # noqa: E501
                last + 1 - len(seen), last + 1, ", ".join(missing[:5])
            )
        )
    if last == 0:
        raise ModelError(
            "the rows of the model are incomplete: there is a file name and no content"
        )
    chunks = last if of_model is None else -(-of_model // CHUNK_BYTES)
    short -= {last, chunks}
    if short:
        raise ModelError(
            f"the chunk with model_id {min(short)} is shorter than {CHUNK_BYTES} bytes"
        )
    if of_model is not None:
        if not 0 < chunks <= last:
            raise ModelError(
                f"the row with model_id 0 gives {chunks} as the number of the model's chunks, found"
                f" {last}"
            )
        # The rest is the checkpoint. A reader of zip files starts at the end of the file, so it
        # would find the list of the checkpoint's zip.
        spool.truncate(of_model)


def _bytes_of_model(head: Any) -> int | None:
    """Return the size of the model's zip from row 0; None where there is one zip alone."""
    if isinstance(head, str) and head.endswith(".zip"):
        return None
    facts = None
    with contextlib.suppress(ValueError, TypeError, KeyError, IndexError):
        facts = json.loads(head)
        return int(facts[0]["size"])
    if isinstance(head, str) and "akdl-model-" in head:
        raise ModelError(
            "the table names a model in the modelDir of the operator that trained it,"
            f" {short(head)}: predict with that operator as the model, or with the zip file"
            " there as modelPath"
        )
    # The first row of Alink's models that are not SavedModels is a JSON object.
    if not isinstance(facts, dict):
        raise ModelError(
            f"the row with model_id 0 should hold the name of a zip file, got {short(head)}"
        )
    if "tfModelPartitionStart" in facts:
        raise ModelError(
            "the rows are a model of Alink's KerasSequential or of another of its trainers, whose"
            " SavedModel gives logits: train it here with the operator of the same name"
        )
    raise ModelError(
        "the rows are a model of Alink without TensorFlow:"
        f" {short(facts.get('modelName', sorted(facts)))}"
    )


def _number(row_id: Any, text: object) -> int:
    try:
        number = operator.index(row_id)
    except TypeError:
        number = -1
    if not 0 <= number < _MOST_CHUNKS:
        raise ModelError(
            "the rows are not a model: expected rows of (model_id, model_info) numbered from 0, "
            f"got {row_id!r} with {short(text)}"
        )
    return number


def _decode(number: int, text: Any) -> bytes:
    try:
        # With `validate`, foreign characters are an error. Otherwise they would be skipped, and the
        # chunk be shorter.
        chunk = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ModelError(
            f"the row with model_id {number} should hold a chunk as base64 text, got {short(text)}"
            f" ({error})"
        ) from error
    if not 0 < len(chunk) <= CHUNK_BYTES:
        raise ModelError(
            f"the chunk with model_id {number} holds {len(chunk)} bytes, expected 1 to"
            f" {CHUNK_BYTES}"
        )
    return chunk


def _extract(
    archive: ByteFile, folder: str, name: str = "the archive that holds the model"
) -> None:
    try:
        files = unpack_archive(archive, folder, copy=_copy)
    except ArchiveError as error:
        raise ModelError(
            f"{name}: expected a zip or tar file with a SavedModel, but {error}"
        ) from error
    # Archives of Alink and of other programs have no manifest, and are only checked by their
    # format.
    if files.pop(MANIFEST, None) is not None:
        path = os.path.join(folder, MANIFEST)
        with open(path, "rb") as file:
            try:
                manifest = json.loads(TEXT.read(file))
            except (ValueError, RecursionError) as error:
                raise ModelError(
                    f"{name}: its manifest {MANIFEST} cannot be read: {error}"
                ) from error
        os.remove(path)
        _check_manifest(manifest, files)


def _check_manifest(manifest: object, files: dict[str, dict[str, object]]) -> None:
    expected = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(expected, dict):
        raise ModelError(f"the model's manifest {MANIFEST} has no list of files")
    if set(expected) != set(files):
        raise ModelError(
            "the model's files differ from the list in its manifest: {}".format(
                ", ".join(sorted(set(expected) ^ set(files)))
            )
        )
    for name, line in expected.items():
        if line != files[name]:
            raise ModelError(
                f"the model's file {name} does not match its manifest: expected {line}, got"
                f" {files[name]}"
            )
