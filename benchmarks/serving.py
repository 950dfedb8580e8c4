"""How fast a model predicts: `python benchmarks/serving.py [SECONDS_EACH]`.

A dense model (100 numbers in; 64, 32 and 3 units), one row at a time and 256 at a time: TensorFlow's own call of the signature
with tensors that are ready made, `LocalPredictor` in this process, and a server process through its socket.
"""

import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from akdl.columns import decode_columns, encode_columns
from akdl.serving.local import LocalPredictor
from akdl.wire import Description, Empty, Prediction, Serving, TableColumn
from akdl.wire.service import PREDICT_SERVICE, TOKEN

WIDTH, BATCH = 100, 256


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        layers = [tf.keras.layers.Dense(units, activation="relu") for units in (64, 32)]
        tf.saved_model.save(
            tf.keras.Sequential([tf.keras.Input([WIDTH], name="x"), *layers, tf.keras.layers.Dense(3, name="y")]), model
        )
        rows = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("f4")
        tensorflow_alone(model, rows, seconds)
        local(model, rows, seconds)
        server(model, rows, folder, seconds)


def tensorflow_alone(model, rows, seconds):
    loaded = tf.saved_model.load(model)
    function = loaded.signatures["serving_default"]
    one, many = tf.constant(rows[:1]), tf.constant(rows)
    report("TensorFlow alone", lambda: function(x=one)["y"].numpy(), lambda: function(x=many)["y"].numpy(), seconds)


def local(model, rows, seconds):
    started = time.perf_counter()
    predictor = LocalPredictor(model, ["x"], [("y", "ARRAY<FLOAT>")], reserved_cols=[])
    loaded = time.perf_counter()
    cells = [(row,) for row in rows.tolist()]
    predictor.map(cells[0])
    print(f"LocalPredictor: loads in {loaded - started:.2f} s, first call {1000 * (time.perf_counter() - loaded):.1f} ms")
    report("LocalPredictor, lists", lambda: predictor.map(cells[0]), lambda: predictor.map_batch(cells), seconds)
    arrays = [(row,) for row in rows]
    report("LocalPredictor, arrays", lambda: predictor.map(arrays[0]), lambda: predictor.map_batch(arrays), seconds)


def server(model, rows, folder, seconds):
    inputs, outputs = [TableColumn(name="x", type="ARRAY<FLOAT>")], [TableColumn(name="y", type="ARRAY<FLOAT>")]
    address = f"unix:{folder}/model.sock"
    serving = json_format.MessageToJson(Serving(model=model, input_columns=inputs, output_columns=outputs))
    end, pipe = os.pipe()
    own = {"AKDL_PARENT_FD": str(end), "AKDL_ADDRESS": address, "AKDL_TOKEN": "secret", "AKDL_SERVING": serving}
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "akdl.serving.server"], pass_fds=[end], env={**os.environ, **own})
    channel = grpc.insecure_channel(address)

    def call(name, request, answer):
        method = channel.unary_unary(f"/{PREDICT_SERVICE}/{name}", type(request).SerializeToString, answer.FromString)
        return method(request, metadata=[(TOKEN, "secret")], wait_for_ready=True, timeout=120)

    def predict(cells):
        answer = call("Predict", encode_columns({"x": cells}, inputs), Prediction)
        assert not answer.bad_rows and not answer.HasField("failure")
        return decode_columns(answer.rows, outputs)["y"]

    call("Describe", Empty(), Description)
    print(f"server: ready in {time.perf_counter() - started:.2f} s")
    report("server process", lambda: predict(rows[:1]), lambda: predict(rows), seconds)
    channel.close()
    os.close(pipe)
    process.wait(30)


def report(what, one, many, seconds):
    one_by_one, by_batch = sorted(times(one, seconds)), times(many, seconds)
    p50, p99 = (1000 * one_by_one[int(part * (len(one_by_one) - 1))] for part in (0.5, 0.99))
    print(f"{what}: one row p50 {p50:.2f} ms, p99 {p99:.2f} ms; {BATCH * len(by_batch) / sum(by_batch):,.0f} rows/s at {BATCH}")


def times(call, seconds):
    for _ in range(20):
        call()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return taken


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
