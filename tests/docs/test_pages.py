"""What the pages name is there."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.support.installs import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_files(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    files = re.findall(r"(?<![\w./-])((?:examples|docs|benchmarks|tests|scripts)/[\w./-]+\.\w+)", text)
    missing = [link for link in links if not (page.parent / link).exists()] + [
        file for file in files if not (ROOT / file).exists()
    ]
    assert missing == []


def test_options_of_the_example_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text()
    job = (ROOT / "examples" / "on_a_cluster" / "job.py").read_text()
    used = {option for line in re.findall(r"on_a_cluster/job\.py (.*)", page) for option in re.findall(r"--[\w-]+", line)}
    assert used and used <= set(re.findall(r'add_argument\("(--[\w-]+)"', job))
