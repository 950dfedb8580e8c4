"""When a training reports, and when it hears that it shall stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from akdl.storage.training_folders import CheckpointFolder, ask_to_stop
from akdl.training import training_watch as module
from akdl.training.training_watch import TrainingWatch


class Clock:
    """Stands for the time, which a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_reports_are_due_once_a_second(clock: Clock, tmp_path: Path) -> None:
    reported: list[Any] = []

    class Config:
        def report(self, step: int, **metrics: float) -> None:
            reported.append((step, metrics))

    watch = TrainingWatch(Config(), None)  # type: ignore[arg-type]
    for step in range(1, 51):
        clock.now += 1 / 8
        watch.step_end(step, lambda step=step: {"loss": step})  # type: ignore[misc]
    assert [step for step, _ in reported] == [1, 9, 17, 25, 33, 41, 49]
    assert reported[1] == (9, {"loss": 9})


def test_workers_in_step_look_at_the_same_steps_and_stop_at_the_same_one(
    clock: Clock, tmp_path: Path
) -> None:
    """The workers differ in what they find and in their pace; the sums that both get are
    the same.
    """
    own: list[list[float]] = []
    looked: list[int] = []

    def total(values: list[float]) -> list[float]:
        own.append(list(values))
        return [values[0], 2 * values[1]]  # the other one finds nothing, and is as fast

    folder = CheckpointFolder(str(tmp_path), "/nowhere")
    chief = TrainingWatch(None, folder, looks=True, total=total)
    stopped_at = None
    for step in range(1, 200):
        clock.now += 1 / 128
        before = len(own)
        if step == 75:
            ask_to_stop(folder.address)
        chief.step_end(step, dict)
        looked += [step] * (len(own) - before)
        if chief.stop:
            stopped_at = step
            break
    assert looked == [1, 65, 129] and stopped_at == 129
    other = TrainingWatch(
        None,
        CheckpointFolder(str(tmp_path / "other"), ""),
        looks=False,
        total=lambda values: [1.0, values[1]],
    )
    other.step_end(1, dict)
    assert other.stop, "it was told by the sum"


def test_failing_storage_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    system = fsspec.filesystem("memory")

    def fails(self: Any, *arguments: Any, **more: Any) -> bool:
        raise OSError("it is down")

    monkeypatch.setattr(type(system), "exists", fails)
    watch = TrainingWatch(None, CheckpointFolder("memory://watch", str(tmp_path)))
    watch.step_end(1, dict)
    assert (
        not watch.stop
        and "cannot look for a request to stop: memory://watch: it cannot be reached" in caplog.text
    )
