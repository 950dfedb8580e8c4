"""The functions of `io_helper`, on real files."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest

from akdl.storage.model_archive import unpack
from akdl.testing import CollectingWriter
from tests.akdl.storage.test_model_archive import files_of, make_model

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module")
def io_helper() -> types.ModuleType:
    from akdl.runner import io_helper

    return io_helper


def rows_of(writer: CollectingWriter) -> list[Any]:
    return [(row["model_id"], row["model_info"]) for row in writer.rows]


def test_model_written_as_rows_is_unpacked_from_an_extra_input(
    io_helper: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    model, writer = make_model(tmp_path / "saved" / "1700000000", 3_000_000), CollectingWriter()
    io_helper.output_model_to_flink(str(tmp_path / "saved"), writer)
    (tmp_path / "bc").write_text(
        "".join(f"{number} {text}\n" for number, text in reversed(rows_of(writer)))
    )
    found = io_helper.unpack_model_from_flink(str(tmp_path / "bc"), str(tmp_path))
    assert found == str(tmp_path / "1700000000")
    assert files_of(tmp_path / "1700000000") == files_of(model)


def test_checkpoint_is_written_with_the_model(
    io_helper: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    model, writer = make_model(tmp_path / "saved" / "17", 1_500_000), CollectingWriter()
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "model.ckpt-1").write_bytes(b"weights")
    io_helper.output_model_ckpt_to_flink(str(tmp_path / "saved"), str(tmp_path / "ckpt"), writer)
    assert files_of(tmp_path / "unpacked") == {}
    assert unpack(rows_of(writer)[::-1], str(tmp_path / "unpacked")) == str(tmp_path / "unpacked")
    assert files_of(tmp_path / "unpacked") == files_of(model)
    (tmp_path / "bc").write_text("".join(f"{number} {text}\n" for number, text in rows_of(writer)))
    found = io_helper.unpack_model_from_flink(str(tmp_path / "bc"), str(tmp_path))
    assert found == str(tmp_path / "17") and files_of(tmp_path / "17") == files_of(model)


def test_only_files_of_training_are_removed(
    io_helper: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    for name in (
        "checkpoint",
        "model.ckpt-7.index",
        "checkpoint-7.index",
        "events.out.tfevents.1",
        "notes.txt",
    ):
        (tmp_path / name).write_text("x")
    make_model(tmp_path / "export" / "best")
    make_model(tmp_path / "best")
    io_helper.remove_checkpoint_files(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    io_helper.remove_checkpoint_files(str(tmp_path / "nowhere"))
