"""A model learns from clicks, while another job predicts clicks with its newest version.

    python examples/online_training/job.py                         # makes clicks
    python examples/online_training/job.py --kafka localhost:9092  # sends them through a topic

What visitors like changes: a model that was trained once becomes useless within a minute. The
program prints

    at least three models predicted, each has learnt more clicks than the one before
    AUC of the last 500 clicks: above 0.7 with newer models, below 0.65 with the first one
"""

import argparse
import glob
import os
import pathlib
import tempfile
import time

import numpy as np
from clicks import JOINED, TURN_S, auc, declare_tables

from operators import (
    CsvSinkStreamOp,
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    getMLEnv,
    useLocalEnv,
)

WINDOW = 500  # clicks


def follow(found, learning, half_turn):
    """Read predictions until the newer models are clearly better; return seconds and AUCs
    of both.
    """
    rows, start, curves, learnt = [], time.time(), [], []
    for row in found:
        rows.append(tuple(row))
        # such as `1795906795174 rows=4980 until=2026-11-28T22:59:37.342`
        clicks = int(row[3].split("rows=")[1].split()[0])
        if clicks not in learnt:
            learnt.append(clicks)
        if len(rows) < WINDOW or len(rows) % 100:
            continue
        learning.wait(0)
        once, newest = auc(rows[-WINDOW:], 1), auc(rows[-WINDOW:], 2)
        curves.append((time.time() - start, once, newest))
        if (
            curves[-1][0] >= TURN_S / 2
            if half_turn
            else len(learnt) >= 3 and newest > 0.7 and once < 0.65
        ):
            break
    assert learnt == sorted(learnt), learnt
    print("at least three models predicted, each has learnt more clicks than the one before")
    print("AUC of the last 500 clicks: above 0.7 with newer models, below 0.65 with the first one")
    return curves


parser = argparse.ArgumentParser()
parser.add_argument("--kafka", help="address of a broker, HOST:PORT")
parser.add_argument(
    "--record", help="CSV file for the AUC of windows of 500 clicks, over half a turn"
)
options = parser.parse_args()
script = str(pathlib.Path(__file__).with_name("learn.py"))
with tempfile.TemporaryDirectory() as folder:
    checkpoints = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
    }
    useLocalEnv(1, config={**checkpoints, **({"jars": ["kafka"]} if options.kafka else {})})
    tables = getMLEnv().stenv
    feed = declare_tables(tables, options.kafka)
    clicks = StreamOperator.fromTable(tables.sql_query(JOINED))
    models = os.path.join(folder, "models")
    learner = clicks.link(
        TensorFlow2StreamOp(
            userFiles=[script],
            mainScriptFile=script,
            numWorkers=1,
            numPSs=0,
            outputSchemaStr="loss FLOAT",
            publishDir=models,
            publishEvery=5,
        )
    )
    learner.link(CsvSinkStreamOp(filePath=os.path.join(folder, "losses/")))
    learning = StreamOperator.executeAsync()
    try:
        while not glob.glob(os.path.join(models, "*")):  # unfinished models have hidden names
            learning.wait(0.1)  # raises the error of that job
        first = min(glob.glob(os.path.join(models, "*")))
        once = clicks.link(
            TFSavedModelPredictStreamOp(
                modelPath=first, selectedCols=["price", "age"], outputSchemaStr="once FLOAT"
            )
        )
        newest = once.link(
            TFSavedModelPredictStreamOp(
                modelPath=first,
                modelStreamFilePath=models,
                modelStreamScanInterval=1,
                selectedCols=["price", "age"],
                reservedCols=["clicked", "once"],
                outputSchemaStr="newest FLOAT",
                modelCol="model",
            )
        )
        with newest.getOutputTable().execute().collect() as found:
            curves = follow(found, learning, half_turn=options.record is not None)
    finally:
        learning.cancel()  # also waits, so that no model is published to the removed folder
        if feed is not None:
            feed.cancel().result()
if options.record:
    np.savetxt(options.record, curves, "%.3f", ",", header="seconds,once,newest", comments="")
