"""Our Java texts and the names of Flink's classes against the jars of the oldest Flink; of each one
in `make test-jars`.

Flink compiles the texts with Janino, which its jar of the table runtime holds: here with the Janino
of each release.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from pyflink.java_gateway import get_gateway

from akdl.versions import FLINKS
from bridge.workarounds.java_text import java_text
from operators.flink.java import ensure_java
from tests.support.deadline import DEADLINE_S
from tests.support.tensorflows import kept_folder, made_once
from tests.support.uv import find_uv, needs_package_index

pytestmark = [pytest.mark.flink, pytest.mark.slow]

ROOT = pathlib.Path(__file__).parents[3]
TEXTS = sorted(ROOT.glob("bridge/*/*.java"))
PYTHON_FILES = [*ROOT.glob("bridge/**/*.py"), *ROOT.glob("operators/**/*.py")]
NAMES = {
    f"org.apache.{name or 'flink.' + inside}"
    for path in PYTHON_FILES
    for name, inside in re.findall(
        r"\bjvm\.org\.apache\.((?:[a-z]\w*\.)*[A-Z]\w+)|(?<![.\w])_?flink(?:\(\))?\.((?:[a-z]\w*\.)*[A-Z]\w+)",
        path.read_text(encoding="utf-8"),
    )
}


@pytest.fixture(scope="module", params=FLINKS)
def jars(request: pytest.FixtureRequest) -> list[pathlib.Path]:
    """The jars of the newest release of a minor, from PyPI's package of them, which is kept."""
    if request.param != "1.20" and not os.environ.get("AKDL_TEST_JARS"):
        pytest.skip("downloads jars of several GB: make test-jars")
    folder = kept_folder("flink-jars", request.param)
    with made_once(folder) as is_new:
        if is_new:
            needs_package_index()
            wanted = f"apache-flink-libraries=={request.param}.*"
            command = [
                find_uv(),
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                str(folder),
                wanted,
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=19 * DEADLINE_S)
            assert done.returncode == 0, done.stderr
    return [*folder.glob("pyflink/lib/*.jar"), *folder.glob("pyflink/opt/flink-python*.jar")]


@pytest.fixture(scope="module")
def loader(jars: list[pathlib.Path]) -> Iterator[Any]:
    """Class loader with these jars alone, in a JVM of the tests' Flink."""
    ensure_java()
    java = get_gateway().jvm.java
    urls = java_array(java.net.URL, [java.net.URL(path.as_uri()) for path in jars])
    made = java.net.URLClassLoader(urls, java.lang.ClassLoader.getPlatformClassLoader())
    yield made
    made.close()


def java_array(kind: Any, values: list[Any]) -> Any:
    made = get_gateway().new_array(kind, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made


@functools.cache
def package_of_grpc(jar: pathlib.Path) -> str:
    with zipfile.ZipFile(jar) as file:
        (found,) = [
            name for name in file.namelist() if name.endswith("/InternalGlobalInterceptors.class")
        ]
    return found.rpartition("/")[0].replace("/", ".")


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_java_texts_compile_against_the_jars(
    text: pathlib.Path, jars: list[pathlib.Path], loader: Any
) -> None:
    source = text.read_text(encoding="utf-8")
    if "ModelProviderFactory" in source and jars[-1].name.startswith(
        ("flink-python-1.", "flink-python-2.0.")
    ):
        pytest.skip("Flink has ML_PREDICT since 2.1, so jars=['akdl'] is refused before")
    if "extends ChunkOperator" in source:
        source = java_text("bridge.flink", "ChunkOperator", text.stem)
    if "GRPC." in source:
        source = source.replace("GRPC.", package_of_grpc(jars[-1]) + ".")
    # By reflection: py4j keeps methods by the names of classes, and would take those of another
    # release.
    jvm, values = get_gateway().jvm, [loader, text.stem, source]
    types = java_array(
        jvm.Class,
        [jvm.Class.forName(f"java.lang.{name}") for name in ("ClassLoader", "String", "String")],
    )
    compiler = loader.loadClass("org.apache.flink.table.runtime.generated.CompileUtils").getMethod(
        "compile", types
    )
    assert compiler.invoke(None, java_array(jvm.Object, values)).getName() == text.stem


def test_classes_of_flink_that_we_name_exist(loader: Any) -> None:
    assert "org.apache.flink.table.runtime.generated.GeneratedOperator" in NAMES
    for name in sorted(NAMES):
        assert loader.loadClass(name).getName() == name
