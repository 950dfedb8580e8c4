"""A model without a framework: the nearest of some centres, which are in a file."""

import numpy as np


def load(names):
    centres = np.loadtxt("centres.csv", delimiter=",")

    def predict(batch):
        if (batch["features"] < 0).any():
            raise ValueError("a length is below 0")
        distances = np.linalg.norm(batch["features"][:, None] - centres, axis=2)
        return {
            "species": np.array(names)[distances.argmin(axis=1)],
            "distance": distances.min(axis=1),
        }

    return predict
