"""Publication of the files of a sink, all at once, in place of earlier ones.

Subtasks write into a staging folder next to the target, which is renamed to the target. On object
stores, where a rename is a copy, they write into the target folder, and the file `_manifest.json`,
which names the files that count, is written last; the first job of an empty folder begins with one
that names no files. Each step can be repeated, because the job may fail after it.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, local_path, opened_with_fsspec
from akdl.storage.local_files import ENDING
from bridge.exceptions import BridgeError, ConfigurationError, refused_at
from bridge.files.listing import MANIFEST, STAGED, Manifest, read_manifest
from bridge.formats.csv_text import PLAIN_CSV, CsvForm
from bridge.formats.file_columns import flink_type
from bridge.formats.formats import FORMATS, FileFormat

CHECKPOINT_ENDS_FILE = (
    "filePath names one file, which a checkpoint would end: let it end with '/', so that it is a"
    " folder, or run the job without checkpoints"
)
# A staging folder without changes for a day belongs to a program that has been killed.
_DEAD_S = 86_400

logger = logging.getLogger(__name__)

Files = dict[str, list[int]]
"""Rows and bytes of each file, by its name inside the folder."""


@dataclass(frozen=True)
class FileSink:
    """Target of the files and their form, which travels to the subtasks.

    Args:
        operator: Name of the sink, for errors.
        address: Path or address of the target.
        form: Name of the format.
        token: Part of all names of one run.
        types: Columns with the zone of instants, which Flink's Arrow lacks.
        is_single: The target is one file, and not a folder.
        appends: Files of a stream are added to the folder with each checkpoint.
        partition_by: Columns whose cells are in names of folders, and not in the files.
        most_bytes: Size at which a file ends; None for no limit.
        csv: Form of CSV.
        instants: Columns of instants that are written as text. Behind the columns of `types`, the
            rows have a mark for each: true if its text would stand for another instant too.
    """

    operator: str
    address: str
    form: str
    token: str  # part of all names of one run
    types: pa.Schema
    is_single: bool = False
    appends: bool = False
    partition_by: tuple[str, ...] = ()
    most_bytes: int | None = None
    csv: CsvForm = PLAIN_CSV
    instants: tuple[str, ...] = ()

    @property
    def format(self) -> FileFormat:
        return FORMATS[self.form]

    @property
    def staging(self) -> str:
        return f"{self.address.rstrip('/')}.{self.token}{ENDING}"

    @property
    def keeps_manifest(self) -> bool:
        return is_remote(self.address) and not self.is_single and not self.appends

    @property
    def own_name(self) -> re.Pattern[str]:
        """Form of the names of this run's files and records: checkpoint, subtask, token, and eight
        digits of the attempt.
        """
        return name_with(self.token)


def name_with(token: str) -> re.Pattern[str]:
    return re.compile(
        rf"(part|_c(?P<checkpoint>\d+))-(?P<subtask>\d{{5,}})-{token}[0-9a-f]{{8}}(-\d+\.\w+)?"
    )


_OF_SINKS = name_with("[0-9a-f]{8}")


@contextmanager
def opened_file_system(address: str) -> Iterator[tuple[FileSystem, str]]:
    """Yield the file system of an address, and the path in it; errors of a storage become a
    FileError.
    """
    if not is_remote(address):
        yield LocalFileSystem(), local_path(address)
        return
    with opened_with_fsspec(address) as (system, path):
        yield PyFileSystem(FSSpecHandler(system)), path


def file_system(address: str) -> tuple[FileSystem, str]:
    with opened_file_system(address) as found:
        return found


def check_target(sink: FileSink, overwrite: bool) -> None:
    """Refuse a target that exists, unless it may be overwritten.

    Even then, a folder with files that no sink has written is refused, so that files of other
    programs are never replaced.
    """
    where = f"{sink.operator}: filePath"
    name = shown(sink.address)
    if sink.address.lower().startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{where}: {name} cannot be written: expected a path, or an address of a storage such"
            " as s3://"
        )
    with refused_at(where, FileError):
        with opened_file_system(sink.address) as (files, target):
            found = files.get_file_info(target).type
            inside = [] if found != FileType.Directory or sink.appends else files_in(files, target)
    if found == FileType.NotFound or (
        found == FileType.Directory and not sink.is_single and not inside
    ):
        return
    if (found == FileType.Directory) == sink.is_single:
        kinds = (
            ("a folder", "a file, or of a folder with / at its end")
            if sink.is_single
            else ("a file", "a folder")
        )
        raise ConfigurationError(
            f"{where}: {name} exists already and is {kinds[0]}; expected the path of {kinds[1]}"
        )
    if not overwrite:
        raise ConfigurationError(
            f"{where}: {name} exists already; setOverwriteSink(True) replaces it"
        )
    for path in inside:
        name_inside = os.path.basename(path)
        if name_inside != MANIFEST and not _OF_SINKS.fullmatch(name_inside):
            raise ConfigurationError(
                f"{where}: {name} has the file {path}, which no sink has written: choose another"
                " folder"
            )


def publish(sink: FileSink, written: Files) -> None:
    """Make all files visible at once. Safe to call again."""
    files, target = file_system(sink.address)
    _, root = root_of(sink)
    missing = _incomplete(files, root, written)
    # An earlier attempt may have published the files and then failed. The staging folder is gone
    # then, and all files are in the target.
    if not sink.is_single and is_missing(files, root) and not _incomplete(files, target, written):
        _remove_earlier(sink, files, f"{root}.old")
        return
    if missing:
        raise BridgeError(
            f"{sink.operator}: expected {missing[0]!r} and {len(written) - 1} other files in"
            f" {shown(root)} on the host {socket.gethostname()}, {len(missing)} of them are missing"
            " or incomplete: filePath has to be a folder that all hosts share, or an address of a"
            " storage"
        )
    if sink.is_single:
        files.move(f"{root}/{next(iter(written))}", target)
        # On object stores, a folder is gone with its last file.
        with suppress(OSError):
            files.delete_dir(root)
    elif sink.keeps_manifest:
        # The manifest comes before the removal of earlier files, so that it never names files that
        # are gone.
        write_manifest(sink, target, {"files": {name: rows for name, (rows, _) in written.items()}})
        with _after_publication(sink):
            _sweep(files, root, written, _OF_SINKS.fullmatch)
    else:
        _sweep(files, root, written, _OF_SINKS.fullmatch)
        if sink.partition_by:
            write_manifest(sink, root)
        # A rename cannot replace a folder that has files, so the earlier one is renamed first. If
        # the job fails between the two renames, `abandon` puts it back.
        old = f"{root}.old"
        if not is_missing(files, target):
            files.move(target, old)
        files.move(root, target)
        _remove_earlier(sink, files, old)
    if not is_remote(sink.address):
        _remove_dead_staging(target)


@contextmanager
def _after_publication(sink: FileSink) -> Iterator[None]:
    """Keep a successful job successful where earlier files cannot be removed, for example because
    another user owns them.
    """
    try:
        yield
    except OSError as error:
        logger.warning(
            "%s: %s: earlier files could not be removed: %s",
            sink.operator,
            shown(sink.address),
            error,
        )


def _remove_dead_staging(target: str) -> None:
    """Remove the staging folders, and the earlier files, that killed programs of this user have
    left for the same target.
    """
    form = re.compile(re.escape(os.path.basename(target)) + STAGED.pattern)
    for path in glob.iglob(f"{glob.escape(target)}.*{ENDING}*"):
        with suppress(OSError):
            # The folder may be one that other users can write to, so a name alone does not show
            # whose folder it is.
            state = os.lstat(path)
            is_own = form.fullmatch(os.path.basename(path)) and state.st_uid == os.getuid()
            if is_own and state.st_mtime < time.time() - _DEAD_S:
                # rmtree refuses a link, by which another user could lead it to other folders.
                shutil.rmtree(path, ignore_errors=True)


def abandon(sink: FileSink) -> None:
    """Remove the files that a failed job has left, and the earlier files of a successful job that
    died before it had removed them.
    """
    files, target = file_system(sink.address)
    if sink.keeps_manifest:
        listed = _manifest(files, target).files
        _sweep(files, target, listed or (), sink.own_name.fullmatch)
        # The first job of a folder has begun with a manifest without files. It stays if it hides
        # files of a program that was killed.
        if listed == [] and files_in(files, target) == [f"{target}/{MANIFEST}"]:
            files.delete_file(f"{target}/{MANIFEST}")
        return
    root = root_of(sink)[1]
    old = f"{root}.old"
    # The job failed between the two renames of `publish`, so the earlier files are put back.
    if not sink.is_single and is_missing(files, target) and not is_missing(files, old):
        files.move(old, target)
    if not sink.appends and not is_missing(files, root):
        # It is renamed first, so that functions which still run create no more files in it.
        files.move(root, old)
    _remove_earlier(sink, files, old)


def _remove_earlier(sink: FileSink, files: FileSystem, old: str) -> None:
    with _after_publication(sink):
        if not is_missing(files, old):
            files.delete_dir(old)


def write_manifest(sink: FileSink, folder: str, more: Mapping[str, object] | None = None) -> None:
    """Record the types of the columns that name folders, which their texts don't tell: "02134" may
    be a text or a number.

    Times are left out, because Arrow cannot read all of their texts.
    """
    found = [(name, sink.types.field(name).type) for name in sink.partition_by]
    types = {
        name: flink_type(type_)
        for name, type_ in found
        if pa.types.is_date(type_) or not pa.types.is_temporal(type_)
    }
    partitions = {name: type_[0] for name, type_ in types.items() if type_ is not None}
    with file_system(sink.address)[0].open_output_stream(f"{folder}/{MANIFEST}") as file:
        file.write(json.dumps({**(more or {}), "partitions": partitions}).encode())


def root_of(sink: FileSink) -> tuple[FileSystem, str]:
    """Folder in which subtasks write."""
    return file_system(sink.address if sink.keeps_manifest else sink.staging)


def is_published(sink: FileSink) -> bool:
    """True once the files of this run have been published."""
    files, target = file_system(sink.address)
    names = _manifest(files, target).files if sink.keeps_manifest else files_in(files, target)
    return any(sink.token in name for name in names or ())


def _incomplete(files: FileSystem, folder: str, written: Files) -> list[str]:
    """Names of files that are not in a folder, or have another size there."""
    found = files.get_file_info([f"{folder}/{name}" for name in written])
    return [name for info, name in zip(found, written) if info.size != written[name][1]]


def is_missing(files: FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type == FileType.NotFound)


def files_in(files: FileSystem, folder: str) -> list[str]:
    selector = FileSelector(folder, allow_not_found=True, recursive=True)
    try:
        found = files.get_file_info(selector)
    # pyarrow asks fsspec twice, and another task may write the first file of the folder in between.
    except NotADirectoryError:
        found = files.get_file_info(selector)
    return [info.path for info in found if info.type == FileType.File]


def _manifest(files: FileSystem, folder: str) -> Manifest:
    """Read the manifest of a folder; an empty one for the manifest of another program."""
    if files.get_file_info(f"{folder}/{MANIFEST}").type == FileType.File:
        with suppress(FileError), files.open_input_stream(f"{folder}/{MANIFEST}") as file:
            return read_manifest(folder, file)
    return Manifest()


def _sweep(
    files: FileSystem, root: str, kept: Collection[str], is_swept: Callable[[str], object]
) -> None:
    """Remove the files whose names `is_swept` accepts, but not the files `kept`."""
    keep = {f"{root}/{name}" for name in kept}
    for path in files_in(files, root):
        if is_swept(os.path.basename(path)) and path not in keep:
            files.delete_file(path)
