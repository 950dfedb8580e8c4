"""One answer to which versions work: the page, the metadata, the doctor and all other pages say the
same.
"""

from __future__ import annotations

import re
import runpy
from typing import Any
from unittest import mock

import pytest
from packaging.requirements import Requirement

from akdl.versions import FLINK_120_PYTHONS, FLINK_PYTHONS, FLINKS, PYTHONS
from scripts import write_versions
from tests.docs.test_pages import PAGES
from tests.support.installs import ROOT

PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")


@pytest.fixture
def extras(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the extras that setup.py declares."""
    monkeypatch.chdir(ROOT)
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path("setup.py")
    return dict(setup.call_args.kwargs["extras_require"])


def requirement(requirements: list[str], text: str) -> Requirement:
    """Return the one that begins with a text."""
    (found,) = [Requirement(each) for each in requirements if each.startswith(text)]
    return found


def test_flink_releases_are_those_of_the_requirements(extras: dict[str, Any]) -> None:
    new, old = (
        requirement(extras["flink"], "apache-flink>="),
        requirement(extras["flink-1.20"], "apache-flink>="),
    )
    allowed = [f"2.{minor}" for minor in range(20) if new.specifier.contains(f"2.{minor}.0")]
    assert allowed == [each for each in FLINKS if each != "1.20"]
    assert old.specifier.contains(f"{FLINKS[0]}.0") and not old.specifier.contains("1.19.3")


def test_pythons_newer_than_those_of_flink_are_refused_by_the_requirements(
    extras: dict[str, Any],
) -> None:
    marker = requirement(
        extras["flink"], f"apache-flink==0+needs.python.{FLINK_PYTHONS[0]}.to.{FLINK_PYTHONS[-1]};"
    ).marker
    assert marker is not None
    assert not marker.evaluate({"python_version": FLINK_PYTHONS[-1]}) and marker.evaluate(
        {"python_version": "3.13"}
    )


@pytest.mark.parametrize("extra", ["tf", "tf-gpu"])
def test_tensorboard_of_the_last_release_with_estimators_finds_pkg_resources(
    extras: dict[str, Any], extra: str
) -> None:
    """TensorBoard 2.15 imports it, and setuptools has none since release 82."""
    assert not requirement(extras[extra], "setuptools").specifier.contains("82.0.0")


def test_pages_name_the_versions() -> None:
    """`make versions` writes them."""
    assert write_versions.written(ROOT) == {}


def test_versions_on_other_pages_are_supported_ones() -> None:
    pythons = {f"{each[0]} to {each[-1]}" for each in (FLINK_PYTHONS, FLINK_120_PYTHONS, PYTHONS)}
    flinks = {
        f"{FLINKS[0]} to {FLINKS[-1]}",
        f"{FLINKS[1]} to {FLINKS[-1]}",
        "1.20 to 2.1",
    }  # the last one: Iceberg's connector
    for page in PAGES:
        if page.name in {"CHANGELOG.md", "SECURITY.md"}:
            continue
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"Python (3\.\d+ to 3\.\d+)", text)) <= pythons, page
        assert set(re.findall(r"Flink (\d\.\d+ to \d\.\d+)", text)) <= flinks, page


def test_tried_combinations_are_of_supported_versions() -> None:
    rows = [
        row.split(" | ")
        for row in re.findall(
            r"^\| (\d.*) \|$", PAGE.partition("## What was tried")[2], re.MULTILINE
        )
    ]
    assert rows
    for flink, python, _, script_python, *_, date in rows:
        minors = [release.rpartition(".")[0] for release in (flink, python, script_python)]
        assert minors[0] in FLINKS and minors[1] in FLINK_PYTHONS and minors[2] in PYTHONS
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
