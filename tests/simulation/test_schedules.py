"""Schedules by seeds: the product's own modules under a clock, threads and channels that a seed
drives.

`AKDL_SIMULATE` sets how many schedules of each kind run; `make simulate` runs a million in all.
`AKDL_SIMULATE_FIRST` is the number of the first one, so that one that failed can be repeated alone.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Iterator

import pytest

from bridge.group.state_store import LOST_S
from tests.simulation.defects import FAIR, FOUND, PLANTED, Plant
from tests.simulation.history import BrokenPromise
from tests.simulation.schedules import PLANS, kill_plan, run, run_plan, slow_worker_plan

COUNT = int(os.environ.get("AKDL_SIMULATE", "50"))
FIRST = int(os.environ.get("AKDL_SIMULATE_FIRST", "0"))
PARTS = 10  # which processes of pytest share


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """The product warns in many schedules, and pytest would keep it all."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", PLANS)
def test_schedules_keep_the_promises(kind: str, part: int) -> None:
    for seed in range(FIRST + part, FIRST + COUNT, PARTS):
        try:
            run(kind, seed)
        except BrokenPromise as error:
            raise AssertionError(f"{kind} schedule {seed}: {error}") from error


@pytest.mark.parametrize("what", ["script", "worker"])
def test_a_kill_at_any_message_leaves_state_and_output_as_they_are(what: str) -> None:
    for message in itertools.count(1):
        try:
            job = run_plan(kill_plan(what, message), "kills")
        except BrokenPromise as error:
            raise AssertionError(f"{what} killed at message {message}: {error}") from error
        if job.network.messages < message:
            break
    assert message > 30


def test_a_script_that_starts_again_at_the_end_of_a_stream_still_has_its_chief() -> None:
    # Longer than a member may be without an answer of the chief.
    run_plan(slow_worker_plan(LOST_S), "slow worker")


@pytest.mark.parametrize(("kind", "seed"), FAIR)
def test_earlier_false_alarms_of_the_simulation_pass(kind: str, seed: int) -> None:
    run(kind, seed)


@pytest.mark.parametrize("kind", PLANS)
def test_a_seed_repeats_a_schedule(kind: str) -> None:
    first, second = run(kind, 3), run(kind, 3)
    assert (first.world.turns, first.world.now) == (second.world.turns, second.world.now)
    assert first.history.verdicts == second.history.verdicts


@functools.cache
def keeps_its_promises(kind: str, seed: int) -> None:
    """Run a schedule; several defects are found in the same one."""
    run(kind, seed)


@pytest.mark.parametrize(
    ("plant", "kind", "seed", "words"),
    PLANTED + FOUND,
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_defects_are_found(
    plant: Plant, kind: str, seed: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps_its_promises(kind, seed)
    plant(monkeypatch)
    with pytest.raises(BrokenPromise, match=f"(?s){words}"):
        run(kind, seed)
