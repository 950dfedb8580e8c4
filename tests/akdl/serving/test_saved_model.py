"""SavedModels: their names, their numbers, which are those of TensorFlow itself, and a trial load
in a clean process.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.serving.loaded_model import SignatureError
from akdl.serving.saved_model import load_every_graph, load_in_clean_process, write_checked_model
from akdl.storage.model_archive import MANIFEST, unpack
from akdl.storage.model_forms import ModelError
from tests.akdl.serving import models
from tests.akdl.serving.models import expected
from tests.akdl.test_imports import beside_tensorflow
from tests.support.warm_python import warm_python

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph_def_tag": "gpu"}, r"no graph with the tag 'gpu' .* it has: 'serve'"),
        (
            {"signature_def_key": "predict"},
            r"it has: 'look_up' \(inputs: 'k' int64 \[-1\]; .*'serving_default'",
        ),
        (
            {"inputs": ["x"]},
            r"one column for each input .* columns for 'x'; .* 'x' float32 \[-1, 3\]",
        ),
        ({"inputs": ["x", "k", "z"]}, r"no input 'z'"),
        (
            {"outputs": ["y"]},
            r"no output 'y'; .*outputs: 'logits' float32 \[-1, 2\], 'p' float32 \[-1\]",
        ),
        (
            {"outputs": [models.OutputColumn("logits", "DOUBLE")]},
            "holds one value, but .* has 2 in each row",
        ),
        ({"outputs": [models.OutputColumn("p", "BIGINT")]}, "cannot hold the output 'p' float32"),
        (
            {"outputs": [models.OutputColumn("p", "TIMESTAMP(3)")]},
            "supported types are BIGINT, BOOLEAN",
        ),
    ],
)
@pytest.mark.tf
def test_missing_tag_or_signature_is_named_with_the_existing_ones(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SignatureError, match=message):
        models.served(models.module(), **arguments)


@pytest.mark.tf
def test_folder_without_a_model_or_with_a_damaged_one_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        models.served(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"no proto")
    with pytest.raises(ModelError, match="is damaged"):
        models.served(str(tmp_path))


def key_of(make: Any) -> str:
    return "predict" if make is models.estimator else "serving_default"


@pytest.mark.parametrize("make", models.ALL)
@pytest.mark.estimator
@pytest.mark.tf
def test_every_kind_of_model_gives_the_numbers_of_tensorflow(make: Any) -> None:
    columns, folder = models.rows(50), make()
    theirs = expected(folder, columns, key_of(make))
    with contextlib.closing(models.served(folder, signature_def_key=key_of(make))) as model:
        ours = model.predict(columns)
    assert set(ours) == set(theirs) >= {"logits"}
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)


@pytest.mark.parametrize("make", models.ALL)
@pytest.mark.estimator
@pytest.mark.tf
def test_every_kind_of_model_gives_the_numbers_of_tensorflow_in_a_session(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akdl.serving.saved_model.runs_eagerly", lambda: False)
    columns, folder = models.rows(50), make()
    with contextlib.closing(
        models.served(folder, signature_def_key=key_of(make), outputs=["logits"])
    ) as model:
        assert type(model.model.model).__name__ == "Session"
        ours = model.predict(columns)["logits"]
    np.testing.assert_allclose(ours, expected(folder, columns, key_of(make))["logits"], rtol=1e-6)


@pytest.mark.estimator
@pytest.mark.tf
def test_inputs_and_outputs_keep_their_names_in_a_direct_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    def predict(last: Any, first: Any, text: Any) -> dict[str, Any]:
        return {"z": last - first, "B": tf.strings.length(text), "a": first, "again": first}

    kinds = {"z": tf.float32, "B": tf.float32, "a": tf.string}
    signature = tf.function(
        predict, input_signature=[tf.TensorSpec([None], kind, name) for name, kind in kinds.items()]
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": signature})
    columns = {"a": [b"x", b"yyy"], "z": np.array([1, 2], "f4"), "B": np.array([10, 20], "f4")}
    for qualname in ("_direct_call.<locals>.call", "SavedModel._load_function.<locals>.call"):
        with contextlib.closing(
            models.served(str(tmp_path), inputs=list(columns), outputs=["z", "a", "B", "again"])
        ) as model:
            assert model.model._call.__qualname__ == qualname
            found = model.predict(columns)
        assert {key: values.tolist() for key, values in found.items()} == {
            "z": [-9, -18], "a": [10, 20], "B": [1, 3], "again": [10, 20],
        }  # fmt: skip
        monkeypatch.setattr("akdl.serving.saved_model._direct_call", lambda *_: None)


@pytest.mark.estimator
@pytest.mark.tf
def test_output_of_a_shape_works_next_to_inputs_of_one_number(
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    def predict(x: Any, by: Any, text: Any) -> dict[str, Any]:
        return {"y": x * by, "size": tf.shape(x), "text": text}

    kinds = {"x": ([None, 2], tf.float32), "by": ([], tf.float32), "text": ([], tf.string)}
    signature = tf.function(
        predict, input_signature=[tf.TensorSpec(*kind, name) for name, kind in kinds.items()]
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": signature})
    with contextlib.closing(models.served(str(tmp_path), cells_hold_batches=True)) as model:
        found = model.predict({"x": [[[1, 2], [3, 4]]], "by": [10], "text": ["a"]})
    assert {key: values[0].tolist() for key, values in found.items() if key != "text"} == {
        "y": [[10, 20], [30, 40]],
        "size": [2, 2],
    }
    assert found["text"][0] == b"a"


@pytest.mark.parametrize("name", ["run[1]", "run*?", "run\\1"])
@pytest.mark.parametrize("eagerly", [True, False])
@pytest.mark.estimator
@pytest.mark.tf
def test_folders_that_tensorflow_takes_for_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, eagerly: bool
) -> None:
    monkeypatch.setattr("akdl.serving.saved_model.runs_eagerly", lambda: eagerly)
    columns, folder = models.rows(5), models.keras_functional()
    shutil.copytree(folder, tmp_path / name)
    with (
        contextlib.closing(models.served(str(tmp_path / name))) as model,
        contextlib.closing(models.served(folder)) as same,
    ):
        ours, theirs = model.predict(columns), same.predict(columns)
        for key, values in theirs.items():
            np.testing.assert_array_equal(ours[key], values)


@pytest.mark.estimator
@pytest.mark.tf
def test_model_without_its_variables_is_refused(tmp_path: Any) -> None:
    shutil.copy(models.module() + "/saved_model.pb", tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded"):
        models.served(str(tmp_path))


@pytest.mark.estimator
@pytest.mark.tf
def test_intra_op_parallelism_is_applied(tmp_path: pathlib.Path) -> None:
    code = (
        "import tensorflow as tf; from tests.akdl.serving import models\n"
        f"models.served({models.module()!r}, intra_op_parallelism=3)\n"
        "print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    assert beside_tensorflow(code, tmp_path) == "3"


@pytest.mark.estimator
@pytest.mark.tf
def test_intra_op_parallelism_that_comes_too_late_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    models.module()
    models.served(models.module(), intra_op_parallelism=3).predict(models.rows(1))
    assert "intraOpParallelism 3 has no effect" in caplog.text


class Written:
    """Takes the place of an output writer."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write_batch(self, columns: Any) -> None:
        self.rows.extend(zip(columns["model_id"], columns["model_info"]))


@pytest.mark.tf
@pytest.mark.process
def test_a_checked_model_is_sent_with_the_sums_of_its_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "broken")
    # A script may have changed to a folder such as /tmp, from which the process imports nothing.
    (tmp_path / "current").mkdir()
    for name in ("traceback.py", "json.py", "runpy.py"):
        (tmp_path / "current" / name).write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path / "current")
    shutil.copytree(models.module(), tmp_path / "export" / "1700000000")
    written = Written()
    write_checked_model(str(tmp_path / "export"), written)
    packed = b"".join(base64.b64decode(text) for _, text in sorted(written.rows)[1:])
    assert (
        "saved_model.pb" in json.loads(zipfile.ZipFile(io.BytesIO(packed)).read(MANIFEST))["files"]
    )
    load_every_graph(unpack(written.rows, str(tmp_path / "unpacked")))


@pytest.mark.tf
@pytest.mark.process
def test_model_that_cannot_be_loaded_is_not_sent(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", warm_python())
    shutil.copytree(models.module(), tmp_path / "m")
    next((tmp_path / "m" / "variables").glob("variables.data*")).write_bytes(b"short")
    written = Written()
    with pytest.raises(ModelError, match=r"the SavedModel in .*/m cannot be loaded: \w+: "):
        write_checked_model(str(tmp_path / "m"), written)
    assert written.rows == []


@pytest.mark.tf
def test_file_without_a_graph_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "saved_model.pb").write_text("no model")
    with pytest.raises(ModelError, match=f"the SavedModel in {tmp_path} "):
        load_every_graph(str(tmp_path))


@pytest.mark.tf
@pytest.mark.process
def test_model_without_signatures_is_refused(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    tf.saved_model.save(tf.Module(), str(tmp_path / "m"))
    with pytest.raises(ModelError, match="has no signature for prediction in its graphs 'serve'"):
        load_every_graph(str(tmp_path / "m"))


@pytest.mark.tf
@pytest.mark.process
def test_folder_with_no_model_or_several_is_refused_without_a_process(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        load_in_clean_process(str(tmp_path), timeout_s=0)
    for name in ("1", "2"):
        shutil.copytree(models.module(), tmp_path / name)
    with pytest.raises(ModelError, match="found 2: 1, 2"):
        load_in_clean_process(str(tmp_path), timeout_s=0)


@pytest.mark.tf
@pytest.mark.process
def test_model_that_loads_too_slowly_is_refused() -> None:
    with pytest.raises(ModelError, match="not be loaded within 0.1 seconds"):
        load_in_clean_process(models.module(), timeout_s=0.1)


@pytest.mark.tf
@pytest.mark.process
def test_crashed_process_of_the_check_is_an_error_with_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ModelError, match="ended with status 1, its last lines: none"):
        load_in_clean_process(models.module())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tensorflow.py").write_text(
        "import gc\nwas_enabled = gc.isenabled()\nstay = [[] for _ in range(10)]\n"
    )
    return tmp_path


def run_with(folder: Path, text: str) -> list[str]:
    path = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]"
    command = [sys.executable, "-c", f"{path}\n{textwrap.dedent(text)}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_garbage_collector_skips_tensorflow_and_collects_later_objects(folder: Path) -> None:
    said = run_with(
        folder,
        """
        import gc
        from akdl.tf_version import import_tensorflow
        import_tensorflow()
        import tensorflow
        later = []
        collected = gc.get_objects()
        print([any(each is one for each in collected) for one in (tensorflow.stay, later)])
        print(tensorflow.was_enabled, gc.isenabled())
        """,
    )
    assert said == ["[False, True]", "False True"]


def test_nothing_is_frozen_if_tensorflow_was_imported_before(folder: Path) -> None:
    """So it is in the tests, and wherever a program calls what these processes call."""
    said = run_with(
        folder,
        """
        import gc
        import tensorflow
        from akdl.tf_version import import_tensorflow
        before = gc.get_freeze_count()  # Python 3.12 itself freezes some
        import_tensorflow()
        print(gc.get_freeze_count() - before)
        """,
    )
    assert said == ["0"]


def test_an_error_of_the_import_leaves_the_collector_at_work(folder: Path) -> None:
    (folder / "tensorflow.py").write_text("1 / 0")
    said = run_with(
        folder,
        """
        import gc
        from akdl.tf_version import import_tensorflow
        before = gc.get_freeze_count()
        try:
            import_tensorflow()
        except ZeroDivisionError:
            print(gc.isenabled(), gc.get_freeze_count() - before)
        """,
    )
    assert said == ["True 0"]
