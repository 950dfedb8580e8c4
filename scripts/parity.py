"""The table of docs/parity.md: weights of both training runners beside those of plain TensorFlow.

    python scripts/parity.py            # prints the table
    python scripts/parity.py --write    # writes it into the page

TensorFlow 1.15 and the newest one are installed for it where they can be had, as for the tests.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "parity.md"
WORKERS = "perceptron, rows of a Flink table, 2 workers; plain: one process"
BEGIN = "| runner | case | TensorFlow | largest difference |"


def table() -> str:
    """Run all cases and return the table."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    import parity_estimator
    import parity_keras
    import parity_train_keras

    from tests.support.tensorflows import NEWEST, TF_1

    pythons = {"2.15": sys.executable, "newest (Keras 3)": NEWEST.python()}
    keras = parity_keras.rows(pythons)
    keras += parity_keras.rows_on_flink("2.15")
    trained = parity_train_keras.rows(pythons, groups=["2.15"])
    estimator = parity_estimator.rows({"2.15": sys.executable, "1.15": TF_1.python()})
    others = rows_of_other_frameworks()
    lines = [BEGIN, "|---|---|---|---|"]
    lines += [
        f"| Keras callbacks | {row.case} | {row.tensorflow} | {row.difference:.1e} |"
        for row in keras
    ]
    lines += [
        f"| `train_keras_model` | {row.case} | {row.tensorflow} | {row.difference:.1e} |"
        for row in trained
    ]
    lines += [
        f"| four functions | {row.case} | {row.tensorflow} | {row.difference:.1e} |"
        for row in estimator
    ]
    lines += [f"| {runner} | {WORKERS} | – | {difference:.1e} |" for runner, difference in others]
    return "\n".join(lines) + "\n"


def rows_of_other_frameworks() -> list[tuple[str, float]]:
    """Return differences between two workers and one process, in the Pythons that AKDL_TEST_TORCH
    and AKDL_TEST_JAX name.
    """
    from operators import useLocalEnv
    from tests.support.frameworks import python_with, trained

    useLocalEnv(2)
    cases = (
        ("torch", "torch_ddp.py", "PyTorch, DistributedDataParallel"),
        ("jax", "jax_mean.py", "JAX, `process_allgather`"),
    )
    found = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        for framework, script, runner in cases:
            folder, python = pathlib.Path(name) / framework, python_with(framework)
            one, two = (
                trained(script, python, workers, folder / str(workers)) for workers in (1, 2)
            )
            found.append((runner, float(abs(one - two).max())))
    return found


def main() -> None:
    """See the module."""
    made = table()
    print(made, end="")
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        after = rest.partition("\n\n")[2]
        PAGE.write_text(f"{head}{made}\n{after}".rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
