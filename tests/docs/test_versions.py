"""One answer to which versions work: the page, the metadata, the doctor and all other pages say the same."""

from __future__ import annotations

import ast
import re

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from operators.progress import doctor
from tests.docs.test_pages import PAGES
from tests.support.installs import ROOT

PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
SETUP = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))


def requirement(text: str) -> Requirement:
    """Return the requirement in setup.py that begins with a text."""
    strings = [node.value for node in ast.walk(SETUP) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    (found,) = [Requirement(each) for each in strings if each.startswith(text)]
    return found


def fact(part: str) -> str:
    found = re.search(rf"^\| {re.escape(part)} \| (.*) \|$", PAGE, re.MULTILINE)
    assert found is not None, part
    return found.group(1)


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def test_flinks() -> None:
    first, last = map(dotted, doctor._FLINKS)
    assert fact("Flink") == f"{first} and 2.0 to {last}"
    new, old = requirement("apache-flink>=2"), requirement("apache-flink>=1")
    assert [minor for minor in range(9) if new.specifier.contains(f"2.{minor}.0")] == list(range(doctor._FLINKS[1][1] + 1))
    assert old.specifier.contains(f"{first}.0") and not old.specifier.contains("1.19.3")


def test_pythons() -> None:
    first, last = map(dotted, doctor._PYTHONS)
    assert fact("Python of programs and of Flink's workers") == f"{first} to {last}; with Flink 1.20, {first} to 3.11"
    marker = requirement("apache-flink==0+needs.python").marker
    assert f"needs.python.{first}.to.{last};" in (ROOT / "setup.py").read_text()
    assert marker is not None
    assert not marker.evaluate({"python_version": last}) and marker.evaluate({"python_version": "3.13"})
    assert (
        f"{doctor._PYTHONS[0]} <= sys.version_info[:2] <= {doctor._PYTHONS[1]}" in (ROOT / "scripts/make_venv.sh").read_text()
    )
    classifiers = next(
        node for node in ast.walk(SETUP) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range"
    )
    oldest, end = (argument.value for argument in classifiers.args if isinstance(argument, ast.Constant))
    assert fact("Python of scripts and models") == f"3.{oldest} to 3.{int(str(end)) - 1}"


def test_other_pages_say_the_same() -> None:
    pythons = {f"{dotted(doctor._PYTHONS[0])} to {dotted(doctor._PYTHONS[1])}", "3.9 to 3.11", "3.7 to 3.13"}
    flinks = {"1.20 to 2.3", "2.0 to 2.3", "1.20 to 2.1"}  # the last one is of the connector for Iceberg
    for page in PAGES:
        if page.name in {"CHANGELOG.md", "SECURITY.md"}:
            continue
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"Python (3\.\d+ to 3\.\d+)", text)) <= pythons, page
        assert set(re.findall(r"Flink (\d\.\d+ to \d\.\d+)", text)) <= flinks, page


def test_what_was_tried() -> None:
    rows = [row.split(" | ") for row in re.findall(r"^\| (\d.*) \|$", PAGE.partition("## What was tried")[2], re.MULTILINE)]
    assert rows
    flinks, pythons = SpecifierSet(">=1.20,<2.4"), SpecifierSet(">=3.9,<3.13")
    for flink, python, _, script_python, *_, date in rows:
        assert flinks.contains(flink) and pythons.contains(python) and SpecifierSet(">=3.7").contains(script_python)
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
