"""One job learns from a stream, and another one predicts with each model that it publishes, without a pause.

    python examples/online_training/job.py

prints

    learner: published_after
    learner: 0
    three models predicted one after the other, the last one is off by less than 0.1
"""

import glob
import os
import pathlib
import tempfile

from operators import RandomTableSourceStreamOp, StreamOperator, TensorFlow2StreamOp, TFSavedModelPredictStreamOp, useLocalEnv

ENOUGH = 100_000


def numbers(seconds):
    """Return a stream with the columns x and y = 3 x - 2."""
    source = RandomTableSourceStreamOp().setMaxRows(ENOUGH).setNumCols(1).setTimePerSample(seconds)
    return source.select("CAST(col0 AS FLOAT) AS x, CAST(3 * col0 - 2 AS FLOAT) AS y")


script = str(pathlib.Path(__file__).with_name("learn.py"))
useLocalEnv(1)
with tempfile.TemporaryDirectory() as folder:
    models = os.path.join(folder, "models")
    learner = numbers(0.001).link(
        TensorFlow2StreamOp()
        .setUserFiles([script])
        .setMainScriptFile(script)
        .setUserParams({"models": models, "publish_every": 1000})
        .setOutputSchemaStr("published_after BIGINT")
        .setNumWorkers(1)
        .setNumPSs(0)
    )
    learner.print(1, title="learner")
    learning = StreamOperator.executeAsync()
    try:
        complete = os.path.join(models, "*")  # others have hidden names
        while not glob.glob(complete):
            learning.wait(0.1)  # raises the error of that job
        predictor = numbers(0.01).link(
            TFSavedModelPredictStreamOp()
            .setModelPath(min(glob.glob(complete)))
            .setModelStreamFilePath(models)
            .setModelStreamScanInterval(1)
            .setSelectedCols(["x"])
            .setOutputSignatureDefs(["y", "learnt"])
            .setOutputSchemaStr("predicted FLOAT, learnt BIGINT")
        )
        models_seen, good = set(), 0
        with predictor.select("ABS(predicted - y), learnt").getOutputTable().execute().collect() as rows:
            for error, learnt in rows:
                learning.wait(0)
                models_seen.add(learnt)
                good = good + 1 if error < 0.1 else 0
                if len(models_seen) >= 3 and good >= 20:
                    break
        print("three models predicted one after the other, the last one is off by less than 0.1")
    finally:
        learning.cancel()  # also waits, so that no model is published to the removed folder
