"""Logistic regression with ParameterServerStrategy, asynchronous; the chief gives out the work
(chiefCoordinates). Needs the user file `keras_group.py`.

Table: `x0 FLOAT, x1 FLOAT, label BIGINT` (0 or 1). User parameters: `batchSize` (20), `numEpochs`
(5), `learningRate` (0.5). The chief writes one row, `strategy STRING, loss FLOAT, rows FLOAT,
weights STRING`: the class name of the strategy; of the last epoch the loss and the rows that all
workers saw; the weights [w0, w1, bias] as JSON.
"""

from __future__ import annotations

from typing import Any

from keras_group import train_and_report


def main(task_config: Any) -> None:
    train_and_report(task_config)
