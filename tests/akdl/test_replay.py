"""A failed script runs again on the rows that it read last, by one command, without Flink."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shlex
import stat
import subprocess
import sys
import tarfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from akdl import replay
from akdl.rows.arriving_rows import LAST_BYTES
from bridge.exceptions import TaskError
from bridge.group.addresses import Address
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from operators.errors.summary import summary_of
from tests.support.leftovers import DEADLINE_S
from tests.support.warm_python import warm_python

pytestmark = [pytest.mark.process, pytest.mark.tf]
SCRIPT = pathlib.Path(__file__).with_name("scripts") / "data_errors.py"
INPUT = Schema.parse("id BIGINT, word STRING, number DOUBLE, cells ARRAY<FLOAT>")
OUTPUT = Schema.parse("id BIGINT NOT NULL, word STRING NOT NULL")
SAME = "akdl replay: the error of the job"
ROWS, CHUNK, BAD = 4_000, 500, 2_718
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
# What is wrong in one row, by the script that fails on it: columns and their cells; the length of
# an array.
PLANTED: dict[str, dict[str, Any]] = {
    "unknown_category": {"word": "quince"},
    "text_for_a_number": {"word": "twelve"},
    "division_by_zero": {"number": 0.0},
    "null": {"number": None},
    "not_a_number": {"number": float("nan")},
    "infinite_logarithm": {"number": 0.0},
    "index_outside_a_list": {"number": 7.0},
    "index_outside_an_embedding": {"number": 8.0},
    "label_outside_the_classes": {"number": 3.0},
    "bytes_that_are_no_utf8": {"word": b"\xff"},
    "broken_json": {"word": "{"},
    "day_that_does_not_exist": {"word": "2026-02-29"},
    "picture_that_is_cut_off": {"word": PICTURE},
    "array_of_another_length": {"cells": 3},
    "empty_text": {"word": ""},
    "key_that_comes_twice": {"id": BAD - 1},
    "number_too_large_for_its_type": {"number": 1e6},
    "row_that_does_not_fit_the_result": {"word": ""},
    "text_without_the_pattern": {"word": "?"},
    "flag_that_ends_the_script": {"number": -1.0},
    "example_without_a_feature": {"number": None},
}

# A cell of odd bytes, an error of the output, and an end without an exception.
OF_EACH_KIND = {
    "picture_that_is_cut_off",
    "row_that_does_not_fit_the_result",
    "flag_that_ends_the_script",
}


def table(planted: dict[str, Any], rows: int, bad: int, width: int) -> list[pa.RecordBatch]:
    """Chunks of rows, one of which is bad."""
    columns: dict[str, list[Any]] = {
        "id": list(range(rows)), "word": [("apple", "pear")[row % 2] for row in range(rows)],
        "number": [1.0] * rows,
    }  # fmt: skip
    lengths = np.full(rows, width)
    lengths[bad] = planted.pop("cells", width)
    for name, cell in planted.items():
        columns[name][bad] = cell
    words = [word.encode() if isinstance(word, str) else word for word in columns["word"]]
    text = pa.array(words, pa.binary())
    arrays = [
        pa.array(columns["id"], pa.int64()), pa.StringArray.from_buffers(rows, *text.buffers()[1:]),
        pa.array(columns["number"], pa.float64()),
        pa.ListArray.from_arrays(np.append(0, lengths.cumsum()), np.ones(lengths.sum(), np.float32)),
    ]  # fmt: skip
    batch = pa.record_batch(arrays, names=INPUT.names)
    return [batch.slice(start, CHUNK) for start in range(0, rows, CHUNK)]


def failed(
    folder: pathlib.Path,
    error: str,
    planted: dict[str, Any],
    extra: Any = None,
    sizes: Any = (ROWS, BAD, 2),
    **changes: Any,
) -> str:
    """Run a script on a table with a bad row, and return the text of the error."""
    params = {"error": error, "db_password": "hidden", **changes.pop("params", {})}
    settings = GroupSettings(**{
        "operator": "TestOp", "kind": "batch", "num_workers": 1, "num_ps": 0, "input_schema": INPUT, "output_schema": OUTPUT,
        "main_script": SCRIPT.name, "user_files": (UserFile(SCRIPT.name, SCRIPT.read_bytes()),), "python": warm_python(),
        "user_params": json.dumps(params), "log_dir": str(folder), "keep_failed_rows": True, **changes,
    })  # fmt: skip
    member = Member(settings, "group", 0, 0, lambda: None)
    try:
        member.set_cluster([Address("127.0.0.1", 1, 2)])
        with pytest.raises(TaskError) as caught:
            for batch in table({**planted}, *sizes):
                list(member.feed(batch))
            for batch in [] if extra is None else [extra]:
                list(member.feed(batch, 1))
            list(member.finish())
    finally:
        member.stop()
    return str(caught.value)


def replayed(
    text: str, typed: str | None = None, python: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command that an error names, without the debugger unless something is typed
    into it.
    """
    (command,) = re.findall("^Replay it with: akdl replay --pdb (.*)$", text, re.MULTILINE)
    debugger = [] if typed is None else ["--pdb"]
    return subprocess.run(
        [python or warm_python(), "-m", "akdl", "replay", *debugger, *shlex.split(command)], input=typed, capture_output=True, text=True, timeout=4 * DEADLINE_S
    )  # fmt: skip


@pytest.mark.fault("scripts", "A data error of one row is reproduced by akdl replay without Flink")
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(error, marks=[] if error in OF_EACH_KIND else pytest.mark.long)
        for error in PLANTED
    ],
)
def test_a_planted_error_is_reproduced_by_one_command(tmp_path: pathlib.Path, error: str) -> None:
    text = failed(tmp_path / "runs", error, PLANTED[error])
    done = replayed(text)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, SAME), text + done.stderr
    assert "akdl replay --pdb /" in summary_of(text) and len(list(tmp_path.glob("**/*.*"))) == 1


@pytest.mark.parametrize("kind", [pytest.param("batch", marks=pytest.mark.long), "stream"])
def test_the_last_rows_alone_are_kept(tmp_path: pathlib.Path, kind: str) -> None:
    error = "text_for_a_number" if kind == "batch" else "streamed_examples"
    text = failed(tmp_path, error, {"word": "twelve"}, sizes=(24_000, 20_000, 500), kind=kind)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < LAST_BYTES + 100_000 < 20_000 * 2_000
    done = replayed(text)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, SAME), text + done.stderr
    first = re.search(r"akdl replay: TestOp, chief 0, from row (\d+) of its rows", done.stderr)
    assert first is not None and 0 < int(first[1]) <= 20_000


def test_extra_inputs_and_seeds_are_kept(tmp_path: pathlib.Path) -> None:
    known = pa.record_batch([pa.array(["apple", "pear"])], names=["word"])
    text = failed(
        tmp_path / "extra", "word_that_the_extra_input_lacks", {"word": "quince"}, known,
        extra_schemas=(Schema.parse("word STRING"),),
    )  # fmt: skip
    assert replayed(text).stderr.endswith(f"AssertionError: quince\n\n{SAME}\n")
    seeds = failed(tmp_path / "seeds", "shuffled_order", {})
    (numbers,) = set(re.findall(r"ValueError: (.*)", seeds))
    assert numbers in replayed(seeds).stderr
    assert numbers not in failed(tmp_path / "others", "shuffled_order", {})


def test_a_debugger_opens_at_the_row(tmp_path: pathlib.Path) -> None:
    done = replayed(
        failed(tmp_path, "unknown_category", {"word": "quince"}),
        "p int(row['id']), row['word']\nq\n",
        sys.executable,
    )
    assert f"({BAD}, 'quince')" in done.stdout and done.returncode == 1


def test_kept_failure_hides_secrets_and_is_private(tmp_path: pathlib.Path) -> None:
    login = "http://me:hidden@proxy:3128"
    failed(
        tmp_path,
        "unknown_category",
        {"word": "quince"},
        env_vars=("API_TOKEN=hidden", f"https_proxy={login}", "REGION=eu"),
    )
    (path,) = tmp_path.iterdir()
    assert (stat.S_IMODE(path.stat().st_mode), b"hidden" in path.read_bytes()) == (0o600, False)
    with tarfile.open(path) as archive:
        kept = json.load(archive.extractfile(".akdl/failure.json"))  # type: ignore[arg-type]
    assert kept["environment"]["REGION"] == "eu" and not {"API_TOKEN", "https_proxy"} & set(
        kept["environment"]
    )
    assert json.loads(kept["task"]["user_params"]) == {
        "error": "unknown_category",
        "db_password": "***",
    }


def test_replay_of_a_script_that_does_not_fail_says_so(tmp_path: pathlib.Path) -> None:
    done = replayed(
        failed(tmp_path / "runs", "fails_once", {}, params={"marker": str(tmp_path / "seen")})
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        0,
        "akdl replay: no error; the job had RuntimeError: not yet",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"no archive", "neither a zip nor a tar file"),
        ({"script.py": b""}, "expected a file that a failed script left with keepFailedRows"),
        ({".akdl/failure.json": b"[]"}, "expected a file that a failed script left"),
        (
            {".akdl/failure.json": b'{"task": {"kind": 3}}'},
            "expected a file that a failed script left",
        ),
        ({"../outside": b""}, "it has an entry that would leave its folder: '../outside'"),
    ],
)
def test_replay_refuses_a_file_that_no_failed_script_left(
    tmp_path: pathlib.Path, content: Any, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "failure.tar"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with tarfile.open(path, "w") as archive:
            for name, data in content.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    assert replay.main([str(path)]) == 2
    assert expected in capsys.readouterr().err and os.listdir(tmp_path) == ["failure.tar"]


def test_replay_refuses_a_folder(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay.main([str(tmp_path)]) == 2
    expected = f"akdl replay: {tmp_path}: expected a file that a failed script left with"
    assert capsys.readouterr().err.startswith(expected)
