"""Make a release: its section in CHANGELOG.md from the files of changes/, and its version where
files name it.

`make release VERSION=0.2.0` calls it. What is left is to look at the difference, commit it, tag it
and run `make dist`.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import re

from scripts.write_versions import ITS_FILES

ROOT = pathlib.Path(__file__).parents[1]
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
LONGEST = 400  # characters of a change
HEADING = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)

# The version is that of akdl/__init__.py; these files repeat it, or the date of its release.
VERSIONS = {
    "akdl/__init__.py": r'(?<=^__version__ = ")[^"]+',
    "docs/kubernetes/README.md": r"(?<=akdl-flink:)[\d.]+\d|(?<=`)[\d.]+(?=-1\.20` as the tag)",
    **{
        f"docs/kubernetes/{flink}{file}": r"(?<=akdl-flink:)[\d.]+\d"
        for flink in ("", "flink-1.20/")
        for file in ITS_FILES
    },
    "CITATION.cff": r"(?<=^version: ).+",
}
DATES = {"CITATION.cff": r"(?<=^date-released: ).+"}


def read_changes(folder: pathlib.Path) -> dict[str, list[str]]:
    """Read the changes of each kind, sorted by file name.

    Raises:
        ValueError: A file's name or text is not as changes/README.md says.
    """
    changes: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        name = re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name)
        if name is None:
            raise ValueError(
                f"changes/{path.name}: expected a name such as csv-quotes.fixed.md, see"
                " changes/README.md"
            )
        text = " ".join(path.read_text(encoding="utf-8").split())
        if not re.fullmatch(r"[A-Z`].*\.", text) or len(text) > LONGEST:
            raise ValueError(
                f"changes/{path.name}: expected sentences of at most {LONGEST} characters, without"
                f" a bullet or heading in front and with a full stop at the end, found {len(text)}"
                f" characters: {text[:60]!r}"
            )
        changes.setdefault(name[1], []).append(text)
    return changes


def add_section(changelog: str, version: str, date: str, changes: dict[str, list[str]]) -> str:
    """Put a release before the others.

    Raises:
        ValueError: The release is not newer than all others, or has no changes.
    """
    releases = [found[1] for found in HEADING.finditer(changelog)]
    newest = max(releases, key=_parts)
    if _parts(version) <= _parts(newest):
        raise ValueError(
            f"VERSION={version}: expected a version after {newest}, the newest in CHANGELOG.md"
        )
    if not changes:
        raise ValueError("changes/ has no files, so there is nothing to release")
    lines = [f"## {version} - {date}", ""]
    for kind in KINDS:
        if kind in changes:
            lines += [f"### {kind.capitalize()}", "", *(f"- {text}" for text in changes[kind]), ""]
    start = changelog.index("## ")
    return changelog[:start] + "\n".join(lines) + "\n" + changelog[start:]


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def release(root: pathlib.Path, version: str, date: str) -> None:
    """Change the files of a checkout; none where the changes or the version are refused."""
    changelog = root / "CHANGELOG.md"
    section = add_section(
        changelog.read_text(encoding="utf-8"), version, date, read_changes(root / "changes")
    )
    changelog.write_text(section, encoding="utf-8")
    for places, value in ((VERSIONS, version), (DATES, date)):
        for name, pattern in places.items():
            path = root / name
            path.write_text(
                re.sub(pattern, value, path.read_text("utf-8"), flags=re.MULTILINE),
                encoding="utf-8",
            )
    for path in (root / "changes").glob("*.*.md"):
        path.unlink()


def main() -> None:
    """Release the version of the command line, today."""
    parser = argparse.ArgumentParser(description="Make a release of the files in changes/.")
    parser.add_argument("version", type=_version)
    version = parser.parse_args().version
    try:
        release(ROOT, version, datetime.date.today().isoformat())
    except ValueError as refused:
        parser.error(str(refused))


def _version(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"expected three numbers such as 0.2.0, got {text!r}")
    return text


if __name__ == "__main__":
    main()
