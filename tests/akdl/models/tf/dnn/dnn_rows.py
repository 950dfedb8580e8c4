"""Rows that the DNN classifiers learn, and how well a model predicts them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

FEATURES = ["a", "b c", "größe"]
PARAMS = {"featureCols": FEATURES, "labelCol": "label", "batch_size": 32, "num_epochs": 15}
TEXT_PARAMS = {
    "featureCols": json.dumps(FEATURES),
    "labelCol": "label",
    "batch_size": "32",
    "num_epochs": "15",
}


def made_rows(rows: int = 400) -> tuple[dict[str, Any], dict[str, str]]:
    """Rows whose label says whether a + b exceeds g; a gap of 0.2 lies between the classes."""
    values = np.random.default_rng(7).uniform(-1, 1, [rows * 2, 3])
    values = values[abs(values @ [1, 1, -1]) > 0.2][:rows]
    cells = {
        "a": values[:, 0],
        "b c": values[:, 1],
        "größe": values[:, 2],
        "label": values @ [1, 1, -1] > 0,
    }
    types = {
        "a": "DOUBLE",
        "b c": "FLOAT NOT NULL",
        "größe": "DOUBLE",
        "id": "STRING",
        "label": "DOUBLE",
    }
    return {**cells, "id": ["x"] * len(values)}, types


def accuracy(tf: Any, folder: str, cells: dict[str, Any], key: str) -> float:
    signature = tf.saved_model.load(folder).signatures[key]
    feeds = {name: tf.constant(cells[name], tf.float32, [len(cells[name]), 1]) for name in FEATURES}
    _, keywords = signature.structured_input_signature
    # A signature's own argument names are made fit for Python; they are in the order of the sorted
    # inputs.
    result = signature(**dict(zip(sorted(keywords), [feeds[name] for name in sorted(feeds)])))
    assert result["logits"].shape == (len(cells["label"]), 1)
    return float(np.mean((result["logits"].numpy()[:, 0] > 0) == cells["label"]))
