"""Cost of a newer model: `python benchmarks/swaps.py [--swaps N]`.

A server process takes over a model of 200 MB again and again, while a client asks for 20 rows every
10 ms. The delay of a call begins when it is due. Runs alone only.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import psutil
import serving
import tensorflow as tf

from akdl.wire import Notices, Offer

ROWS, PACE_S, ALONE_S = 20, 0.01, 10.0
LARGE = (5000, 10_000)  # float32: 200 MB


def save_model(folder: str) -> None:
    """Write a model with the input and the output of the small one of `serving.py`, and a large
    weight.
    """
    model = tf.Module()
    model.large = tf.Variable(tf.random.stateless_uniform(LARGE, (1, 2)))

    @tf.function(input_signature=[tf.TensorSpec([None, serving.WIDTH], name="x")])
    def predict(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, model.large[: serving.WIDTH, :3])}

    model.predict = predict
    tf.saved_model.save(model, folder, predict)


def resident_mb() -> float:
    """Return the memory of the server process, the only child."""
    (process,) = psutil.Process().children()
    return process.memory_info().rss / 1e6


class Client(threading.Thread):
    """Asks for rows at a steady pace, and keeps when each call was due and how many ms later it was
    answered.
    """

    def __init__(self, predict: serving.Predict) -> None:
        super().__init__(daemon=True)
        self._predict, self._ended = predict, threading.Event()
        self.calls: list[tuple[float, float]] = []

    def run(self) -> None:
        """Call until the end."""
        cells, due = np.ones((ROWS, serving.WIDTH), "f4"), time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            self._predict(cells)
            self.calls.append((due, 1000 * (time.monotonic() - due)))
            due += PACE_S

    def end(self) -> None:
        """Wait for the last call."""
        self._ended.set()
        self.join()


def quantiles(name: str, delays: list[float]) -> None:
    """Print a line of the table."""
    print(
        f"{name}: p50 {statistics.median(delays):.1f} ms, p99"
        f" {statistics.quantiles(delays, n=100)[-1]:.1f} ms"
    )


def measure(client: Client, replace: Callable[[], None], swaps: int) -> None:
    """Replace the model, and print the delays alone and in the meantime, and the memory."""
    client.start()
    time.sleep(1 + ALONE_S)
    begun = client.calls[0][0] + 1
    quantiles("alone", [delay for due, delay in client.calls if due >= begun])
    times, memory = [], [resident_mb()]
    for _ in range(swaps):
        started = time.monotonic()
        replace()
        times.append((started, time.monotonic()))
        memory.append(resident_mb())
        time.sleep(0.5)
    client.end()
    quantiles(
        "while a newer model loads",
        [delay for due, delay in client.calls if any(start <= due < end for start, end in times)],
    )
    print(
        f"loading: {statistics.median(end - start for start, end in times):.2f} s, median of"
        f" {swaps}"
    )
    print(
        f"memory: {memory[0]:.0f} MB at first, {memory[1]:.0f} after the first newer model,"
        f" {memory[-1]:.0f} after the last"
    )


def main() -> None:
    """Measure and print."""
    known = argparse.ArgumentParser()
    known.add_argument("--swaps", type=int, default=50)
    swaps = known.parse_args().swaps
    with tempfile.TemporaryDirectory() as folder:
        models = [str(pathlib.Path(folder) / name) for name in ("first", "second")]
        for model in models:
            save_model(model)
        with serving.server(models[0], folder) as (predict, call):
            offered = iter(range(1, swaps + 1))

            def replace() -> None:
                model = models[next(offered) % 2]
                (notice,) = call(
                    "Replace", Offer(model=model, name=os.path.basename(model)), Notices
                ).notices
                assert "took over" in notice.text, notice.text

            measure(Client(predict), replace, swaps)


if __name__ == "__main__":
    main()
