"""Paths that would be read as patterns."""

from __future__ import annotations

import os
import pathlib

import pytest

from akdl.storage.files import FileError
from akdl.storage.patterns import refuse_pattern, without_pattern


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/a/run[1]", r"^/a/run\[1\]: TensorFlow reads '\[' in the path of a file as a pattern"),
        ("file:///a/run*", r"^/a/run\*: TensorFlow reads '\*'"),
        ("/a/run?", "TensorFlow reads '[?]'"),
        ("/a/run\\1", r"TensorFlow reads '\\\\'"),
        ("s3://bucket/run[1]", r"^s3://bucket/run\[1\]: fsspec reads '\['"),
        ("s3://key:secret@bucket/run*", r"^s3://bucket/run\*: fsspec reads '\*'"),
    ],
)
def test_patterns_are_refused(address: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        refuse_pattern(address)


@pytest.mark.parametrize("address", ["/a/run1", "file:///a/b", "s3://bucket/run?", "s3://bucket/a\\b"])
def test_other_paths_are_not(address: str) -> None:
    refuse_pattern(address)


def test_a_folder_with_a_pattern_gets_a_link_for_a_while(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "run[1]"
    folder.mkdir()
    with without_pattern(str(folder)) as path:
        assert "[" not in path and os.path.samefile(path, folder)
    assert not os.path.lexists(os.path.dirname(path)) and folder.is_dir()
    with without_pattern(str(tmp_path)) as path:
        assert path == str(tmp_path)
