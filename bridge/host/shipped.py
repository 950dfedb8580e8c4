"""What travels with a job: named on the driver, found on the hosts. Nothing has to lie on the hosts before.

Flink takes them along with its Python files and puts each on the path of its Python workers, as it is: not as a folder to
import from, as the name shows that it is none.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import zipimport
from typing import Any

from akdl.folders.owned_folder import OwnedFolder
from akdl.storage.archive import unpack_archive
from bridge.host.shadowing import refuse_hiding

_OPTION = "python.files"
_OWN_PACKAGES = ("akdl", "bridge", "operators")


def runs_elsewhere(table_env: Any) -> bool:
    """Whether jobs of an environment run in other programs than this one."""
    return bool(table_env.get_config().get("execution.target", "local") != "local")


def carry(table_env: Any, path: str) -> None:
    """Let jobs of an environment take a file along, where they run in other programs.

    Args:
        path: The file. Its name has to be unique among all files, and without a suffix: Flink would unpack it.
    """
    if runs_elsewhere(table_env) and path not in table_env.get_config().get(_OPTION, "").split(","):
        table_env.add_python_file(path)


def carry_own_packages(table_env: Any) -> None:
    """Let jobs of an environment take our packages along, where they run in other programs.

    Raises:
        ConfigurationError: A file of the user's travels with them that would hide ours.
    """
    if runs_elsewhere(table_env):
        refuse_hiding(_OPTION, table_env.get_config().get(_OPTION, ""))
        carry(table_env, _own_packages())


def arrived(path: str) -> str:
    """Return the path on this host of a file that `carry` was given; the same path where the job runs in the driver."""
    name = os.path.basename(path)
    for entry in sys.path:
        if os.path.basename(entry) == name and os.path.isfile(entry):
            return entry
    return path


@functools.cache
def _own_packages() -> str:
    """Copy our packages to a folder that jobs can carry along; it goes when this program ends.

    Flink puts each folder it is given on PYTHONPATH as it is, so the packages have to lie in one, with nothing else.
    """
    owned = OwnedFolder("akdl_packed_")
    owned.remove_at_exit()
    folder = tempfile.mkdtemp(dir=owned.path)
    own = sys.modules[__name__].__spec__
    if own is not None and isinstance(own.loader, zipimport.zipimporter):  # `flink run -pyfs` was given our wheel
        with open(own.loader.archive, "rb") as wheel, tempfile.TemporaryDirectory() as unpacked:
            unpack_archive(wheel, unpacked)
            for package in _OWN_PACKAGES:
                shutil.move(os.path.join(unpacked, package), folder)
        return folder
    for package in _OWN_PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        target = os.path.join(folder, package)
        shutil.copytree(spec.submodule_search_locations[0], target, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
