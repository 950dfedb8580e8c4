"""Copies of the best checkpoints."""

from __future__ import annotations

import pathlib

import pytest

pytestmark = pytest.mark.tf


@pytest.mark.fault(
    "security",
    "Links that another user plants beside the best checkpoints are replaced, never followed",
)
def test_links_in_the_way_are_replaced_and_never_followed(tmp_path: pathlib.Path) -> None:
    """Others may write to a folder of checkpoints, and plant links at the names of the copies."""
    from akdl.training.checkpoints import METRICS_FILE, BestCheckpoints

    precious, best = tmp_path / "precious", tmp_path / "best"
    precious.write_text("mine")
    best.mkdir()
    (tmp_path / "model.ckpt-1.index").write_text("index")
    for planted in ("model.ckpt-1.index", f"{METRICS_FILE}.part"):
        (best / planted).symlink_to(precious)
    (best / METRICS_FILE).symlink_to(tmp_path / "nothing")
    assert BestCheckpoints(str(tmp_path), "loss", 1).offer(
        str(tmp_path / "model.ckpt-1"), {"loss": 1.0}
    )
    assert precious.read_text() == "mine" and not (tmp_path / "nothing").exists()
    assert (best / "model.ckpt-1.index").read_text() == "index" and not (
        best / "model.ckpt-1.index"
    ).is_symlink()
    assert (best / METRICS_FILE).read_text() == '{\n "model.ckpt-1": 1.0\n}'
