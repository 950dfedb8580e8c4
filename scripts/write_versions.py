"""Write the versions of akdl/versions.py into the pages that name them: `make versions`."""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from akdl.versions import FLINK_120_PYTHONS, FLINK_PYTHONS, FLINKS, PYTHONS  # noqa: E402

_FLINKS = f"{FLINKS[0]} to {FLINKS[-1]}"
_PYTHONS = f"{FLINK_PYTHONS[0]} to {FLINK_PYTHONS[-1]}"
_OF_120 = f"{FLINK_120_PYTHONS[0]} to {FLINK_120_PYTHONS[-1]}"
# Pattern of a place to what stands there, by file.
PLACES = {
    "README.md": {rf"(?<=Flink ){FLINKS[0]} to [\d.]+\d": _FLINKS},
    "docs/versions.md": {
        rf"(?<=^\| Flink \| ){FLINKS[0]} .*(?= \|$)": (
            f"{FLINKS[0]} and {FLINKS[1]} to {FLINKS[-1]}"
        ),
        r"(?<=^\| Python of programs and of Flink's workers \| ).*(?= \|$)": (
            f"{_PYTHONS}; with Flink {FLINKS[0]}, {_OF_120}"
        ),
        r"(?<=^\| Python of scripts and models \| ).*(?= \|$)": f"{PYTHONS[0]} to {PYTHONS[-1]}",
    },
    "docs/kubernetes/Dockerfile": {r"(?<=^ARG FLINK=)\d\.\d+": FLINKS[-1]},
    "docs/kubernetes/README.md": {r"(?<=Flink )\d\.\d+|(?<=flink-python-)\d\.\d+": FLINKS[-1]},
}


def written(root: pathlib.Path) -> dict[str, str]:
    """New texts of the files that do not name the versions; ValueError where a file has no place
    for one.
    """
    changed = {}
    for name, places in PLACES.items():
        before = text = (root / name).read_text(encoding="utf-8")
        for pattern, value in places.items():
            text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
            if not count:
                raise ValueError(f"{name}: nothing there has the form {pattern}")
        if text != before:
            changed[name] = text
    return changed


if __name__ == "__main__":
    for file, content in written(ROOT).items():
        (ROOT / file).write_text(content, encoding="utf-8")
        print(file)
