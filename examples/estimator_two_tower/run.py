"""Create click data and train the two-tower model on it: `python
examples/estimator_two_tower/run.py [FOLDER]`.

It writes the data to FOLDER (default: a temporary folder) and runs `two_tower.py` on it. It prints

    evaluation at step 400: auc 0.8..., loss 0.5...
    predicted: [...]

and exits with an error if the area under the curve is 0.8 or less.
"""

import pathlib
import sys
import tempfile

import click_data
from click_flags import flags_from
from two_tower import run


def settings(folder):
    """Return the flags for the data in a folder, with a smaller model than the defaults, which suit
    real data.
    """
    return {
        "model_dir": folder / "out",
        "keywords_file": folder / "keywords.txt",
        "keywords_weights_file": folder / "keywords.npy",
        "user_hidden_units": "32,16",
        "item_hidden_units": "32,16",
        "user_dropout": 0.1,
        "item_dropout": 0.1,
        "train_files": folder / "train-*.tfrecord",
        "train_reader_num_threads": 2,
        "train_parser_num_threads": 2,
        "max_train_steps": 400,
        "eval_files": folder / "eval.tfrecord",
        "start_delay_secs": 0,
        "throttle_secs": 0,
        "predict_files": folder / "predict.tfrecord",
    }


if __name__ == "__main__":
    folder = pathlib.Path(
        sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="two-tower-")
    )
    click_data.write(str(folder))
    metrics = run(flags_from(settings(folder)))
    print(f"models are in {folder / 'out' / 'export'}")
    if metrics["auc"] <= 0.8:
        sys.exit("the model is not as good as it should be")
