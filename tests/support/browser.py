"""A browser without a window, for pages that are to be seen as a reader sees them."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from tests.support.leftovers import DEADLINE_S

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-first-run", "--enable-logging=stderr",
)  # fmt: skip


def find_browser() -> str | None:
    """Return the path of a browser of the family of Chromium; None where there is none."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def opened(page: pathlib.Path, folder: pathlib.Path) -> tuple[str, list[str]]:
    """Open a page, and return its document as it is then, and what the browser's console says.

    Args:
        page: A file.
        folder: Where the browser may keep its own files.
    """
    browser = find_browser()
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)}")
    command = [browser, *_FLAGS, f"--user-data-dir={folder}", "--dump-dom", page.as_uri()]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=4 * DEADLINE_S
    )
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]
