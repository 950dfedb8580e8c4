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
_KUBERNETES = "docs/kubernetes"
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
    f"{_KUBERNETES}/Dockerfile": {r"(?<=^ARG FLINK=)\d\.\d+": FLINKS[-1]},
    f"{_KUBERNETES}/README.md": {r"(?<=another image of Flink )\d\.\d+": FLINKS[-1]},
    **{
        f"{_KUBERNETES}/operator-{name}.yaml": {
            r"(?<=flink-python[-:])\d\.\d+": FLINKS[-1],
            r"(?<=flinkVersion: )v\d_\d+": f"v{FLINKS[-1].replace('.', '_')}",
        }
        for name in ("application", "session")
    },
}
# Files for Flink 1.20, made of those for the newest one: what differs there, by its pattern.
FLINK_120 = "1.20.5"
ITS_FILES = ("Dockerfile", "session.yaml", "operator-application.yaml", "operator-session.yaml")
DIFFERENCES = {
    rf"{_KUBERNETES}/(?={'|'.join(ITS_FILES)})": f"{_KUBERNETES}/flink-1.20/",
    r"(?<=akdl-flink:)([\d.]+\d)": r"\1-1.20",
    r"(?<=^ARG FLINK=)[\d.]+|(?<=flink-python[-:])\d\.\d+\.\d+": FLINK_120,
    r"(?<=^ARG SIDES=)flink": "flink-1.20",
    r"(?<=flinkVersion: )v\d_\d+": "v1_20",
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
    for file in ITS_FILES:
        name, text = f"{_KUBERNETES}/flink-1.20/{file}", f"{_KUBERNETES}/{file}"
        text = changed.get(text) or (root / text).read_text(encoding="utf-8")
        for pattern, value in DIFFERENCES.items():
            text = re.sub(pattern, value, text, flags=re.MULTILINE)
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed[name] = text
    return changed


if __name__ == "__main__":
    for file, content in written(ROOT).items():
        (ROOT / file).parent.mkdir(exist_ok=True)
        (ROOT / file).write_text(content, encoding="utf-8")
        print(file)
