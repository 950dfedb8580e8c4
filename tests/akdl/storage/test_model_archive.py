from __future__ import annotations

import base64
import io
import json
import os
import random
import stat
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.storage.model_archive import CHUNK_BYTES, MANIFEST, pack, unpack, write_model
from akdl.storage.model_forms import ModelError, find_saved_model

Row = tuple[int, str]


def make_model(folder: Path, big: int = 0) -> Path:
    (folder / "variables").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"")
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(
        random.Random(1).randbytes(big)
    )
    return folder


def files_of(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def rows_of_zip(data: bytes) -> list[Row]:
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    return [
        (0, "1700000000.zip"),
        *((i, base64.b64encode(chunk).decode()) for i, chunk in enumerate(chunks, 1)),
    ]


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def zip_bytes(rows: list[Row]) -> bytes:
    return b"".join(base64.b64decode(text) for _, text in sorted(rows)[1:])


def test_find_saved_model_finds_it_in_the_folder_itself(tmp_path: Path) -> None:
    assert find_saved_model(str(make_model(tmp_path / "m"))) == str(tmp_path / "m")


def test_find_saved_model_finds_it_one_folder_below(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m" / "1700000000")
    (tmp_path / "m" / "notes").mkdir()
    (tmp_path / "m" / "checkpoint").write_text("x")
    assert find_saved_model(str(tmp_path / "m")) == str(model)


def test_find_saved_model_finds_the_text_format(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pbtxt").write_text("")
    assert find_saved_model(str(tmp_path)) == str(tmp_path)


def test_find_saved_model_does_not_look_two_folders_below(tmp_path: Path) -> None:
    make_model(tmp_path / "a" / "b")
    with pytest.raises(ModelError, match="or one folder below, found a"):
        find_saved_model(str(tmp_path))


def test_find_saved_model_refuses_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        find_saved_model(str(tmp_path))


def test_find_saved_model_refuses_a_path_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a folder"):
        find_saved_model(str(tmp_path / "missing"))


def test_find_saved_model_lists_several_models(tmp_path: Path) -> None:
    make_model(tmp_path / "1700000002")
    make_model(tmp_path / "1700000001")
    with pytest.raises(ModelError, match="found 2: 1700000001, 1700000002"):
        find_saved_model(str(tmp_path))


def test_pack_makes_rows_of_a_zip_file_with_a_manifest(tmp_path: Path) -> None:
    model = make_model(tmp_path / "out" / "1700000000", big=2 * CHUNK_BYTES + 17)
    rows = list(pack(str(tmp_path / "out")))
    assert [number for number, _ in rows] == [0, 1, 2, 3]
    assert rows[0][1] == "1700000000.zip"
    assert {len(base64.b64decode(text)) for _, text in rows[1:-1]} == {CHUNK_BYTES}
    with zipfile.ZipFile(io.BytesIO(zip_bytes(rows))) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[-1] == MANIFEST
        assert "saved_model.pb" in archive.namelist()
        manifest = json.loads(archive.read(MANIFEST))
    assert sorted(manifest["files"]) == sorted(
        str(p.relative_to(model)) for p in model.rglob("*") if p.is_file()
    )
    assert manifest["files"]["saved_model.pb"]["size"] == 5


def test_pack_gives_equal_rows_for_equal_folders(tmp_path: Path) -> None:
    first = make_model(tmp_path / "a" / "m", big=1000)
    second = make_model(tmp_path / "b" / "m", big=1000)
    os.utime(first / "saved_model.pb", (1, 1))
    (second / "saved_model.pb").chmod(0o600)
    assert list(pack(str(first))) == list(pack(str(second)))


def test_pack_needs_memory_independent_of_the_model(tmp_path: Path) -> None:
    make_model(tmp_path / "m", big=24 * CHUNK_BYTES)
    tracemalloc.start()
    count = sum(1 for _ in pack(str(tmp_path / "m")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 26
    assert peak < 8 * CHUNK_BYTES


def test_pack_refuses_a_link_to_a_folder(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    (model / "extra").symlink_to(tmp_path)
    with pytest.raises(ModelError, match="extra.*link to a folder"):
        list(pack(str(model)))


def test_pack_leaves_nothing_when_its_reader_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    rows = pack(str(make_model(tmp_path / "m", big=3 * CHUNK_BYTES)))
    next(rows), next(rows)
    rows.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_unpack_accepts_rows_in_any_order(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m", big=3 * CHUNK_BYTES + 5)
    rows = list(pack(str(model)))
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        found = unpack(iter(rows), str(tmp_path / f"target{seed}"))
        assert found == str(tmp_path / f"target{seed}")
        assert files_of(Path(found)) == files_of(model)


def test_unpack_accepts_ids_of_numpy(tmp_path: Path) -> None:
    rows = [(np.int64(number), text) for number, text in pack(str(make_model(tmp_path / "m")))]
    unpack(rows, str(tmp_path / "target"))  # type: ignore[arg-type]


def test_unpack_uses_an_existing_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    unpack(pack(str(make_model(tmp_path / "m"))), str(tmp_path / "target"))
    assert (tmp_path / "target" / "saved_model.pb").exists()


def test_unpack_accepts_an_archive_without_a_manifest(tmp_path: Path) -> None:
    rows = rows_of_zip(
        zip_of(("saved_model.pb", b"graph"), ("variables/", b""), ("variables/x", b"1"))
    )
    assert files_of(Path(unpack(rows, str(tmp_path / "t")))) == {
        "saved_model.pb": b"graph",
        "variables": None,
        "variables/x": b"1",
    }


def test_unpack_finds_a_model_one_folder_below(tmp_path: Path) -> None:
    rows = rows_of_zip(zip_of(("1700/saved_model.pb", b"graph")))
    assert unpack(rows, str(tmp_path / "t")) == str(tmp_path / "t" / "1700")


def check_unpack_refuses(tmp_path: Path, rows: Any, match: str) -> None:
    """Unpacking fails with this message and leaves nothing."""
    (tmp_path / "work").mkdir()
    with pytest.raises(ModelError, match=match):
        unpack(rows, str(tmp_path / "work" / "target"))
    assert list((tmp_path / "work").iterdir()) == []


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    return list(pack(str(make_model(tmp_path / "m", big=3 * CHUNK_BYTES + 5))))


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_unpack_names_a_missing_row(tmp_path: Path, rows: list[Row], lost: int) -> None:
    del rows[lost]
    check_unpack_refuses(tmp_path, rows, f"1 of 5 are missing, among them model_id {lost}$")


def test_unpack_refuses_rows_without_the_last_one(tmp_path: Path, rows: list[Row]) -> None:
    check_unpack_refuses(tmp_path, rows[:-1], "damaged")


def test_unpack_refuses_a_name_without_content(tmp_path: Path, rows: list[Row]) -> None:
    check_unpack_refuses(tmp_path, rows[:1], "a file name and no content")


def test_unpack_refuses_a_repeated_row(tmp_path: Path, rows: list[Row]) -> None:
    check_unpack_refuses(tmp_path, [*rows, rows[2]], "model_id 2 occurs twice")


def test_unpack_refuses_swapped_rows(tmp_path: Path, rows: list[Row]) -> None:
    rows[1], rows[2] = (1, rows[2][1]), (2, rows[1][1])
    check_unpack_refuses(tmp_path, rows, "damaged")


def test_unpack_refuses_a_short_row_in_the_middle(tmp_path: Path, rows: list[Row]) -> None:
    rows[2] = (2, rows[2][1][:400])
    check_unpack_refuses(tmp_path, rows, "model_id 2 is shorter")


@pytest.mark.parametrize("text", ["not base64!", "abc", None, 3.5, "ä"])
def test_unpack_refuses_text_that_is_not_base64(tmp_path: Path, rows: list[Row], text: Any) -> None:
    rows[2] = (2, text)
    check_unpack_refuses(tmp_path, rows, "model_id 2 should hold a chunk as base64 text")


def test_unpack_refuses_an_empty_row(tmp_path: Path, rows: list[Row]) -> None:
    check_unpack_refuses(tmp_path, [*rows, (5, "")], "model_id 5 holds 0 bytes")


def test_unpack_refuses_a_changed_byte(tmp_path: Path, rows: list[Row]) -> None:
    data = bytearray(base64.b64decode(rows[2][1]))
    data[1000] ^= 1
    rows[2] = (2, base64.b64encode(data).decode())
    check_unpack_refuses(tmp_path, rows, "damaged")


def test_unpack_refuses_a_table_without_rows(tmp_path: Path) -> None:
    check_unpack_refuses(tmp_path, [], "got no rows")


@pytest.mark.parametrize(
    "rows",
    [[("a", "b")], [(1.5, "x")], [(-1, "x")], [(2**60, "YQ==")], [(0, "hello"), (1, "YQ==")]],
)
def test_unpack_refuses_rows_of_another_table(tmp_path: Path, rows: Any) -> None:
    check_unpack_refuses(tmp_path, rows, "not a model|name of a zip file")


def test_unpack_counts_missing_rows_before_a_large_id(tmp_path: Path) -> None:
    check_unpack_refuses(
        tmp_path,
        [(0, "a.zip"), (1 << 19, "YQ==")],
        "524287 of 524289 are missing, among them model_id 1, 2",
    )


def test_unpack_refuses_content_that_is_not_a_zip_file(tmp_path: Path) -> None:
    check_unpack_refuses(tmp_path, rows_of_zip(b"hello"), "damaged")


def test_unpack_refuses_an_archive_without_a_model(tmp_path: Path) -> None:
    check_unpack_refuses(
        tmp_path, rows_of_zip(zip_of(("variables.index", b""))), "found variables.index"
    )


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "C:/evil", "a//b", "./a"]
)
def test_unpack_refuses_an_entry_that_leaves_the_folder(tmp_path: Path, name: str) -> None:
    check_unpack_refuses(
        tmp_path,
        rows_of_zip(zip_of(("saved_model.pb", b""), (name, b"x"))),
        "would leave its folder",
    )


def test_unpack_refuses_a_link(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("variables")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    rows = rows_of_zip(zip_of(("saved_model.pb", b""), (link, b"/etc")))
    check_unpack_refuses(tmp_path, rows, "not a regular file: 'variables'")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_unpack_refuses_a_repeated_entry(tmp_path: Path) -> None:
    check_unpack_refuses(
        tmp_path, rows_of_zip(zip_of(("saved_model.pb", b""), ("saved_model.pb", b"x"))), "twice"
    )


def test_unpack_refuses_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    check_unpack_refuses(
        tmp_path,
        rows_of_zip(zip_of(("saved_model.pb", b""), ("a", b"x"), ("a/b", b"x"))),
        "damaged",
    )


@pytest.mark.parametrize("manifest", [b"[" * 100_000, b"{}" + b" " * (2 << 20), b"\xff"])
@pytest.mark.fault("security", "A manifest of a model that is too large or too deep is an error")
def test_unpack_refuses_a_manifest_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: bytes
) -> None:
    monkeypatch.setenv("AKDL_TEXT_MB", "1")
    rows = rows_of_zip(zip_of(("saved_model.pb", b"graph"), (MANIFEST, manifest)))
    with pytest.raises(ModelError, match=f"its manifest {MANIFEST} cannot be read"):
        unpack(rows, str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("manifest", "match"),
    [
        (
            {"files": {"saved_model.pb": {"size": 5, "sha256": "0"}}},
            "saved_model.pb does not match its manifest",
        ),
        (
            {"files": {"saved_model.pb": {}, "lost": {}}},
            "differ from the list in its manifest: lost",
        ),
        ({"files": {}}, "differ from the list in its manifest: saved_model.pb"),
        ([], "has no list of files"),
    ],
)
def test_unpack_refuses_a_manifest_that_does_not_agree(
    tmp_path: Path, manifest: Any, match: str
) -> None:
    rows = rows_of_zip(
        zip_of(("saved_model.pb", b"graph"), (MANIFEST, json.dumps(manifest).encode()))
    )
    check_unpack_refuses(tmp_path, rows, match)


def test_unpack_refuses_a_target_folder_with_files(tmp_path: Path, rows: list[Row]) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(ModelError, match="not an empty folder"):
        unpack(rows, str(tmp_path))
    assert (tmp_path / "mine").read_text() == "keep"


def test_write_model_writes_batches_of_rows(tmp_path: Path) -> None:
    class Writer:
        def __init__(self) -> None:
            self.pieces: list[dict[str, list[Any]]] = []

        def write_batch(self, values: dict[str, list[Any]]) -> None:
            self.pieces.append(values)

    model, writer = make_model(tmp_path / "m", big=8 * CHUNK_BYTES), Writer()
    write_model(str(model), writer)
    assert [len(piece["model_id"]) for piece in writer.pieces] == [4, 4, 2]
    rows = [row for piece in writer.pieces for row in zip(piece["model_id"], piece["model_info"])]
    assert rows == list(pack(str(model)))
