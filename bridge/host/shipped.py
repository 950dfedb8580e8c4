"""Files that Flink ships with a job to the hosts.

Flink's option `python.files` brings files to the hosts of any cluster, and puts each on the path of
Python. Python ignores an entry that is neither a folder nor a zip file, so this carries packed user
files, environments and models too, and each host finds them on the path by their names.

A user's own akdl.py, or a package `operators`, that is shipped with a job would hide our package
from Flink's Python workers, and is refused.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
import zipimport
from collections.abc import Callable
from typing import TYPE_CHECKING

from akdl.storage.archive import unpack_archive
from akdl.storage.locked_folder import OwnedFolder
from bridge.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment

_OPTION = "python.files"
_OWN_PACKAGES = ("akdl", "bridge", "operators")


def runs_elsewhere(table_env: StreamTableEnvironment) -> bool:
    """Return True if the jobs of an environment run on a cluster, and not inside this program."""
    return bool(table_env.get_config().get("execution.target", "local") != "local")


def ship(table_env: StreamTableEnvironment, path: str) -> None:
    """Ship a file with an environment's jobs. Its name has to be unique, and without a suffix:
    Flink would unpack it.
    """
    if runs_elsewhere(table_env) and path not in table_env.get_config().get(_OPTION, "").split(","):
        table_env.add_python_file(path)


def ship_own_packages(table_env: StreamTableEnvironment) -> None:
    """Ship our packages, since a cluster's Python workers need no installation of akdl."""
    if runs_elsewhere(table_env):
        refuse_shadowing(_OPTION, table_env.get_config().get(_OPTION, ""))
        ship(table_env, _own_packages())


def path_on_host(path: str) -> str:
    """Path on this host of a shipped file; the same path where the job runs in the driver."""
    name = os.path.basename(path)
    for entry in sys.path:
        # Flink changes the folder of a shipped file but not its name, so the entry is found by its
        # name.
        if os.path.basename(entry) == name and os.path.isfile(entry):
            return entry
    return path


@functools.cache
def _own_packages() -> str:
    """Copy our packages to a folder of their own until this program ends: Flink puts it on
    PYTHONPATH.
    """
    folder = tempfile.mkdtemp(dir=OwnedFolder("akdl_packed_").path)
    own = sys.modules[__name__].__spec__
    # `flink run -pyfs` was given our wheel, so the packages are in a zip file.
    if own is not None and isinstance(own.loader, zipimport.zipimporter):
        with open(own.loader.archive, "rb") as wheel, tempfile.TemporaryDirectory() as unpacked:
            unpack_archive(wheel, unpacked)
            for package in _OWN_PACKAGES:
                shutil.move(f"{unpacked}/{package}", folder)
        return folder
    for package in _OWN_PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        target = f"{folder}/{package}"
        shutil.copytree(
            spec.submodule_search_locations[0], target, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


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
