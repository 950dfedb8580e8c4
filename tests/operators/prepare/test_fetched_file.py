"""Files that are read once."""

from __future__ import annotations

import os
import pathlib

import pytest

from bridge.exceptions import ConfigurationError
from operators.base.source_operator import fetched
from tests.support.http import served


def test_local_files_are_taken_as_they_are(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("x")
    for address in (str(tmp_path / "a"), f"file://{tmp_path}/a"):
        with fetched("Op", address) as path:
            assert path == str(tmp_path / "a")
    with pytest.raises(
        ConfigurationError, match="Op: parameter 'filePath': there is no file /nowhere"
    ):
        with fetched("Op", "/nowhere"):
            pass


def test_fetched_file_is_removed_after_use() -> None:
    with served(files={"/a.csv": b"1,2\n"}) as site:
        with fetched("Op", f"{site.url}/a.csv") as path:
            with open(path, "rb") as file:
                assert file.read() == b"1,2\n"
        assert not os.path.exists(path)
        with pytest.raises(ConfigurationError, match="Op: parameter 'filePath': .*HTTP 404"):
            with fetched("Op", f"{site.url}/b.csv"):
                pass
