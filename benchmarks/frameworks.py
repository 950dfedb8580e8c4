"""Rows into a loop of PyTorch, compared with the same loop in TensorFlow.

    AKDL_TEST_TORCH=PYTHON python benchmarks/frameworks.py [--rounds N] [--folder FOLDER]

Both loops read batches of 1,024 rows of ten FLOAT and a BIGINT, which are in the process already,
from `arrays` and from `batches`. One loop makes a matrix of the numbers and adds them up, the other
one also trains a perceptron. Each framework has a process in a Python of its own, and the processes
take turns. The Python with PyTorch needs no TensorFlow.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ingest import BATCH, NUMBERS, ROWS, kept, table_columns
from other_python import OtherPython, answer
from report import Figure, parser, report

from akdl.rows.file_rows import FileRows
from akdl.runner.context import TFContext
from bridge.host.allocator import MEMORY

FLOATS = [name for name, sql in NUMBERS.items() if sql.startswith("FLOAT")]
READS, TRAINS = KINDS = ("reads", "reads and trains")
HIDDEN, RATE = 64, 0.01
PASSES = {READS: 4, TRAINS: 1}
TARGET = 0.95


Loop = Callable[[TFContext, int, bool], int]


def torch_loop() -> Loop:
    """Return a loop that reads all rows with PyTorch, and returns their number."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(len(FLOATS), HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)
    )
    optimizer, total = torch.optim.SGD(model.parameters(), RATE), torch.zeros(())

    def loop(context: TFContext, passes: int, trains: bool) -> int:
        count = 0
        for rows in context.arrays(BATCH, num_epochs=passes):
            x = torch.from_numpy(np.stack([rows[name] for name in FLOATS], axis=1))
            if trains:
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
                loss.backward()
                optimizer.step()
            else:
                total.add_(x.sum())
            count += len(x)
        return count

    return loop


def tensorflow_loop() -> Loop:
    """Return a loop that reads all rows with TensorFlow, and returns their number."""
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(HIDDEN, "relu"), tf.keras.layers.Dense(1)])
    model.build((None, len(FLOATS)))
    optimizer, total = tf.keras.optimizers.SGD(RATE), tf.Variable(0.0)
    # A function that is traced once more must not make variables.
    optimizer.build(model.trainable_variables)

    # Traced in the first round, which warms up.
    @tf.function(reduce_retracing=True)
    def step(rows: Any, trains: bool) -> None:
        x = tf.stack([rows[name] for name in FLOATS], axis=1)
        if trains:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        else:
            total.assign_add(tf.reduce_sum(x))

    def loop(context: TFContext, passes: int, trains: bool) -> int:
        count = 0
        for rows in context.batches(BATCH, num_epochs=passes):
            step(rows, trains)
            count += len(rows[FLOATS[0]])
        return count

    return loop


LOOPS: dict[str, Callable[[], Loop]] = {"torch": torch_loop, "tensorflow": tensorflow_loop}


def serve(framework: str) -> None:
    """Run a loop for each line of the input that names it, and print its rows per second."""
    columns, loop = table_columns(NUMBERS), LOOPS[framework]()
    for line in sys.stdin:
        kind = line.strip()
        with tempfile.TemporaryDirectory() as folder:
            context = TFContext(FileRows(folder, kept("numbers"), columns), columns)
            assert context.rows.length() == ROWS
            begun = time.perf_counter()
            assert loop(context, PASSES[kind], kind == TRAINS) == PASSES[kind] * ROWS
            answer(PASSES[kind] * ROWS / (time.perf_counter() - begun))


def main() -> None:
    """Measure and report."""
    known = parser()
    known.add_argument("--loop", choices=LOOPS, help="for the processes of the benchmark itself")
    given = known.parse_args()
    if given.loop:
        serve(given.loop)
        return
    pythons = {
        "torch": os.environ.get("AKDL_TEST_TORCH", sys.executable),
        "tensorflow": sys.executable,
    }
    loops = {
        # As a script gets it.
        framework: OtherPython(python, __file__, "--loop", framework, **MEMORY)
        for framework, python in pythons.items()
    }
    rates: dict[tuple[str, str], list[float]] = {}
    # The first round warms up.
    for number in range(given.rounds + 1):
        for kind in KINDS:
            for framework in loops:
                found = loops[framework].ask(kind)
                if number:
                    rates.setdefault((framework, kind), []).append(found)
    for process in loops.values():
        process.close()
    figures = [
        Figure(
            f"{kind}: arrays into PyTorch",
            "rows/s",
            rates["torch", kind],
            rates["tensorflow", kind],
            "batches into TensorFlow",
            TARGET,
        )
        for kind in KINDS
    ]
    report("frameworks", f"{ROWS:,} rows in batches of {BATCH:,}", figures, given.folder)


if __name__ == "__main__":
    main()
