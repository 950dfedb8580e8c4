"""Guesses of the names that were meant."""

from __future__ import annotations

import numpy as np
import pytest

from akdl.near_names import did_you_mean, listed, near, short

KNOWN = ["numWorkers", "batch_size", "kafka", "upsert-kafka"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("numWorker", ["numWorkers"]),
        ("Batch-Size", ["batch_size"]),
        ("kafak", ["kafka"]),
        ("num_workers", ["numWorkers"]),
        ("epochs", []),
        ("", []),
    ],
)
def test_near_finds_the_nearest_names(name: str, found: list[str]) -> None:
    assert near(name, KNOWN) == found


def test_near_returns_several_names_and_did_you_mean_one() -> None:
    assert near("kafka", KNOWN, most=2, likeness=0.5) == ["kafka", "upsert-kafka"]
    assert did_you_mean("numworkers", KNOWN) == " (did you mean 'numWorkers'?)"
    assert did_you_mean("epochs", KNOWN) == "" and did_you_mean("x", []) == ""


def test_listed_quotes_and_joins_names() -> None:
    assert listed(["a", "b c"]) == "'a', 'b c'" and listed([]) == "none"


def test_short_cuts_long_values() -> None:
    assert (short("ab"), short([1] * 9, most=10)) == ("'ab'", "[1, 1, ...")


def test_numbers_of_numpy_are_shown_as_numbers() -> None:
    assert (short(np.float64(0.5)), short(np.int64(2)), short(0.1), short(True)) == (
        "0.5",
        "2",
        "0.1",
        "True",
    )
