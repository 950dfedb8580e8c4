"""Pythons with PyTorch and JAX, for the tests of `make test-frameworks`."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPTS = pathlib.Path(__file__).parents[1] / "e2e" / "scripts" / "frameworks"


def python_with(framework: str) -> str:
    """Return the Python that AKDL_TEST_TORCH or AKDL_TEST_JAX names, or this one; skip the test
    where it lacks the package.
    """
    variable = f"AKDL_TEST_{framework.upper()}"
    python = os.environ.get(variable, sys.executable)
    if not _has(python, framework):
        pytest.skip(
            f"{python} has no {framework}: name a Python with it, numpy, grpcio and protobuf in {variable}"
        )
    return python


@functools.cache
def _has(python: str, framework: str) -> bool:
    program = (
        f"import importlib.util, sys; sys.exit(importlib.util.find_spec({framework!r}) is None)"
    )
    return subprocess.run([python, "-c", program]).returncode == 0


def trained(
    script: str, python: str, workers: int, folder: pathlib.Path, rows: int = 48, **params: object
) -> np.ndarray:
    """Train a script on a Flink table, unpack its model into a folder, and return the weights.

    `useLocalEnv(2)` has been called.
    """
    from akdl.storage.model_archive import unpack
    from operators import MemSourceBatchOp, TF2TableModelTrainBatchOp

    random = np.random.RandomState(7)
    points = random.randn(rows, 2)
    cells = [(point.tolist(), float(point.sum() > 0)) for point in points]
    op = TF2TableModelTrainBatchOp(
        userFiles=[str(SCRIPTS / script)], mainScriptFile=script, pythonEnv=python, userParams={"steps": 16, **params},
        numWorkers=workers, numPSs=0, equalSteps="drop",
    )  # fmt: skip
    model = MemSourceBatchOp(cells, "x ARRAY<FLOAT>, y FLOAT").link(op).collectToDataframe()
    unpack(model.itertuples(index=False, name=None), str(folder), as_is=True)
    return np.fromfile(folder / "weights", np.float32)
