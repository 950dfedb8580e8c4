"""Writes one batch of BENCH_AMOUNT doubles, or prints so many bytes of text without a line end and
writes one row.
"""

import os
import sys


def main(task_config):
    import numpy as np

    amount, kind = int(os.environ["BENCH_AMOUNT"]), os.environ["BENCH_KIND"]
    if kind == "doubles":
        task_config.output_writer.write_batch({"x": np.arange(amount, dtype="f8")})
        return
    piece = "x" * 1_000_000
    for _ in range(amount // len(piece)):
        sys.stdout.write(piece)
    task_config.output_writer.write_batch({"x": [1.0]})
