r"""Train the four functions of `mnist.py` without Flink: `python examples/estimator_mnist/run.py
[FOLDER]`.

It writes digits to FOLDER (default: a temporary folder) and then runs the equivalent of this
command:

    akdl estimator train --module mnist.py --path FOLDER/digits.npz --params parameters.json \
        --model-dir FOLDER/out

With `--path mnist` the same command trains on the real digits, which TensorFlow downloads. For a
group, run it in every process with TF_CONFIG. It prints

    step 1  loss 2.3...
    ...
    evaluation at step 300  accuracy 1  loss 0.00...
    exported to FOLDER/out/export/...
    300 steps
"""

import pathlib
import sys
import tempfile

import digits

from akdl.runner_commands import estimator as main

here = pathlib.Path(__file__).parent

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="mnist-"))
    folder.mkdir(parents=True, exist_ok=True)
    digits.write(str(folder / "digits.npz"))
    files = ["--module", str(here / "mnist.py"), "--params", str(here / "parameters.json")]
    sys.exit(
        main(
            [
                "train",
                *files,
                "--path",
                str(folder / "digits.npz"),
                "--model-dir",
                str(folder / "out"),
            ]
        )
    )
