"""Train a RankNet from callbacks, without Flink: `python examples/keras_ranknet/run.py [FOLDER]`.

`ranknet.py` holds the callbacks, `ranknet_model.py` the model, `train.json` and `evaluate.json` the
task configs. This file creates data in FOLDER (default: a temporary folder) and then runs the
equivalent of these two commands:

    akdl keras train train.json --module ranknet.py --data-path FOLDER
    akdl keras evaluate evaluate.json --module ranknet.py --data-path FOLDER

The data consists of documents and pairs of documents. A document has 8 features; the last two are
noise, and the callbacks leave them out. Its label is -1 (skipped), 0 or 1 (listened to), or 2
(liked). The weight of a pair is the distance between its labels. One file gives two validation
sets: listened to or not, and liked or only listened to. Only the ranker is saved. The program
prints a line per epoch, and at the end

    model   binary_accuracy    auc
    ranker           0.9...  0.9...
"""

import pathlib
import sys
import tempfile

import numpy as np

from akdl.runner_commands import keras as main

HERE = pathlib.Path(__file__).parent
FEATURES, NOISE = 8, 2


def make_data(folder, documents=600, pairs=2000, seed=0):
    """Write train.csv and test.csv with pairs of documents, and val.csv with documents; each has a
    header.
    """
    random = np.random.default_rng(seed)
    taste = random.normal(size=FEATURES - NOISE)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", pairs), ("test", pairs // 4), ("val", documents)):
        features = random.normal(size=(documents, FEATURES)).astype(np.float32)
        score = features[:, : FEATURES - NOISE] @ taste + random.normal(scale=0.2, size=documents)
        label = np.digitize(score, np.quantile(score, [0.25, 0.5, 0.75])) - 1
        rows = [
            f"q{number % 20} d{number} {label[number]} "
            + " ".join(f"{value:.5f}" for value in features[number])
            for number in range(documents)
        ]
        if name != "val":
            chosen = random.integers(documents, size=(4 * count, 2))
            chosen = chosen[label[chosen[:, 0]] != label[chosen[:, 1]]][:count]
            rows = [
                f"{rows[one]} {rows[two]} {1 if label[one] > label[two] else -1}"
                for one, two in chosen
            ]
        (folder / f"{name}.csv").write_text("\n".join(["header", *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ranknet-"))
    make_data(folder)
    for task in ("train", "evaluate"):
        arguments = [
            task,
            str(HERE / f"{task}.json"),
            "--module",
            str(HERE / "ranknet.py"),
            "--data-path",
            str(folder),
        ]
        status = main(arguments)
        if status:
            sys.exit(status)
