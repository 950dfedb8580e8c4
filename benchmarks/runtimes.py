"""Prediction of a table with ONNX and PyTorch, compared with their own runtimes in one process.

    AKDL_TEST_TORCH=PYTHON python benchmarks/runtimes.py [--rounds N] [--folder FOLDER]
                                                         [--scale SHARE] [--only NAME]
                                                         [--hidden UNITS]

The model is a perceptron of 10, 256, 256 and 1, or of other UNITS, which a Python with PyTorch,
onnx and onnxruntime writes. A job predicts a table of 10 FLOAT columns in batches of 8,000 rows,
with two subtasks, and writes into a blackhole. The own runtime gets the same batches, which are
arrays in its process already, and stacks them as the model needs them. Both have the threads that
their runtime takes by default. Rates exclude the start-up: they count the rows beyond a small size.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from feed import profile
from jobs import Comparison, Job, RandomRows, compare, into, job_parser, sink
from other_python import OtherPython, answer
from predict import COLUMNS
from report import report

SMALL, LARGE = 400_000, 5_000_000
BATCH, PARALLELISM = 8000, 2
TARGET = 0.6
ONNX, TORCH = "ONNX", "PyTorch"
PYTHON = os.environ.get("AKDL_TEST_TORCH", sys.executable)

Model = Callable[[Any], Any]


def export_models(folder: pathlib.Path, hidden: int) -> None:
    """Write the model for both runtimes."""
    import torch

    class Perceptron(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(len(COLUMNS), hidden),
                torch.nn.ReLU(),
                torch.nn.Linear(hidden, hidden),
                torch.nn.ReLU(),
                torch.nn.Linear(hidden, 1),
            )

        def forward(self, x: Any) -> Any:
            return self.layers(x)[:, 0]

    rows = torch.zeros(BATCH, len(COLUMNS))
    model = Perceptron().eval()
    torch.jit.save(torch.jit.trace(model, rows), str(folder / "model.pt"))
    torch.onnx.export(
        model, (rows,), str(folder / "model.onnx"), input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, dynamo=False,
    )  # fmt: skip


def runtime_of(path: str) -> Model:
    """Return a function from an array of rows to the predictions, without akdl."""
    if path.endswith(".onnx"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda x: session.run(None, {"x": x})[0]
    import torch

    model = torch.jit.load(path)

    def predict(x: Any) -> Any:
        with torch.inference_mode():
            return model(torch.from_numpy(x)).numpy()

    return predict


def serve(path: str) -> None:
    """Predict as many rows as each line of the input says, and print the seconds."""
    model = runtime_of(path)
    columns = np.random.default_rng(1).random((len(COLUMNS), BATCH), np.float32)
    for line in sys.stdin:
        begun = time.perf_counter()
        for _ in range(int(line) // BATCH):
            assert model(np.stack(list(columns), axis=1)).shape == (BATCH,)
        answer(time.perf_counter() - begun)


def predicted(table_env: Any, numbers: RandomRows, path: str) -> Callable[[int], float]:
    """Return a function from a number of rows to the seconds of their prediction in a job."""
    from operators import BatchOperator, PredictBatchOp

    name = f"predictions_{path.rpartition('.')[2]}"
    predictions = sink(table_env, name, "y FLOAT")

    def run(rows: int) -> float:
        op = PredictBatchOp(
            modelPath=path,
            outputSchemaStr="y FLOAT",
            reservedCols=[],
            inferBatchSize=BATCH,
            pythonEnv=PYTHON,
        )
        op.linkFrom(BatchOperator.fromTable(numbers.table(rows)))
        return into(predictions, op.getOutputTable())

    return run


def main() -> None:
    """Measure and report."""
    known = job_parser()
    known.add_argument("--hidden", type=int, default=256, help="units of both hidden layers")
    known.add_argument("--export", type=pathlib.Path, help="for processes of the benchmark itself")
    known.add_argument("--runtime", help="for processes of the benchmark itself")
    given = known.parse_args()
    if given.export:
        export_models(given.export, given.hidden)
        return
    if given.runtime:
        serve(given.runtime)
        return
    from operators import useLocalEnv

    with tempfile.TemporaryDirectory() as folder:
        export = ["--export", folder, "--hidden", str(given.hidden)]
        subprocess.run([PYTHON, __file__, *export], check=True)
        table_env = useLocalEnv(PARALLELISM).btenv
        numbers = RandomRows(table_env, "numbers", dict.fromkeys(COLUMNS, "FLOAT NOT NULL"))
        jobs: dict[str, Job] = {}
        lines, owns = [], []
        for kind, file in ((ONNX, "model.onnx"), (TORCH, "model.pt")):
            path, own = os.path.join(folder, file), f"{kind} alone"
            owns.append(OtherPython(PYTHON, __file__, "--runtime", path))
            jobs[own] = Job(owns[-1].ask, SMALL, LARGE)
            jobs[kind] = Job(predicted(table_env, numbers, path), SMALL, LARGE)
            lines.append(Comparison(kind, kind, own, "its own runtime", TARGET))
        figures, nets = compare(jobs, lines, given)
        for each in owns:
            each.close()
    report("runtimes", f"Models of other runtimes, {given.hidden} units", figures, given.folder)
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
