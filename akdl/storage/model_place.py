"""Models stored in a folder, `modelDir`, and named by the only row of their table, which transfers about 10 MB/s.

A reader looks only in its own configured folder, so a table cannot make it read another file. Nothing is unpickled.
"""

import contextlib
import json
import os
import re
import tempfile
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional

from akdl.masking import shown
from akdl.storage.files import UNFINISHED, FileError, fetch, is_remote, local_path, opened_with_fsspec, put_whole, sha256_of
from akdl.storage.model_archive import ModelError, find_saved_model, write_zip

_KEY = "akdl_model"
_NAME = re.compile("akdl-model-([0-9a-f]{64})[.]zip")


@dataclass(frozen=True)
class PlacedModel:
    """A model in `model_dir`, which each host fetches with `get_model`."""

    name: str
    model_dir: str = field(repr=False)  # an address may hold a password


def put_model(
    folder: str, model_dir: str, details: Optional[Mapping[str, object]] = None, checkpoint: Optional[str] = None
) -> str:
    """Write the SavedModel in `folder`, and the content of `checkpoint`, to `model_dir`; return the text of the row."""
    named = {_KEY: _put(find_saved_model(folder), model_dir, details or {})}
    if checkpoint is not None:
        named["akdl_checkpoint"] = _put(checkpoint, model_dir, None)
    return json.dumps(named, sort_keys=True)


def named_model(text: object) -> Optional[str]:
    """File name in row 0 of a model table; None where the table holds the model."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        name = json.loads(text)[_KEY]["name"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ModelError(f"the model table names the file {str(name)[:100]!r}, which is not the name of a model in modelDir")
    return name


def is_placed(path: str) -> bool:
    """Test for the name that `put_model` gives to a file."""
    return bool(_NAME.fullmatch(os.path.basename(path)))


def get_model(name: str, model_dir: str, folder: str) -> str:
    """Path of a model written by `put_model`, after its checksum is verified; remote files are fetched to `folder`."""
    match = _NAME.fullmatch(name)
    assert match is not None  # see `named_model`
    try:
        path = fetch(f"{model_dir.rstrip('/')}/{name}#sha256={match.group(1)}", folder)
    except FileError as error:
        raise ModelError(f"expected the model of the table in modelDir {shown(model_dir)}: {error}") from None
    if os.path.islink(path):
        raise ModelError(f"the model {path} is a link, which may lead out of modelDir")
    return path


def _put(folder: str, model_dir: str, details: Optional[Mapping[str, object]]) -> Dict[str, Any]:
    """Write a folder as a zip file named by its content, without compression, which hardly shrinks weights."""
    try:
        if not is_remote(model_dir):
            target = local_path(model_dir)
            os.makedirs(target, exist_ok=True)
            return _put_file(folder, target, details, lambda path, name: os.replace(path, os.path.join(target, name)))
        with tempfile.TemporaryDirectory() as work, opened_with_fsspec(model_dir) as (system, root):
            return _put_file(folder, work, details, lambda path, name: put_whole(system, path, f"{root}/{name}"))
    except OSError as error:
        raise FileError(f"modelDir {shown(model_dir)}: the model cannot be written there: {error.strerror or error}") from None


def _put_file(
    folder: str, work: str, details: Optional[Mapping[str, object]], send: Callable[[str, str], None]
) -> Dict[str, Any]:
    path = os.path.join(work, f".akdl-model-{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with open(path, "x+b") as file:
            write_zip(folder, file, details, compress=False)
        sha256, size = sha256_of(path), os.path.getsize(path)
        name = f"akdl-model-{sha256}.zip"
        send(path, name)
        return {"name": name, "size": size, "sha256": sha256}
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
