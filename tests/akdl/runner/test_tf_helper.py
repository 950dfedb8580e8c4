from __future__ import annotations

import pathlib
import subprocess

import pytest

from tests.support.warm_python import warm_python

pytestmark = pytest.mark.tf

# The pool of a process is made once, so its threads are counted in a process of their own.
SCRIPT = """
import os
from akdl.runner.tf_helper import set_intra_op_parallelism

before = len(os.listdir("/proc/self/task"))
set_intra_op_parallelism(40)
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_set_intra_op_parallelism_sets_the_threads_of_an_operation(tmp_path: pathlib.Path) -> None:
    (tmp_path / "counts.py").write_text(SCRIPT)
    done = subprocess.run(
        [warm_python(), str(tmp_path / "counts.py")], capture_output=True, text=True, check=True
    )
    # TensorFlow has a few threads of its own beside those of the pool.
    assert 40 <= int(done.stdout) < 50
