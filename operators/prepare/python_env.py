"""Environment that `pythonEnv` names: a folder, an interpreter, or an archive that travels with the
job.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import sys
import tarfile
import zipfile
from collections.abc import Sequence

from akdl.masking import shown
from akdl.process import preflight
from akdl.storage.archive import SUFFIXES, ArchiveError, damage_is_named, is_archive, is_zip
from akdl.storage.files import FileError, fetch, is_remote, local_path
from akdl.tf_version import LAST_WITH_ESTIMATOR, NO_ESTIMATOR, parse_version
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.interpreter import NoAnswerError, interpreter_in, look_into
from bridge.host.program_folder import named_by_content, scratch_folder
from bridge.settings import PythonArchive
from operators.prepare.made_env import made_python, packed_env
from operators.prepare.requirements import Wanted, wanted_by


def find_python(
    operator: str, python_env: str | Sequence[str] | Wanted, elsewhere: bool = False
) -> str | PythonArchive | None:
    """Find the interpreter or archive that `pythonEnv` names; None if it is empty.

    With `elsewhere`, jobs run on the hosts of a cluster: requirements become an archive that
    travels, and a path that is missing here is passed on, because it may exist on the hosts only.

    Raises:
        ConfigurationError: The value names nothing that can be used, or the environment cannot be
            made.
    """
    if not python_env:
        return None
    try:
        wanted = python_env if isinstance(python_env, Wanted) else wanted_by(python_env)
        if wanted is not None:
            # An environment in the cache of this user exists on this host only, so other hosts get
            # it as an archive.
            return _archive(packed_env(wanted)) if elsewhere else made_python(wanted)
        assert isinstance(python_env, str)
        if is_remote(python_env):
            return _archive(python_env)
        path = pathlib.Path(local_path(python_env))
        if path.is_file() and is_archive(path.name):
            return _archive(python_env)
    except (FileError, ConfigurationError) as error:
        where = "the metadata of its script" if isinstance(python_env, Wanted) else "pythonEnv"
        raise ConfigurationError(f"{operator}: {where}: {error}") from None
    python = interpreter_in(str(path)) if path.is_dir() else str(path)
    if python is not None and os.path.isfile(python) and os.access(python, os.X_OK):
        return python
    if elsewhere and not path.exists():
        return str(path)
    fault = "is not executable" if path.is_file() else "is not a file"
    if path.is_dir():
        fault = "has no bin/python"
    raise ConfigurationError(
        f"{operator}: pythonEnv {python_env!r}: expected a folder with bin/python, an interpreter,"
        f" an archive of a folder ({', '.join(SUFFIXES)}), or requirements such as"
        f" 'tensorflow==2.21.*'; {path} {fault}"
    )


def check_python(
    operator: str,
    python: str | PythonArchive | None,
    of_estimator: str | None = None,
    limit_s: float = 300.0,
) -> None:
    """Check that an interpreter of this host has what a script needs. An archive is checked where
    it is unpacked.
    """
    if isinstance(python, PythonArchive):
        return
    if python is None:
        found = preflight.versions()
        why = preflight.reason(found)
        version = found.get("tensorflow")
    else:
        why, version = _look(python, os.stat(python).st_mtime_ns, limit_s)
    if of_estimator and version and parse_version(version)[:2] > LAST_WITH_ESTIMATOR:
        why = NO_ESTIMATOR.format(of_estimator, version, python or sys.executable)
    if why:
        raise ConfigurationError(f"{operator}: {why}")


@functools.cache
def _look(python: str, changed: int, limit_s: float) -> tuple[str, str]:
    """Reason why an interpreter cannot be used, and the version of its TensorFlow.

    Both are "" where only a run could show them. Starting an interpreter takes a while, so the
    result is cached; the time of its last change is part of the key, because users repair an
    environment and link again in the same notebook.
    """
    try:
        status, output = look_into(python, limit_s=limit_s)
    except NoAnswerError as error:
        return f"{error} (startTimeout)", ""
    except ConfigurationError:
        return "", ""
    why = output.rpartition("akdl: ")[2] if status == preflight.UNUSABLE else ""
    return why, "".join(re.findall(r"^Python .*tensorflow (\d[^,]*)", output)[:1])


def _archive(address: str) -> PythonArchive:
    """Fetch an archive, look into it and name it by its content.

    Hosts unpack archives by this name, so equal archives are unpacked once.
    """
    with scratch_folder() as place:
        path = fetch(address, place)
        if os.path.isdir(path):
            raise FileError(
                f"{shown(address)} is a folder: pack it, only an archive can travel with a job"
            )
        _look_into(path, shown(address))
        named, sha256 = named_by_content(path, "env")
    return PythonArchive(named, sha256, shown(address))


def _look_into(path: str, name: str) -> None:
    """Refuse archives that are evidently no environment; hosts check the rest when they
    unpack it.
    """
    with refused_at(name, ArchiveError), damage_is_named():
        if is_zip(path):
            with zipfile.ZipFile(path) as archive:
                if not any(
                    re.fullmatch(r"([^/]+/)?bin/python", entry) for entry in archive.namelist()
                ):
                    raise ArchiveError(
                        "expected bin/python at its root or in its one folder, found no such file"
                    )
        # A tar file has no list of its entries, so looking for bin/python would unpack all of it.
        # The hosts do that anyway.
        elif not tarfile.is_tarfile(path):
            raise ArchiveError("it is damaged, or neither a zip nor a tar file")
