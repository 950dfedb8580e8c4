"""Take the pictures of real runs for docs, with two jobs on this machine and a browser without a
window: `make screenshots`.

A training is watched on a terminal, and its record becomes a page. A script fails on another
terminal. Rich draws both.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pexpect
from rich.console import Console
from rich.text import Text

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "_static"
COLUMNS = 124
SECONDS = 600
TRAINING = r"step [1-9]\d*,\d{3}, loss"
JOB = """
from operators import RandomTableSourceBatchOp, TF2TableModelTrainBatchOp, useLocalEnv

useLocalEnv(2)
points = RandomTableSourceBatchOp(numRows=20_000, numCols=2, outputCols=["x", "y"])
data = points.select("x, y, CASE WHEN x > y THEN 1 ELSE 0 END AS above")
train = TF2TableModelTrainBatchOp(
    userFiles=["train.py"], mainScriptFile="train.py", numWorkers=2, numPSs=0, logDir="runs"
)
model = data.link(train).collectToDataframe()
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PAGE = (900, 1080)


class Screen:
    """A terminal as far as rich's bars use one: lines that grow, and are left and cleared as
    wholes.
    """

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def feed(self, said: str) -> None:
        """Take what a program has written."""
        for part in re.split(r"(\x1b\[\d*A|\x1b\[2K|\x1b\[\?25[hl]|\r|\n)", said):
            if part == "\n":
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif part.endswith("A") and part.startswith("\x1b["):
                self._row -= int(part[2:-1] or 1)
            elif part == "\x1b[2K":
                self.lines[self._row] = ""
            elif part != "\r" and not part.startswith("\x1b[?25"):
                self.lines[self._row] += part


def terminal(arguments: list[str], folder: pathlib.Path, until: str | None) -> str:
    """Run a Python program on a terminal, and return what is to be seen there.

    Args:
        arguments: Of Python.
        folder: Where it runs.
        until: Look when this is to be read, a pattern; None for the end. The program goes on to its
            end in any case.
    """
    variables = {
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "AKDL_PROGRESS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    program = pexpect.spawn(
        "/usr/bin/env",
        [*(f"{name}={value}" for name, value in variables.items()), sys.executable, *arguments],
        cwd=str(folder),
        encoding="utf-8",
        timeout=SECONDS,
        dimensions=(40, COLUMNS),
        searchwindowsize=2000,
    )
    screen = Screen()
    if until is not None:
        program.expect(f"{until}[^\r\n]*")
        screen.feed(program.before + program.after)
    program.expect(pexpect.EOF)
    if until is None:
        screen.feed(program.before)
    seen = "\n".join([f"\x1b[32m$\x1b[0m python {' '.join(arguments)}", *screen.lines]).rstrip()
    return seen.replace(str(folder), "/home/you/akdl")


def drawing(said: str, title: str) -> str:
    """Return what stands on a terminal as SVG, with the fonts of the reader."""
    console = Console(width=COLUMNS, record=True, file=open("/dev/null", "w"), force_terminal=True)
    console.print(Text.from_ansi(said), soft_wrap=False)
    svg = console.export_svg(title=title, unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def photograph(page: pathlib.Path, picture: pathlib.Path, folder: pathlib.Path) -> None:
    """Write a picture of a page."""
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if browser is None:
        sys.exit(
            f"no browser for {picture.name}: expected one of {', '.join(BROWSERS)} on the PATH"
        )
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder}",
        "--window-size={},{}".format(*PAGE),
        f"--screenshot={picture}",
        page.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory(prefix="akdl_pictures_") as name:
        folder = pathlib.Path(name)
        (folder / "job.py").write_text(JOB, encoding="utf-8")
        script = (ROOT / "examples" / "train_together" / "train.py").read_text(encoding="utf-8")
        (folder / "train.py").write_text(
            script.replace('"num_epochs": 20', '"num_epochs": 5'), encoding="utf-8"
        )
        (FOLDER / "progress.svg").write_text(
            drawing(terminal(["job.py"], folder, TRAINING), "a training"), encoding="utf-8"
        )
        (record,) = (folder / "runs").glob("*.jsonl")
        page = folder / "page.html"
        subprocess.run([sys.executable, "-m", "akdl", "report", str(record), str(page)], check=True)
        photograph(page, FOLDER / "report.png", folder / "browser")
        for path in (ROOT / "examples" / "filter_rows").glob("*.py"):
            text = path.read_text(encoding="utf-8").replace('rows["score"]', 'rows["scor"]', 1)
            (folder / path.name).write_text(text, encoding="utf-8")
        (FOLDER / "error.svg").write_text(
            drawing(terminal(["job.py"], folder, None), "an error"), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
