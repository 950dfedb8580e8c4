"""An export is loaded in a clean process before it is a model."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import shutil
import zipfile
from typing import Any

import pytest

from akdl.serving.check import describe, describe_in_clean_process, write_checked_model
from akdl.storage.model_archive import MANIFEST, ModelError, unpack
from tests.akdl.serving import models

pytestmark = [
    pytest.mark.tf,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


class Written:
    """Takes the place of an output writer."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write_batch(self, columns: Any) -> None:
        self.rows.extend(zip(columns["model_id"], columns["model_info"]))


def test_what_a_model_is_goes_into_its_manifest(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.setenv("TF_CONFIG", "broken")
    shutil.copytree(models.module(), tmp_path / "export" / "1700000000")
    written = Written()
    write_checked_model(str(tmp_path / "export"), written)
    packed = b"".join(base64.b64decode(text) for _, text in sorted(written.rows)[1:])
    manifest = json.loads(zipfile.ZipFile(io.BytesIO(packed)).read(MANIFEST))
    assert manifest["tensorflow_version"] == tf.__version__
    assert manifest["graphs"][0]["tags"] == ["serve"]
    assert manifest["graphs"][0]["signatures"]["look_up"] == {
        "inputs": {"k": {"dtype": "int64", "shape": [-1]}},
        "outputs": {"found": {"dtype": "int64", "shape": [-1]}},
    }
    assert "saved_model.pb" in manifest["files"]
    unpack(written.rows, str(tmp_path / "unpacked"))
    assert describe(str(tmp_path / "unpacked")) == {name: manifest[name] for name in ("graphs", "tensorflow_version")}


def test_clean_process_imports_nothing_from_the_current_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may have changed to a folder such as /tmp."""
    for name in ("traceback.py", "json.py", "runpy.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    assert describe_in_clean_process(models.module())["graphs"]


def test_a_broken_one_sends_nothing(tmp_path: pathlib.Path) -> None:
    shutil.copytree(models.module(), tmp_path / "m")
    next((tmp_path / "m" / "variables").glob("variables.data*")).write_bytes(b"short")
    written = Written()
    with pytest.raises(ModelError, match=r"the SavedModel in .*/m cannot be loaded: \w+: "):
        write_checked_model(str(tmp_path / "m"), written)
    assert written.rows == []


def test_a_file_that_is_no_graph(tmp_path: pathlib.Path) -> None:
    (tmp_path / "saved_model.pb").write_text("no model")
    with pytest.raises(ModelError, match=f"the SavedModel in {tmp_path} "):
        write_checked_model(str(tmp_path), Written())


def test_without_signatures(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    tf.saved_model.save(tf.Module(), str(tmp_path / "m"))
    with pytest.raises(ModelError, match="has no signature for prediction in its graphs 'serve'"):
        describe(str(tmp_path / "m"))


def test_none_and_several_are_told_without_a_process(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        describe_in_clean_process(str(tmp_path), timeout_s=0)
    for name in ("1", "2"):
        shutil.copytree(models.module(), tmp_path / name)
    with pytest.raises(ModelError, match="found 2: 1, 2"):
        describe_in_clean_process(str(tmp_path), timeout_s=0)


def test_too_slow() -> None:
    with pytest.raises(ModelError, match="not be loaded within 0.1 seconds"):
        describe_in_clean_process(models.module(), timeout_s=0.1)


def test_a_process_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ModelError, match="ended with status 1, its last lines: none"):
        describe_in_clean_process(models.module())
