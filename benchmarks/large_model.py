"""Peak memory of every process while a large model becomes a table and predicts: `python
benchmarks/large_model.py [MB ...]`.

A script makes a model of random numbers, which do not compress; one job makes its table, and
another predicts with the table. Each size runs in a driver of its own. The output per size is the
time of both steps and the peak resident memory in MB, as the kernel counts it (VmHWM), of the
driver (Flink's Python functions run in it), the JVM, the script's process, the process that checks
the model, and the process that predicts. The last three hold the model, the first two must not.
Linux only.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from processes import peak_mb

SCRIPT = """
import tensorflow as tf

def main(task_config):
    model = tf.Module()
    megabytes = int(task_config.user_params["mb"])
    model.parts = [tf.Variable(tf.random.uniform([25, 10000])) for _ in range(megabytes)]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(x):
        return {"y": x * 2.0, "total": tf.zeros_like(x) + sum(part[0, 0] for part in model.parts)}

    tf.saved_model.save(model, task_config.saved_model_dir, {"serving_default": serve})
"""
KINDS = {
    "akdl.entry": "script",
    "akdl.serving.saved_model": "check",
    "akdl.serving.model_server": "predictor",
    "java": "jvm",
}


def run(megabytes: int) -> None:
    """Train and predict in this process and print the times."""
    from operators import (
        BatchOperator,
        TF2TableModelTrainBatchOp,
        TFTableModelPredictBatchOp,
        getMLEnv,
        useLocalEnv,
    )

    # otherwise the heap grows to a quarter of the machine before a collection
    os.environ.setdefault("JVM_ARGS", "-Xmx1g")
    useLocalEnv(1)
    table_env = getMLEnv().btenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE numbers (x FLOAT) WITH ('connector' = 'datagen', 'number-of-rows' ="
        " '3', 'fields.x.min' = '1', 'fields.x.max' = '2')"
    )
    rows = BatchOperator.fromTable(table_env.from_path("numbers"))
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "train.py")
        script.write_text(SCRIPT)
        begun = time.monotonic()
        train = TF2TableModelTrainBatchOp(
            userFiles=[],
            mainScriptFile=str(script),
            userParams={"mb": megabytes},
            numWorkers=1,
            numPSs=0,
        )
        predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT, total FLOAT").linkFrom(
            rows.link(train), rows
        )
        trained = time.monotonic()
        found = predict.collectToDataframe()
    assert found.y.between(2, 4).all() and found.total.nunique() == 1, found
    print(
        f"{megabytes:,} MB: made in {trained - begun:.0f} s, predicted in"
        f" {time.monotonic() - trained:.0f} s",
        flush=True,
    )


def watch(child: "subprocess.Popen[bytes]") -> None:
    """Print the peaks of a driver and of all processes that it starts, when it has ended."""
    import psutil

    peaks: dict[str, float] = {}
    driver = psutil.Process(child.pid)
    while child.poll() is None:
        try:
            processes = [driver, *driver.children(recursive=True)]
        except psutil.Error:
            break
        for process in processes:
            try:
                command, peak = " ".join(process.cmdline()), peak_mb(process.pid)
            except (psutil.Error, OSError, StopIteration):
                continue  # it has just ended
            kind = (
                "driver"
                if process == driver
                else next((KINDS[word] for word in KINDS if word in command), "")
            )
            peaks[kind] = max(peaks.get(kind, 0), peak)
        time.sleep(0.1)
    print(
        "peak MB:",
        ", ".join(f"{kind} {peak:,.0f}" for kind, peak in sorted(peaks.items()) if kind),
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run(int(sys.argv[2]))
    else:
        for size in sys.argv[1:] or ["100", "1000"]:
            with subprocess.Popen([sys.executable, __file__, "--one", size]) as started:
                watch(started)
