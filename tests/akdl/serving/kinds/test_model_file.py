"""Models in files of any framework that this Python has; the others in tests/e2e/test_kinds.py."""

from __future__ import annotations

import collections
import pathlib
import shutil
import struct
import zipfile
from typing import Any

import numpy as np
import pytest

from akdl.serving.kinds.model_file import KINDS, missing_package
from akdl.serving.loaded_model import ServingError
from akdl.serving.model_store import ModelStore
from akdl.storage.model_forms import ModelError
from akdl.wire import Serving, TableColumn
from tests.support import kinds


def predicted(path: str, x: Any, **settings: Any) -> tuple[Any, Any]:
    columns = [TableColumn(name=name, type="FLOAT") for name in ("x", "y")]
    store = ModelStore(
        Serving(model=path, input_columns=columns[:1], output_columns=columns[1:], **settings)
    )
    results, bad, _ = store.predict({"x": x}, len(x))
    store.close()
    return results["y"], bad


@pytest.mark.tf
@pytest.mark.parametrize("name", [each for each in KINDS if each != "MLmodel"])
def test_model_file_of_each_framework_predicts_its_columns(
    name: str, tmp_path: pathlib.Path
) -> None:
    kind = kinds.Kind(name, tmp_path)
    if not kind.is_here:
        pytest.skip("of another Python")
    (path,) = kind.scaled(twice=2.0)
    trusted = {"trusted": name == ".pt2"}
    for place in (path, str(tmp_path)):
        results, bad = predicted(place, np.array([1.5, 2.0], "f4"), **trusted)
        assert np.asarray(results).tolist() == [3.0, 4.0] and not bad
    results, bad = predicted(path, [1.0, None], **trusted)
    assert list(results) == [2.0, None] and [row for row, _ in bad] == [1]
    pathlib.Path(path).write_bytes(b"damaged")
    with pytest.raises(ModelError, match=f"twice{name} (cannot be loaded|is not TorchScript)"):
        predicted(path, [1.0], **trusted)


@pytest.mark.fault("data", "Pickles in a .pt2 file are not loaded unless the file is trusted")
def test_a_pt2_file_is_loaded_only_if_it_is_trusted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.pt2").touch()
    with pytest.raises(ModelError, match="m.pt2: PyTorch unpickles parts .*set trusted=True"):
        predicted(str(tmp_path / "m.pt2"), np.ones(1, "f4"))


@pytest.mark.tf
@pytest.mark.fault("data", "Code in a .keras file does not run unless the file is trusted")
def test_code_in_a_keras_file_runs_only_if_it_is_trusted(tmp_path: pathlib.Path) -> None:
    keras = pytest.importorskip("keras")
    path = str(tmp_path / "m.keras")
    keras.Sequential([keras.Input([1]), keras.layers.Lambda(lambda x: 3 * x)]).save(path)
    with pytest.raises(ModelError, match="(?s)m.keras cannot be loaded: .*trusted=True"):
        predicted(path, np.ones(1, "f4"))
    assert np.asarray(predicted(path, np.ones(1, "f4"), trusted=True)[0]).tolist() == [3.0]


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5:UserWarning")
@pytest.mark.fault("data", "Code in a .keras file does not run in an older form of the file either")
def test_code_in_an_older_form_of_a_keras_file_runs_only_if_it_is_trusted(
    tmp_path: pathlib.Path,
) -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input([1]), keras.layers.Lambda(lambda x: 3 * x)])
    model.save(tmp_path / "m.h5")
    for ending in (".keras", ".KERAS"):
        path = shutil.copy(tmp_path / "m.h5", tmp_path / f"m{ending}")
        if ending == ".KERAS":  # a zip file as well
            with zipfile.ZipFile(path, "a") as file:
                file.writestr("config.json", "{}")
        with pytest.raises(ModelError, match="expected a zip file: other forms need trusted=True"):
            predicted(str(path), np.ones(1, "f4"))


def test_a_missing_framework_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setitem(KINDS, ".onnx", ("no_such_package", KINDS[".onnx"][1]))  # type: ignore[misc]
    (tmp_path / "m.onnx").touch()
    with pytest.raises(
        ServingError,
        match=r"m.onnx: a model of kind .onnx needs the package no_such_package, .* the extra no_such_package of",
    ):
        predicted(str(tmp_path / "m.onnx"), [1.0])
    assert not missing_package("") and not missing_package(".txt")


def test_onnx_input_of_an_unknown_shape_takes_rows(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("onnxruntime")
    # The node of `kinds`, whose input has a type alone.
    begin, end = kinds._ONNX
    begin = begin.replace(b":F", b":?")
    end = end.replace(
        b"Z\x10\n\x01x\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n",
        b"Z\x09\n\x01x\x12\x04\n\x02\x08\x01",
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(struct.pack("<f", 2.0).join((begin, end)))
    results, bad = predicted(str(path), np.array([1.5, 2.0], "f4"))
    assert results.tolist() == [3.0, 4.0] and not bad


def test_pt2_files_of_other_forms_predict(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Sum(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, half: Any, factor: int) -> Any:
            y = factor * x + half.float()
            return collections.OrderedDict(z=None, y=y.bfloat16())

    path, names = str(tmp_path / "m.pt2"), ("half", "x", "y")
    half, n = torch.ones(4, dtype=torch.bfloat16), torch.export.Dim("n")
    inputs = {"x": torch.ones(4), "half": half, "factor": 3}
    sizes = {"x": {0: n}, "half": {0: n}, "factor": None}
    torch.export.save(torch.export.export(Sum(), (), inputs, dynamic_shapes=sizes), path)
    columns = [TableColumn(name=name, type="FLOAT") for name in names]
    served = ModelStore(
        Serving(model=path, trusted=True, input_columns=columns[:2], output_columns=columns[2:])
    )
    cells = {"x": np.array([1, 2], "f4"), "half": np.array([0.5, 1], "f4")}
    results, bad, _ = served.predict(cells, 2)
    served.close()
    assert results["y"].tolist() == [3.5, 7.0] and not bad
