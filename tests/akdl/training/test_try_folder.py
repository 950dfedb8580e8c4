"""A test write into a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.tf


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    from akdl.training.checkpoints import try_folder

    for _ in range(2):
        assert try_folder(str(tmp_path / "new" / "inner")) is None
    assert (tmp_path / "new" / "inner").is_dir() and not list(
        (tmp_path / "new" / "inner").iterdir()
    )


def test_try_folder_returns_the_reason_why_it_cannot_be_written(tmp_path: Path) -> None:
    from akdl.training.checkpoints import try_folder

    (tmp_path / "file").touch()
    reason = try_folder(str(tmp_path / "file" / "below"))
    assert reason is not None and "not a directory" in reason.lower()
