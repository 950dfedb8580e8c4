"""Damaged archives, model tables and pipelines: an error of ours, or what was packed, never a part
of it.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pathlib
import random
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator

import pytest

from akdl.storage.ak_records import is_ak_file
from akdl.storage.archive import ArchiveError, Limits, unpack_archive
from akdl.storage.model_archive import pack, unpack
from akdl.storage.model_forms import ModelError
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.alink.ak_file import AkWriter, read_rows
from operators.local_predictor import DESCRIPTION, read_pipeline
from operators.params.accessors import PredictStreamParams
from tests.support.fuzzing import cases, damaged, damaged_json, outcomes

CONTENTS = {
    "a.py": b"import b\n" * 200,
    "folder/b.py": bytes(range(256)) * 30,
    "empty": b"",
    "last.py": b"last",
}
LIMITS = Limits(members=1000, bytes=1 << 24, free_bytes=1 << 22)
ZIPS = {
    "zip": zipfile.ZIP_STORED, "zip, deflated": zipfile.ZIP_DEFLATED, "zip, bzip2": zipfile.ZIP_BZIP2, "zip, lzma": zipfile.ZIP_LZMA,
}  # fmt: skip
TARS = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}


def archive(kind: str) -> bytes:
    file = io.BytesIO()
    if kind in ZIPS:
        with zipfile.ZipFile(file, "w", ZIPS[kind]) as zip_file:
            for name, content in CONTENTS.items():
                zip_file.writestr(name, content)
    else:
        with tarfile.open(fileobj=file, mode=TARS[kind]) as tar_file:
            for name, content in CONTENTS.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar_file.addfile(entry, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def folder() -> Iterator[Callable[[], pathlib.Path]]:
    """Return what makes an empty folder; each takes the place of the one before."""
    root = pathlib.Path(
        tempfile.mkdtemp(
            prefix="fuzz-", dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
        )
    )

    def empty() -> pathlib.Path:
        shutil.rmtree(root)
        root.mkdir()
        return root

    yield empty
    shutil.rmtree(root)


@pytest.mark.parametrize("kind", [*ZIPS, *TARS])
@pytest.mark.fault("security", "A damaged archive is an error and never a part of its files")
def test_damaged_archives_are_refused_or_read_whole(
    kind: str, folder: Callable[[], pathlib.Path]
) -> None:
    whole, found = archive(kind), outcomes()
    for rng in cases(60, len(ZIPS) + len(TARS)):
        target = folder()
        data = damaged(rng, whole)
        try:
            unpack_archive(io.BytesIO(data), str(target), limits=LIMITS)
        except ArchiveError:
            found["refused"] += 1
            continue
        got = {
            path.relative_to(target).as_posix(): path.read_bytes()
            for path in target.rglob("*")
            if path.is_file()
        }
        # Names, and in a plain tar file contents, have no checksum of their own: they may change.
        # None is lost, unless whole entries of a plain tar file are, which leaves one as good as
        # before.
        assert len(got) == len(CONTENTS) or (kind == "tar" and len(got) == entries_of_tar(data)), (
            kind,
            sorted(got),
        )
        if kind != "tar":
            assert sorted(got.values()) == sorted(CONTENTS.values()), kind
        found["whole"] += 1
    assert found["refused"] > found.total() / 10, found


def entries_of_tar(data: bytes) -> int:
    """Return how many entries a tar file without any fault has."""
    place = count = 0
    while data[place : place + 512].strip(b"\0"):
        header = tarfile.TarInfo.frombuf(data[place : place + 512], "utf-8", "strict")
        place += 512 + -(-header.size // 512) * 512
        count += 1
    assert not data[place:].strip(b"\0") and len(data) > place
    return count


def saved_model(folder: pathlib.Path) -> None:
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph" * 100)
    (folder / "variables" / "variables.index").write_bytes(random.Random(0).randbytes(3000))


@pytest.mark.fault("data", "A damaged model table is an error and never half a model")
def test_damaged_model_tables_are_refused_or_read_whole(
    folder: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    saved_model(tmp_path / "model")
    whole, found = list(pack(str(tmp_path / "model"))), outcomes()
    for rng in cases(150):
        rows = list(whole)
        place = rng.randrange(len(rows))
        number, text = rows[place]
        kind = rng.randrange(5)
        if kind == 0:
            rows[place] = (number, damaged(rng, text.encode()).decode("utf-8", "replace"))
        elif kind == 1:
            rows[place] = (rng.choice([-1, 0, 1, 2, 7, 2**40, 2**63 - 1]), text)
        elif kind == 2:
            del rows[place]
        elif kind == 3:
            rows.append(rows[place])
        else:
            rows[place] = rng.choice(
                [(None, text), (number, None), (number, ""), (number, "AAAA"), (1.5, text)]
            )
        target = folder() / "model"
        try:
            unpack(rows, str(target))
        except ModelError:
            assert not target.exists()
            found["refused"] += 1
            continue
        got = {
            path.relative_to(target).as_posix(): path.read_bytes()
            for path in target.rglob("*")
            if path.is_file()
        }
        assert (
            got["saved_model.pb"] == b"graph" * 100
            and len(got["variables/variables.index"]) == 3000
        )
        found["whole"] += 1
    assert found["refused"] > found.total() / 5, found


@pytest.mark.fault("data", "A damaged pipeline model is an error that names the file")
def test_damaged_pipelines_are_refused_or_read_whole(
    folder: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    path, model, found = tmp_path / "pipeline", archive("zip, deflated"), outcomes()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model_0.zip", model)
        file.writestr(
            DESCRIPTION,
            '{"version": 1, "stages": [{"params": {"outputSchemaStr": "y FLOAT", "selectedCols": null}}]}',
        )
    whole = path.read_bytes()
    for rng in cases(150):
        path.write_bytes(damaged(rng, whole))
        try:
            stages = read_pipeline(str(path), str(folder()), trusted=False)
        except ConfigurationError:
            found["refused"] += 1
            continue
        assert [pathlib.Path(stage["model"]).read_bytes() for stage in stages] == [model] * len(
            stages
        )
        found["stages"] += 1
    assert found["refused"] > found.total() / 5, found


STAGE = {
    "type": "TFTableModelPredictor",
    "params": {
        "outputSchemaStr": "y FLOAT, z ARRAY<DOUBLE>", "selectedCols": ["a", "b"], "inferBatchSize": 7, "defaults": '{"a": 0.5}',
        "startTimeout": 3.5, "reservedCols": None, "progress": True, "signatureDefKey": "serving_default",
    },
}  # fmt: skip


def outcome_of(path: pathlib.Path, folder: pathlib.Path) -> str:
    """Return how reading a pipeline ended; parameters that are taken are those of a predictor."""
    try:
        stages = read_pipeline(str(path), str(folder), trusted=False)
    except ConfigurationError:
        return "refused"
    assert all(PredictStreamParams(**stage["params"])._values_of_all() for stage in stages)
    return "stages"


@pytest.mark.fault(
    "security", "A pipeline with a malformed description is an error that names the file"
)
def test_malformed_descriptions_of_pipelines_are_refused(
    folder: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    path, found = tmp_path / "pipeline", outcomes()
    for rng in cases(150):
        description = damaged_json(rng, {"version": 1, "stages": [STAGE, STAGE]})
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(DESCRIPTION, json.dumps(description))
            for number in range(2):
                file.writestr(f"model_{number}.zip", b"model")
        found[outcome_of(path, folder())] += 1
    assert min(found["refused"], found["stages"]) > found.total() / 20, found


@pytest.mark.fault("security", "A malformed pipeline of Alink is an error that names the file")
def test_malformed_pipelines_of_alink_are_refused(tmp_path: pathlib.Path) -> None:
    path, found = tmp_path / "pipeline.ak", outcomes()
    saved_model(tmp_path / "model")
    params = {
        name: json.dumps(value) for name, value in STAGE["params"].items() if value is not None
    }  # type: ignore[attr-defined]
    node = {
        "identifier": "com.alibaba.TFTableModelPredictor",
        "params": {"params": params},
        "schemaIndices": [1, 0],
        "parent": 0,
    }
    model = list(pack(str(tmp_path / "model")))
    for rng in cases(100):
        nodes = damaged_json(
            rng, [{"identifier": None, "params": None, "parent": -1, "schemaIndices": [1, 0]}, node]
        )
        text = json.dumps(
            damaged_json(rng, {"stages": json.dumps(nodes)})
            if rng.random() < 0.2
            else {"stages": json.dumps(nodes)}
        )
        with open(path, "wb") as file:
            writer = AkWriter(file, Schema.parse("id BIGINT, p0 STRING, p1 BIGINT"))
            writer.write((-1, f"{text}__ALINK_META_ROW_DELIMITER__{{}}", None))
            for number, chunk in model:
                writer.write((1, chunk, number))
            writer.close()
        found[outcome_of(path, tmp_path)] += 1
    assert min(found["refused"], found["stages"]) > found.total() / 20, found


@pytest.mark.fault("data", "A damaged .ak file is an error that names the file")
def test_damaged_ak_files_are_refused_or_read_whole(tmp_path: pathlib.Path) -> None:
    path, found = tmp_path / "rows.ak", outcomes()
    schema = Schema.parse("a BIGINT, b STRING, c DOUBLE, d BYTES, e DECIMAL(10, 2), f TIMESTAMP(3)")
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3)
    rows = [
        (number, "ż" * number, 0.5, b"x" * number, decimal.Decimal(number), moment)
        for number in range(20)
    ]
    with open(path, "wb") as file:
        writer = AkWriter(file, schema)
        for row in rows:
            writer.write(row)
        writer.close()
    whole = path.read_bytes()
    for rng in cases(150):
        path.write_bytes(damaged(rng, whole))
        try:
            if not is_ak_file(str(path)):
                found["no such file"] += 1
                continue
            got = list(read_rows(str(path)))
        except ConfigurationError:
            found["refused"] += 1
            continue
        assert len(got) == len(rows)
        found["rows"] += 1
    assert found["refused"] > found.total() / 10, found
