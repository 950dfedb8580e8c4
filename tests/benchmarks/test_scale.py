from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

MOST_GROWTH = 16 << 20  # 20,000 chunks of 4 KB are 80 MB


@pytest.mark.long
@pytest.mark.process
def test_scale_measures_the_costs_of_groups_and_writes_them(tmp_path: pathlib.Path) -> None:
    program = pathlib.Path(__file__).parents[2] / "benchmarks" / "scale.py"
    command = [
        sys.executable,
        str(program),
        "--members",
        "3",
        "--workers",
        "2",
        "--seconds",
        "0.5",
        "--chunks",
        "20000",
        "--extra-chunks",
        "1",
        "--folder",
        str(tmp_path),
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [line.split()[0] for line in printed.splitlines()[:2]] == ["members", "3"]
    found = json.loads((tmp_path / "scale.json").read_text())
    assert [each["members"] for each in found["groups"]] == [3]
    assert all(each["grown_bytes"] < MOST_GROWTH for each in found["chunks"]), (
        "a process keeps nothing of a chunk"
    )
    own, shared = found["extras"][-2:]
    assert own["held_bytes"] > 10 * shared["held_bytes"], "16 members have one file"
    assert [(each["workers"], each["dealt"]) for each in found["streams"]] == [
        (2, "chunk"),
        (2, "row"),
    ]
