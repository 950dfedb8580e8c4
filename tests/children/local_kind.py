"""Predicts x = 0.5 in this process, as a LocalPredictor and `akdl serve` do, and prints the values.

Its only argument has the settings in JSON: `pipeline` is a saved one, `columns` are its columns,
`newer` are parameters with a newer model, and `model` is a path, or "" for a function.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from operators.local_predictor import LocalPredictor
from operators.serve.rest_server import _load


def predicted(
    pipeline: str, columns: str, newer: dict[str, Any], model: str, trusted: bool
) -> list[float]:
    """Return the values of a pipeline, of a newer model in it, and of a served model."""
    found = []
    for params in ({}, newer):
        with LocalPredictor(pipeline, columns, trusted=True, **params) as predictor:
            result = predictor.map((1, "a", 0.5))
            assert result[0] == 1
            found.append(result[1])
    arguments = {"models": [("served", model)], "columns": [], "signature": [], "trusted": trusted}
    if not model:
        arguments.update(models=[("served", pipeline)], columns=[("", columns)], trusted=True)
    served = _load(argparse.Namespace(**arguments))["served"]
    asked: dict[str, Any] = {
        tensor.key: [0.5] for tensor in served.signature.inputs if tensor.key not in ("id", "k")
    }
    if not model:
        asked.update(id=[1], k=["a"])
    answer, bad = served.predict(asked, 1)
    served.close()
    assert not bad
    return found + [
        float(np.ravel(cells)[0]) for name, cells in answer.items() if name not in ("id", "m")
    ]


if __name__ == "__main__":
    print(json.dumps(predicted(**json.loads(sys.argv[1]))))
