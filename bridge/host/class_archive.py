"""An archive of Flink's classes, from which the JVMs of local programs take them.

A JVM otherwise reads, checks and links thousands of classes one by one, which is a quarter of the
time to a first result. Java calls this application class data sharing: a JVM writes the archive
when it ends, and takes it only if its Java, its jars and its garbage collector are the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from akdl.storage.local_files import free_bytes
from bridge.exceptions import ConfigurationError
from bridge.folders.user_folders import cache_folder, private_folder

# The first release of Java whose JVMs write an archive when they end.
_OLDEST = 13
# An archive takes 155 MB with Flink 2.3.
_ROOM = 1 << 30
# Java would print a warning for each reason not to take an archive.
_QUIET = "-Xlog:cds*=off"


def archive_options(java: str, jars: list[str], options: str) -> list[str]:
    """Return options for a JVM: to take its classes from the archive, or to write one when it ends.

    The JVM that writes one lives some ten seconds longer than its program. So it has to be a
    program on a terminal or in a notebook: what starts others often waits until they have closed
    their output.

    Args:
        java: The executable.
        jars: Its class path.
        options: Its other options.
    """
    folder = Path(cache_folder("classes"))
    # PyFlink cuts options at each space.
    if (
        os.environ.get("AKDL_CLASS_ARCHIVE") == "0"
        or re.search("SharedArchive|ArchiveClasses|Xshare", options)
        or re.search(r"\s", str(folder))
    ):
        return []
    with suppress(OSError, ConfigurationError):
        home = Path(os.path.realpath(shutil.which(java) or java)).parents[1]
        release = (home / "release").read_text(encoding="utf-8")
        version = re.search(r'JAVA_VERSION="(\d+)', release)
        if version is None or int(version[1]) < _OLDEST:
            return []
        stats = [(jar, os.stat(jar)) for jar in jars]
        described = [
            str(home),
            release,
            re.findall(r"-XX\S+", options),  # such as the garbage collector
            *((jar, s.st_size, s.st_mtime_ns) for jar, s in stats),
        ]
        name = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
        archive = folder / f"{name}.jsa"
        is_whole = _is_whole(archive)
        if not (is_whole or os.isatty(1) or "ipykernel" in sys.modules):
            return []
        folder.parent.mkdir(parents=True, exist_ok=True)
        private_folder(str(folder), "classes")
        if is_whole:
            return [f"-XX:SharedArchiveFile={archive}", _QUIET]
        if free_bytes(str(folder)) > _ROOM:
            # Archives of other versions, and of jars that are gone.
            for old in folder.glob("*.jsa"):
                old.unlink()
            return [f"-XX:ArchiveClassesAtExit={archive}", _QUIET]
    return []


def _is_whole(archive: Path) -> bool:
    """A JVM writes the first bytes last, so they are zeros where it was killed."""
    try:
        with open(archive, "rb") as content:
            return bool(content.read(4).strip(b"\0"))
    except FileNotFoundError:
        return False
