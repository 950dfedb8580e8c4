"""Users' files that Python would import in place of our packages.

A user's own akdl.py, or a package `operators`, that is shipped with a job would hide our package
from Flink's Python workers.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable

from bridge.exceptions import ConfigurationError

# A module of each package that other packages do not have by chance.
_OURS = {
    "akdl": "akdl/wire/__init__.py",
    "bridge": "bridge/settings.py",
    "operators": "operators/errors/shadowed_packages.py",
}


def shadowed_packages(entry: str) -> dict[str, str]:
    """Files at an entry of Python's path that shadow our packages, by package. A single file stands
    for its folder.
    """
    if zipfile.is_zipfile(entry):
        with zipfile.ZipFile(entry) as archive:
            names = frozenset(archive.namelist())
        return _found(entry, names.__contains__)
    if os.path.isfile(entry):
        return _found(os.path.dirname(entry), os.path.basename(entry).__eq__)
    return _found(entry, lambda path: os.path.isfile(os.path.join(entry, path)))


def refuse_shadowing(option: str, entries: str) -> None:
    """Refuse a list of files, separated by commas, one of which hides a package of ours."""
    for entry in filter(None, entries.split(",")):
        for package, path in shadowed_packages(entry).items():
            raise ConfigurationError(
                f"{option}: {path} would be shipped with the job and hide the package {package!r}"
                " from Flink's Python workers. Rename it, or leave it out"
            )


def _found(place: str, has: Callable[[str], bool]) -> dict[str, str]:
    result = {}
    for package, own in _OURS.items():
        found = next(
            (path for path in (f"{package}/__init__.py", f"{package}.py") if has(path)), None
        )
        # A folder with our own package has this module of it too, and hides nothing.
        if found is not None and not has(own):
            result[package] = os.path.join(place, found)
    return result
