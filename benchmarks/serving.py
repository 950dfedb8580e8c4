"""Latency of a model: `python benchmarks/serving.py [--rounds N] [--folder FOLDER]`.

A dense model (100 numbers in; 64, 32 and 3 units), one row at a time and 256 at a time:
`LocalPredictor` in this process, and a server process through its socket. The limit is TensorFlow's
own call of the signature with tensors made before.
"""

from __future__ import annotations

import functools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from report import Figure, arguments, report

from akdl.wire import Description, Empty, Prediction, Serving, TableColumn
from akdl.wire.columns import decode_columns, encode_columns
from akdl.wire.service import PREDICT_SERVICE
from akdl.wire.token import TOKEN
from operators import TFSavedModelPredictor

WIDTH, BATCH = 100, 256
SECONDS = 0.3  # of calls, for each kind in each round
LIMIT = "TensorFlow alone"
Predict = Callable[[Any], Any]


def main() -> None:
    """Measure and report."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        save_model(model)
        rows = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("f4")
        with server(model, folder) as (through_socket, _):
            kinds: dict[str, tuple[Predict, Callable[[Any], Any]]] = {
                LIMIT: (tensorflow_alone(model), tf.constant),
                "LocalPredictor, lists": (
                    local(model),
                    lambda rows: [(row,) for row in rows.tolist()],
                ),
                "LocalPredictor, arrays": (local(model), lambda rows: [(row,) for row in rows]),
                "server process": (through_socket, lambda rows: rows),
            }
            calls = {
                kind: [functools.partial(predict, prepare(some)) for some in (rows[:1], rows)]
                for kind, (predict, prepare) in kinds.items()
            }
            rounds = [
                {kind: [times(call) for call in both] for kind, both in calls.items()}
                for _ in range(given.rounds)
            ]
    figures = []
    for kind in list(kinds)[1:]:
        for name, unit, measure in (
            ("one row, p50", "ms", lambda one, many: 1000 * statistics.median(one)),
            ("one row, p99", "ms", lambda one, many: 1000 * statistics.quantiles(one, n=100)[-1]),
            (f"{BATCH} rows", "rows/s", lambda one, many: BATCH * len(many) / sum(many)),
        ):
            values, limits = ([measure(*each[place]) for each in rounds] for place in (kind, LIMIT))
            figures.append(Figure(f"{kind}, {name}", unit, values, limits, LIMIT, None))
    report("serving", "Latency of a model", figures, given.folder)


def save_model(folder: str) -> None:
    """Write the model."""
    layers = [tf.keras.layers.Dense(units, activation="relu") for units in (64, 32)]
    tf.saved_model.save(
        tf.keras.Sequential(
            [tf.keras.Input([WIDTH], name="x"), *layers, tf.keras.layers.Dense(3, name="y")]
        ),
        folder,
    )


def tensorflow_alone(model: str) -> Predict:
    """Return a call of the signature with a tensor."""
    loaded = tf.saved_model.load(model)
    return lambda rows: loaded.signatures["serving_default"](x=rows)["y"].numpy()


def local(model: str) -> Predict:
    """Return a call that predicts a list of rows in this process."""
    stage = TFSavedModelPredictor(
        modelPath=model, outputSchemaStr="y ARRAY<FLOAT>", reservedCols=[]
    )
    predictor = stage.collectLocalPredictor("x ARRAY<FLOAT>")
    return lambda rows: predictor.map(rows[0]) if len(rows) == 1 else predictor.map_batch(rows)


@contextmanager
def server(model: str, folder: str) -> Iterator[tuple[Predict, Callable[[str, Any, Any], Any]]]:
    """Start a server process; yield a call that sends it an array of rows, and one of any
    method.
    """
    inputs, outputs = (
        [TableColumn(name="x", type="ARRAY<FLOAT>")],
        [TableColumn(name="y", type="ARRAY<FLOAT>")],
    )
    address = f"unix:{folder}/model.sock"
    serving = pathlib.Path(folder) / "serving.json"
    serving.write_text(
        json_format.MessageToJson(
            Serving(model=model, input_columns=inputs, output_columns=outputs)
        )
    )
    end, pipe = os.pipe()
    own = {
        "AKDL_PARENT_FD": str(end),
        "AKDL_ADDRESS": address,
        "AKDL_TOKEN": "secret",
        "AKDL_SERVING": str(serving),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "akdl.serving.model_server"],
        pass_fds=[end],
        env={**os.environ, **own},
    )
    channel = grpc.insecure_channel(address)

    def call(name: str, request: Any, answer: Any) -> Any:
        method = channel.unary_unary(
            f"/{PREDICT_SERVICE}/{name}", type(request).SerializeToString, answer.FromString
        )
        return method(request, metadata=[(TOKEN, "secret")], wait_for_ready=True, timeout=120)

    def predict(cells: Any) -> Any:
        answer = call("Predict", encode_columns({"x": cells}, inputs), Prediction)
        assert not answer.bad_rows and not answer.HasField("failure")
        return decode_columns(answer.rows, outputs)["y"]

    call("Describe", Empty(), Description)  # answers when the model is loaded
    try:
        yield predict, call
    finally:
        channel.close()
        os.close(pipe)
        process.wait(30)


def times(call: Callable[[], Any]) -> list[float]:
    """Return the seconds of each call."""
    for _ in range(20):
        call()
    taken, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return taken


if __name__ == "__main__":
    main()
