"""What becomes of a script's process when the disk is full: for its folder, its rows, its log."""

from __future__ import annotations

import os
import pathlib

import pyarrow as pa
import pytest

from bridge.exceptions import ConfigurationError, TaskError
from bridge.group.addresses import Address
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.small_disks import fill, small_disk

pytestmark = pytest.mark.process
INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL, text STRING"), Schema.parse("id BIGINT")
COUNT = (
    b"def main(config):\n    config.output_writer.write_batch({'id': [config.dataset_length]})\n"
)
PRINT = b"def main(config):\n    for number in range(1000):\n        print('line', number)\n"


def run(script: bytes, rows: int = 0, **changes: str) -> int:
    """Run a script with rows of 1 KB, and return how many messages it writes."""
    settings = GroupSettings(
        operator="TestOp", kind="batch", num_workers=1, num_ps=0, input_schema=INPUT, output_schema=OUTPUT,
        main_script="script.py", user_files=(UserFile("script.py", script),), **changes,
    )  # fmt: skip
    member = Member(settings, "group", 0, 0, lambda: None)
    try:
        member.set_cluster([Address("127.0.0.1", 1, 2)])
        batch = pa.record_batch(
            [pa.array(range(rows), pa.int64()), pa.array(["x" * 1000] * rows, pa.string())],
            names=["id", "text"],
        )
        messages = [*member.feed(batch), *member.finish()]
        return len(messages)
    finally:
        member.stop()


@pytest.mark.parametrize("option", ["size=16k", "nr_inodes=4"])
@pytest.mark.fault(
    "hosts",
    "A full disk for work folders, or one without inodes, is an error that names io.tmp.dirs",
)
def test_full_disk_for_work_folders_is_an_error_with_the_remedy(
    option: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "full", "size=1m", option) as folder:
        fill(folder)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        with pytest.raises(
            ConfigurationError,
            match="No space left on device. Make room there, or set Flink.s io.tmp.dirs or TMPDIR",
        ):
            run(COUNT)
        assert [name for name in os.listdir(folder) if name.startswith("akdl-")] == []


@pytest.mark.fault(
    "hosts", "A disk that fills up while rows arrive fails the task, with folder and sizes"
)
def test_disk_that_fills_up_with_rows_fails_the_task(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "small", "size=1m") as folder:
        words = rf"No space left on device: {folder}/akdl-\w+/\S+ holds .* MB, .* MB are free, .*Free some space there"
        with pytest.raises(TaskError, match=words):
            run(COUNT, rows=3000, tmp_dirs=f"{folder},{folder}")
        assert [name for name in os.listdir(folder) if name.startswith("akdl-")] == []


@pytest.mark.fault("hosts", "A file of Examples that will not fit on the disk is not begun")
def test_file_of_examples_that_will_not_fit_is_not_begun(tmp_path: pathlib.Path) -> None:
    """The columns fit, their Examples do not, and the first chunk tells so."""
    script = COUNT.replace(
        b"config.dataset_length", b"len(open(config.dataset_file, 'rb').read()) and 1"
    )
    with small_disk(tmp_path / "small", "size=5m") as folder:
        with pytest.raises(
            TaskError, match=r"holds 3\.\d MB, 2\.\d MB are free, and the next rows need 3\.\d MB"
        ):
            run(script, rows=3000, tmp_dirs=str(folder))


@pytest.mark.fault("hosts", "A full disk for logs does no harm")
def test_full_disk_for_logs_does_no_harm(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "logs", "size=16k") as folder:
        fill(folder)
        monkeypatch.setenv("FLINK_LOG_DIR", str(folder))
        assert run(PRINT) == 0
