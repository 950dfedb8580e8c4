"""Where nothing is to be aborted. Real collective operations: tests/e2e/test_training.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from akdl.process.abandoned import abort_collectives


def test_abort_collectives_does_nothing_without_tensorflow() -> None:
    code = "import sys; from akdl.process.abandoned import *; assert not abort_collectives('worker 0'); sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.tf
def test_abort_collectives_does_nothing_in_a_process_without_a_group() -> None:
    import tensorflow as tf

    assert float(tf.reduce_sum(tf.ones([2]))) == 2.0
    assert not abort_collectives("worker 0")
    assert float(tf.reduce_sum(tf.ones([2]))) == 2.0
