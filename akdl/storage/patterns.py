"""Paths that TensorFlow or fsspec reads as patterns: a checkpoint in a folder `run[1]` is written and never found again."""

import contextlib
import os
import re
import tempfile
from typing import Iterator

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, local_path

_PATTERN, _REMOTE_PATTERN = re.compile(r"[*?[\\]"), re.compile(r"[*[]")


def refuse_pattern(address: str) -> None:
    reader, place = ("fsspec", shown(address)) if is_remote(address) else ("TensorFlow", local_path(address))
    found = (_REMOTE_PATTERN if is_remote(address) else _PATTERN).search(place)
    if found is not None:
        raise FileError(
            f"{place}: {reader} reads {found[0]!r} in the path of a file as a pattern, and would not find what it has written; "
            "choose a path without * ? [ and \\"
        )


@contextlib.contextmanager
def without_pattern(folder: str) -> Iterator[str]:
    """Yield a path of the folder without pattern characters: its own, or a link."""
    if _PATTERN.search(folder) is None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="akdl-link-") as place:
        link = os.path.join(place, "model")
        os.symlink(os.path.abspath(folder), link)
        yield link
