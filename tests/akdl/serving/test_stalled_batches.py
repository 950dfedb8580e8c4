"""A process ends when a batch of a watched call takes too long, and says which rows it had."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from akdl.serving.stalled_batches import stalled_file
from tests.support.deadline import DEADLINE_S

pytestmark = pytest.mark.process

PROGRAM = """
import sys, threading, time
from akdl.serving.stalled_batches import UNWATCHED, BatchWatch, WatchedCall

watch = BatchWatch(1.0, sys.argv[1])

def compute(call, rows, seconds):
    with watch.batch(call, rows):
        time.sleep(seconds)

threading.Thread(target=compute, args=(UNWATCHED, [1], 600), daemon=True).start()
for row in range(8):
    compute(WatchedCall("quick"), [row], 0.2)  # longer than the limit, all in all
threading.Thread(target=compute, args=(WatchedCall("slow"), range(4, 7), 600), daemon=True).start()
time.sleep(600)
"""


def test_the_slow_batch_ends_the_process_alone_and_is_named(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)]) as process:
        assert process.wait(2 * DEADLINE_S) == 74
    path = pathlib.Path(stalled_file(str(tmp_path), process.pid))
    assert json.loads(path.read_text()) == {"slow": [4, 5, 6]} and [*tmp_path.iterdir()] == [path]
