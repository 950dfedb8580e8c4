"""A release: one version everywhere, and changes that wait as files until `make release` puts them
into CHANGELOG.md.
"""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest

import akdl
from scripts import release
from tests.support.installs import ROOT

CHANGELOG = "# Changelog\n\nReleases.\n\n## 0.1.0 - 2026-11-26\n\nThe first release.\n"


def test_the_changelog_has_releases_alone() -> None:
    """A heading such as Unreleased, or one without a date, would collect changes by hand."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## .*$", text, re.MULTILINE)
    releases = [match[1] for match in map(release.HEADING.fullmatch, headings) if match]
    assert len(releases) == len(headings) and releases[0] == akdl.__version__
    assert text.index("## ") < 200, "no list above the first release"


def test_waiting_changes_are_well_formed() -> None:
    release.read_changes(ROOT / "changes")


def test_files_that_repeat_the_version_and_its_date_agree() -> None:
    dates = dict(release.HEADING.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    for places, value in (
        (release.VERSIONS, akdl.__version__),
        (release.DATES, dates[akdl.__version__]),
    ):
        for name, pattern in places.items():
            found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
            assert found and set(found) == {value}, name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.md", "Scripts start sooner."),
        ("Start.added.md", "Scripts start sooner."),
        ("start.faster.md", "Scripts start sooner."),
        ("start.added.md", "- Scripts start sooner."),
        ("start.added.md", "Scripts start sooner"),
        ("start.added.md", ""),
        ("start.added.md", f"Scripts start {'much ' * 80}sooner."),
    ],
)
def test_a_change_that_is_not_well_formed_is_refused_by_name(
    name: str, text: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"^changes/{re.escape(name)}: expected "):
        release.read_changes(tmp_path)


def test_a_section_has_its_changes_by_kind() -> None:
    changes = {"fixed": ["`orderBy` sorts downwards."], "added": ["A.", "B."]}
    assert release.add_section(CHANGELOG, "0.2.0", "2027-01-02", changes) == (
        "# Changelog\n\nReleases.\n\n## 0.2.0 - 2027-01-02\n\n### Added\n\n- A.\n- B.\n\n### Fixed\n\n- `orderBy` sorts downwards.\n\n"
        "## 0.1.0 - 2026-11-26\n\nThe first release.\n"
    )


@pytest.mark.parametrize(
    ("version", "changes"),
    [("0.1.0", {"fixed": ["A."]}), ("0.0.9", {"fixed": ["A."]}), ("0.2.0", {})],
)
def test_an_old_version_or_an_empty_release_is_refused(
    version: str, changes: dict[str, list[str]]
) -> None:
    with pytest.raises(ValueError, match=version if changes else "no files"):
        release.add_section(CHANGELOG, version, "2027-01-02", changes)


def test_release_moves_changes_and_writes_version_and_date(tmp_path: pathlib.Path) -> None:
    for name in {*release.VERSIONS, *release.DATES, "CHANGELOG.md", "changes/README.md"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes" / "start.changed.md").write_text("Scripts start sooner,\nby a second.\n")
    release.release(tmp_path, "10.20.30", "2030-01-02")
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]
    text = (tmp_path / "CHANGELOG.md").read_text()
    assert (
        "## 10.20.30 - 2030-01-02\n\n### Changed\n\n- Scripts start sooner, by a second.\n\n## "
        in text
    )
    for name in release.VERSIONS:
        assert (
            "10.20.30" in (tmp_path / name).read_text()
            and f"{akdl.__version__}\n" not in (tmp_path / name).read_text()
        )
    assert "date-released: 2030-01-02\n" in (tmp_path / "CITATION.cff").read_text()
