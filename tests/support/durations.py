"""Seconds of each test, file and fixture: whole runs record them, `make durations` shows them.

Variable AKDL_TEST_DURATIONS names the file of a run. The seconds of each file also lie in
tests/durations.txt, by which the files of the next runs are sorted: the longest first, so that no
process is left with one of them at the end.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.leftovers import waits

ROOT = pathlib.Path(__file__).parents[2]
OF_FILES = ROOT / "tests" / "durations.txt"
_LEAST_S = 1.0
_SHOWN = 40

_fixtures: list[tuple[str, float]] = []


def seconds_of_files() -> dict[str, float]:
    """Return the seconds of files in earlier runs, where they are more than one."""
    lines = OF_FILES.read_text(encoding="utf-8").splitlines() if OF_FILES.exists() else []
    return {name: float(seconds) for seconds, name in (line.split() for line in lines)}


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Measure a fixture, without the fixtures that it needs."""
    began = time.monotonic()
    yield
    _fixtures.append((f"{fixturedef.baseid}::{fixturedef.argname}", time.monotonic() - began))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Send the seconds of fixtures along, and say of a failure what the machine was doing."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if call.when == "setup":
        report.user_properties = [*report.user_properties, ("fixtures", list(_fixtures))]
        _fixtures.clear()
    if report.failed:
        load = " ".join(f"{each:.1f}" for each in os.getloadavg())
        longest = sorted(waits, reverse=True)[:3]
        waited = "; ".join(f"{seconds:.1f} s until {what}" for seconds, what in longest) or "none"
        report.sections.append(
            ("The machine", f"load {load} on {os.cpu_count()} cores; longest waits: {waited}")
        )
    if call.when == "teardown":
        waits.clear()


class Recorder:
    """Plugin of the process that collects the reports of all others."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._tests: dict[str, float] = collections.defaultdict(float)
        self._fixtures: dict[str, float] = collections.defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        self._tests[report.nodeid] += report.duration
        for fixture, seconds in (
            dict(report.user_properties).get("fixtures", ()) if report.when == "setup" else ()
        ):  # type: ignore[attr-defined]
            self._fixtures[fixture] += seconds

    def pytest_sessionfinish(self) -> None:
        """Write the file of this run."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"tests": self._tests, "fixtures": self._fixtures}))


def pytest_configure(config: pytest.Config) -> None:
    """Record a whole run."""
    path = os.environ.get("AKDL_TEST_DURATIONS")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(ROOT / path))


def main(paths: list[str]) -> None:
    """Show the files of runs, and keep the seconds of test files for the next ones; files that did
    not run keep theirs.
    """
    tests: dict[str, float] = {}
    fixtures: dict[str, float] = {}
    for path in paths:
        run = json.loads(pathlib.Path(path).read_text())
        tests.update(run["tests"])
        fixtures.update(run["fixtures"])
    files: dict[str, float] = collections.defaultdict(float)
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += seconds
    for title, found in (("files", files), ("fixtures", fixtures), ("tests", tests)):
        print(f"\n{title}: {sum(found.values()):.0f} s in all")
        for name, seconds in sorted(found.items(), key=lambda pair: -pair[1])[:_SHOWN]:
            print(f"{seconds:8.1f}  {name}")
    known = {
        name: seconds for name, seconds in seconds_of_files().items() if (ROOT / name).is_file()
    } | files
    kept = sorted(
        ((seconds, name) for name, seconds in known.items() if seconds >= _LEAST_S), reverse=True
    )
    OF_FILES.write_text(
        "".join(f"{seconds:.0f} {name}\n" for seconds, name in kept), encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
