"""The releases that akdl supports, in order."""

from __future__ import annotations

import pytest

from akdl import versions


@pytest.mark.parametrize("name", ["FLINKS", "FLINK_PYTHONS", "FLINK_120_PYTHONS", "PYTHONS"])
def test_releases_are_in_order(name: str) -> None:
    releases = getattr(versions, name)
    assert list(releases) == sorted(
        set(releases), key=lambda each: tuple(map(int, each.split(".")))
    )


def test_flink_runs_on_pythons_that_scripts_may_have() -> None:
    assert set(versions.FLINK_120_PYTHONS) < set(versions.FLINK_PYTHONS) < set(versions.PYTHONS)
    assert {python for _, python in versions.TRIED_TENSORFLOWS} <= set(versions.PYTHONS)
