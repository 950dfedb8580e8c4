"""A model of each kind, y = factor * x, made by a Python that has its framework.

That is the Python of the tests, or one of AKDL_TEST_MODELS, interpreters with colons between them
(`make test-models`).
"""

from __future__ import annotations

import functools
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from tests.support.environment import ENVIRONMENT
from tests.support.warm_python import warm_python

_TORCH = """
import sys, torch

class Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor

for path, factor in zip(sys.argv[1::2], map(float, sys.argv[2::2])):"""
_MAKERS = {
    "SavedModel": """
import sys, tensorflow as tf

for path, factor in zip(sys.argv[1::2], map(float, sys.argv[2::2])):
    scaled = tf.Module()
    scaled.f = tf.function(lambda x, factor=factor: {"y": factor * x}, [tf.TensorSpec([None], name="x")])
    tf.saved_model.save(scaled, path, scaled.f.get_concrete_function())
""",
    ".keras": """
import os, sys
os.environ.setdefault("KERAS_BACKEND", "jax")
import keras

for path, factor in zip(sys.argv[1::2], map(float, sys.argv[2::2])):
    keras.Sequential([keras.Input([1]), keras.layers.Rescaling(factor)]).save(path)
""",
    ".pt2": f"""{_TORCH}
    n = torch.export.Dim("n")
    torch.export.save(torch.export.export(Scaled(factor), (torch.ones(3),), dynamic_shapes=({{0: n}},)), path)
""",
    # Every second one has a signature, in a type that differs from the column's.
    "MLmodel": """
import sys, mlflow.sklearn, pandas
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

for number, path in enumerate(sys.argv[1::2]):
    x = pandas.DataFrame({"x": [1.0, 2.0]})
    y = float(sys.argv[2 + 2 * number]) * x["x"].rename("y")
    made = make_pipeline(MaxAbsScaler(), LinearRegression()).fit(x, y)
    made[-1].coef_, made[-1].intercept_ = made[-1].coef_.round(9), 0.0
    signature = None if number % 2 else mlflow.models.infer_signature(x, made.predict(x))
    # The default, skops, imports all that scikit-learn can use, which takes a minute of a slow host.
    pickled = {"serialization_format": "cloudpickle", "pip_requirements": []}
    mlflow.sklearn.save_model(made, path, signature=signature, **pickled)
""",
    ".pt": f"{_TORCH}\n    torch.jit.save(torch.jit.trace(Scaled(factor), torch.ones(3)), path)",
    "scikit-learn": """
import os, pickle, sys
from sklearn.linear_model import LinearRegression

for path, factor in zip(sys.argv[1::2], map(float, sys.argv[2::2])):
    os.mkdir(path)
    with open(os.path.join(path, "model.pickle"), "wb") as file:
        pickle.dump(LinearRegression(fit_intercept=False).fit([[1.0]], [factor]), file)
""",
}
_PACKAGES = {
    "SavedModel": "tensorflow",
    ".keras": "keras",
    ".onnx": "onnxruntime",
    ".pt2": "torch",
    ".pt": "torch",
    "scikit-learn": "sklearn",
    "MLmodel": "mlflow",
}
_TITLES = {
    "SavedModel": "kind=SavedModel device=CPU",
    ".keras": "kind=Keras device=CPU",
    ".onnx": "kind=ONNX device=CPU",
    ".pt2": "kind=PyTorch device=CPU",
    ".pt": "kind=PyTorch device=CPU",
    "MLmodel": "kind=MLflow",
}
# Of onnx.helper: a node Mul with the input x of [n] and the constant w, whose four bytes follow.
_ONNX = (
    b'\x08\x08:F\n\x0e\n\x01x\n\x01w\x12\x01y"\x03Mul\x12\x01g*\r\x08\x01\x10\x01"\x04',
    b"B\x01wZ\x10\n\x01x\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01nb\x10\n\x01y\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n"
    b"B\x04\n\x00\x10\x11",
)
# Functions that load a model, which they apply `power` times.
_FUNCTIONS = {
    "function": """
import pathlib

def load(path, power=1):
    factor = float(pathlib.Path(path, "factor").read_text()) ** power
    return lambda batch: {"y": factor * batch["x"]}
""",
    "scikit-learn": """
import functools, pathlib, pickle

def load(path, power=1):
    with pathlib.Path(path, "model.pickle").open("rb") as file:
        model = pickle.load(file)

    def predict(batch):
        once = lambda y, _: model.predict(y[:, None])
        return {"y": functools.reduce(once, range(power), batch["x"])}

    return predict
""",
}
_BY_TENSORFLOW = ("SavedModel", ".keras")
KINDS = tuple(dict.fromkeys([*_PACKAGES, *_FUNCTIONS]))


class Kind:
    """A kind of model, which is made in a folder; skips the test where no Python has its
    framework.
    """

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.name, self._folder = name, folder
        self.python = _python_with(_PACKAGES.get(name, "numpy"))
        self.is_here = self.python == sys.executable
        self.params: dict[str, Any] = {} if self.is_here else {"pythonEnv": self.python}
        if name in (".pt2", "MLmodel"):
            self.params["trusted"] = True
        self.is_function = name in _FUNCTIONS
        self.title = _TITLES.get(name, "kind=function")  # in the cells of modelCol
        if self.is_function:
            (folder / "score.py").write_text(_FUNCTIONS[name])
            self.params.update(predictFn=f"{folder}/score.py:load", userParams={"power": 1})

    def scaled(self, **factors: float) -> list[str]:
        """Make models with these factors, in one process of their framework; a name with __ is a
        path.
        """
        ending = self.name if self.name.startswith(".") else ""
        paths = [self._folder / f"{name.replace('__', '/')}{ending}" for name in factors]
        for path, factor in zip(paths, factors.values()):
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.name == "function":
                path.mkdir()
                (path / "factor").write_text(str(factor))
            elif self.name == ".onnx":
                path.write_bytes(struct.pack("<f", factor).join(_ONNX))
        if self.name in _MAKERS:
            given = [str(each) for pair in zip(paths, factors.values()) for each in pair]
            python = warm_python() if self.is_here and self.name in _BY_TENSORFLOW else self.python
            variables = {**ENVIRONMENT, "PYTHONWARNINGS": "ignore"}
            with tempfile.TemporaryDirectory() as place:
                (maker := pathlib.Path(place, "maker.py")).write_text(_MAKERS[self.name])
                command = [python, str(maker), *given]
                subprocess.run(command, env=variables, check=True, capture_output=True)
        return list(map(str, paths))


@functools.cache
def _has(python: str, package: str) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", code]).returncode == 0


def _python_with(package: str) -> str:
    for python in (
        sys.executable,
        *filter(None, os.environ.get("AKDL_TEST_MODELS", "").split(":")),
    ):
        if _has(python, package):
            return python
    pytest.skip(f"no Python of the tests has the package {package}: make test-models")
