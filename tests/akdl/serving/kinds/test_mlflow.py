"""Folders of MLflow, and models in its registry, in a Python that has it."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from akdl.serving.model_store import ModelStore
from akdl.storage.files import FileError, fetch
from akdl.storage.model_forms import ModelError, file_at, kind_at
from akdl.storage.model_place import check_model
from akdl.wire import Serving, TableColumn
from tests.support import kinds
from tests.support.environment import ENVIRONMENT

_BEGIN = """
import functools, json, os, sys
import mlflow.pyfunc, numpy as np, pandas
from mlflow.types import ColSpec, Schema, TensorSpec
from akdl.serving.model_server import ModelServer
from akdl.serving.model_store import ModelStore
from akdl.serving.model_stream import ModelFolderWatch
from akdl.wire import Serving, TableColumn

class Model(mlflow.pyfunc.PythonModel):
    def __init__(self, function):
        self.function = function

    def predict(self, context, model_input, params=None):
        return self.function(model_input)

def save(path, function, signature=None):
    model = Model(function)
    mlflow.pyfunc.save_model(path, python_model=model, signature=signature, pip_requirements=[])

def columns(text):
    pairs = [each.split() for each in text.split(", ")]
    return [TableColumn(name=name, type=kind) for name, kind in pairs]

def predicted(path, inputs, outputs, *cells):
    inputs = columns(inputs)
    settings = {"input_columns": inputs, "output_columns": columns(outputs), "trusted": True}
    store = ModelStore(Serving(model=path, **settings))
    given = {column.name: each for column, each in zip(inputs, cells)}
    results, bad, _ = store.predict(given, len(cells[0]))
    store.close()
    return {name: np.asarray(cells).tolist() for name, cells in results.items()}, bad
"""


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[[str], Any]:
    python = kinds._python_with("mlflow")

    def run(code: str) -> Any:
        environment = {
            **ENVIRONMENT,
            "PYTHONPATH": os.getcwd(),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/registry.db",
        }
        command = [python, "-W", "ignore", "-c", _BEGIN + code]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.tf
def test_columns_feed_what_the_signature_says(run: Callable[[str], Any]) -> None:
    found = run("""
numbers = Schema([ColSpec("float", "x"), ColSpec("double", "n"), ColSpec("string", "k", required=False)])
results = Schema([ColSpec("string", "text"), ColSpec("double", "sum")])
def table(rows):
    kinds = "".join(rows.dtypes.map(lambda each: each.kind))
    return pandas.DataFrame({"sum": rows.x + rows.n, "other": 0, "text": kinds + rows.get("k", "")})
save("table", table, mlflow.models.ModelSignature(numbers, results))
pairs = mlflow.models.ModelSignature(Schema([TensorSpec(np.dtype("float64"), (-1, 2))]))
save("tensor", lambda array: array @ [[1, 2], [3, 4]], pairs)
named = mlflow.models.ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, 2), "v")]))
save("tensors", lambda arrays: {"y": arrays["v"].sum(axis=1)}, named)
save("plain", lambda rows: [f"{k} {t.year} {sum(v)}" for k, t, v in zip(rows.k, rows.t, rows.v)])
x, n, k = np.array([1.5, 2.5]), np.array([2, 3]), [b"a", b"b"]
print(json.dumps([
    predicted("table", "n BIGINT, x DOUBLE", "sum DOUBLE, text STRING", n, x),
    predicted("table", "k STRING, n BIGINT, x DOUBLE", "text STRING", k, n, x),
    predicted("tensor", "x DOUBLE, n BIGINT", "a DOUBLE, b DOUBLE", x, n),
    predicted("tensors", "v ARRAY<DOUBLE>", "y DOUBLE", [x, x]),
    predicted("plain", "k STRING, t TIMESTAMP(3), v ARRAY<DOUBLE>", "y STRING", k, n * 10 ** 15, [x, x]),
]))
""")
    assert found == [
        [{"sum": [3.5, 5.5], "text": ["ff", "ff"]}, []],
        [{"text": ["ffOa", "ffOb"]}, []],
        [{"a": [7.5, 11.5], "b": [11.0, 17.0]}, []],
        [{"y": [4.0, 4.0]}, []],
        [{"y": ["a 2033 4.0", "b 2065 4.0"]}, []],
    ]


@pytest.mark.tf
def test_each_model_has_the_code_of_its_own_folder(run: Callable[[str], Any]) -> None:
    assert run("""
for factor in (2, 3):
    os.mkdir("code")
    with open("code/factors.py", "w") as file:
        file.write(f"class Times:\\n    def __call__(self, rows):\\n        return {factor} * rows['x']\\n")
    code = os.path.abspath("code")
    sys.path.insert(0, code)
    import factors
    mlflow.pyfunc.save_model(f"m{factor}", python_model=Model(factors.Times()), pip_requirements=[], code_paths=["code/factors.py"])
    sys.path.remove(code)
    del sys.modules["factors"]
    os.rename("code", f"code{factor}")
print(json.dumps([predicted(f"m{factor}", "x DOUBLE", "y DOUBLE", np.ones(1)) for factor in (2, 3, 2)]))
""") == [[{"y": [float(factor)]}, []] for factor in (2, 3, 2)]


@pytest.mark.tf
def test_an_alias_is_followed_to_newer_and_older_versions(run: Callable[[str], Any]) -> None:
    found = run("""
client, reports, used = mlflow.MlflowClient(), [], []
client.create_registered_model("scaled")
for factor in (2, 3):
    save(f"times{factor}", functools.partial(lambda factor, rows: factor * rows["x"], factor))
    client.create_model_version("scaled", os.path.abspath(f"times{factor}"))
client.set_registered_model_alias("scaled", "prod", 1)
x, y = columns("x DOUBLE, y DOUBLE")
serving = Serving(model="models:/scaled@prod", model_stream_file_path="models:/scaled@prod", model_stream_scan_interval=1e6,
    trusted=True, input_columns=[x], output_columns=[y], model_col="m")
server = ModelServer(serving, "127.0.0.1:0", "token")
server._load()
watch = ModelFolderWatch(serving.model_stream_file_path, 0, server._store.offer, server._report, serving.model)
for version in (1, 2, 1, None):
    if version:
        client.set_registered_model_alias("scaled", "prod", version)
    else:
        client.delete_registered_model_alias("scaled", "prod")
    watch.look()
    results, _, served_by = server._store.predict({"x": np.ones(1)}, 1)
    used.append([results["y"].tolist(), results["m"], served_by])
print(json.dumps([used, server._notices[-1].text, predicted("models:/scaled/2", "x DOUBLE", "y DOUBLE", np.ones(1))]))
sys.stdout.flush()
os._exit(0)
""")
    assert found[0] == [
        [[factor], [f"{version} kind=MLflow"], [number, "MLflow", ""]]
        for factor, version, number in [(2.0, 1, 1), (3.0, 2, 2), (2.0, 1, 3), (2.0, 1, 3)]
    ]
    assert "models:/scaled@prod: MLflow" in found[1] and "alias prod not found" in found[1]
    assert found[2] == [{"y": [3.0]}, []]


@pytest.mark.fault("data", "Pickles in a folder of MLflow are not loaded unless it is trusted")
def test_a_folder_of_mlflow_is_loaded_only_if_it_is_trusted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "MLmodel").touch()
    with pytest.raises(ModelError, match="MLmodel: MLflow unpickles .*set trusted=True"):
        ModelStore(Serving(model=str(tmp_path)))


def test_files_in_a_folder_of_mlflow_are_read_without_it(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "m"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "MLmodel").touch()
    (folder / "artifacts" / "users_own.onnx").touch()
    assert kind_at(str(folder)) == "MLmodel"
    (folder / "model.onnx").write_bytes(struct.pack("<f", 2.0).join(kinds._ONNX))
    x, y = (TableColumn(name=name, type="FLOAT") for name in ("x", "y"))
    store = ModelStore(Serving(model=str(folder), input_columns=[x], output_columns=[y]))
    assert list(store.predict({"x": np.ones(1, "f4")}, 1)[0]["y"]) == [2.0]
    store.close()
    (folder / "model.onnx").unlink()
    (folder / "data").mkdir()
    (folder / "data" / "model.keras").touch()
    assert file_at(str(folder)) == str(folder / "data" / "model.keras")
    (folder / "data" / "custom_objects.cloudpickle").touch()
    assert kind_at(str(folder)) == "MLmodel"
    check_model(str(folder))


def test_a_registry_without_mlflow_is_an_error_with_its_extra(tmp_path: pathlib.Path) -> None:
    try:
        import mlflow  # noqa: F401
    except ImportError:
        with pytest.raises(FileError, match="models:/m@prod: MLflow, the extra mlflow of akdl"):
            fetch("models:/m@prod", str(tmp_path))
    else:
        pytest.skip("this Python has MLflow")
