"""The record of a run, written and read."""

from __future__ import annotations

import logging
import pathlib

import pytest

from bridge.member.status import FEEDING
from operators.progress.record import Record, Recorder, read_record
from tests.support.statuses import status_of

STATUS = status_of(
    "g",
    0,
    "chief 0",
    phase=FEEDING,
    rows_in=7,
    metrics={"loss": 0.5},
    lines=("secret",),
    lines_before=3,
)


def test_record_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    recorder = Recorder(str(tmp_path / "logs"), "train.py", "Op_ab12", 1)
    recorder.look([STATUS])
    recorder.look([STATUS])  # too soon
    recorder.look([STATUS], is_last=True)
    recorder.end(failed=False)
    (path,) = (tmp_path / "logs").iterdir()
    assert (
        path.name.startswith("train-py-")
        and path.name.endswith("-ab12.jsonl")
        and "secret" not in path.read_text()
    )
    record = read_record(path.read_text())
    assert (record.name, record.size, record.failed) == ("train.py", 1, False)
    assert [status.rows_in for _, status in record.samples["chief 0"]] == [7, 7]
    assert record.samples["chief 0"][0][1].metrics == {"loss": 0.5}


def test_a_record_goes_to_an_address() -> None:
    fsspec = pytest.importorskip("fsspec")
    recorder = Recorder("memory://records/here", "a.py", "Op_1", 1)
    recorder.look([STATUS])
    recorder.end(failed=True)
    system = fsspec.filesystem("memory")
    (path,) = system.ls("/records/here", detail=False)
    assert read_record(system.cat(path).decode()).failed is True
    system.rm("/records", recursive=True)


@pytest.mark.parametrize("folder", ["/dev/null/logs", "nowhere://logs"])
def test_a_record_that_cannot_be_written_fails_nothing(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        recorder = Recorder(folder, "a.py", "Op_1", 1)
        recorder.look([STATUS])
        recorder.end(failed=False)
    assert "cannot write a record to logDir" in caplog.text


def test_full_disk_in_the_middle_of_a_record_fails_nothing(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "_local_path", lambda recorder: str(tmp_path / "full"))
        recorder = Recorder(str(tmp_path), "a.py", "Op_1", 1)
    recorder.look([STATUS])
    recorder.end(failed=False)
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"cannot write a record to logDir {tmp_path}"
    ]


def test_a_record_that_was_cut_off_can_be_read(tmp_path: pathlib.Path) -> None:
    recorder = Recorder(str(tmp_path), "a.py", "Op_1", 1)
    recorder.look([STATUS])
    (path,) = tmp_path.iterdir()
    record = read_record(path.read_text() + '{"kind": "sam')
    assert record.failed is None and len(record.samples["chief 0"]) == 1
    recorder.end(failed=False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "a,b\n1,2"])
def test_text_without_a_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a record of a run"):
        read_record(text)


def test_a_lost_member_is_not_among_the_last() -> None:
    chief, lost = (
        status_of("g", 0, "chief 0", rows_in=4000),
        status_of("g", 1, "worker 0", rows_in=2000),
    )
    samples = {"chief 0": [(1.0, chief), (2.0, chief), (3.0, chief)], "worker 0": [(1.0, lost)]}
    assert Record("a.py", "", 2, samples, 3.0, False).last == [chief]
