"""Java classes that Flink compiles from their text, which is stored next to the modules of
a room.
"""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


def running_jvm() -> Any:
    """The classes of this program's JVM, which is started if need be."""
    from pyflink.java_gateway import get_gateway

    return get_gateway().jvm


def flink_classes() -> Any:
    """The JVM's package org.apache.flink."""
    return running_jvm().org.apache.flink


def java_text(package: str, *names: str) -> str:
    """One compilation unit of the classes `names`, in which all imports have to stand first."""
    # The package may be in a wheel that was not unpacked.
    texts = [
        (importlib.resources.files(package) / f"{name}.java").read_text(encoding="utf-8")
        for name in names
    ]
    return "\n".join(
        sorted("\n".join(texts).splitlines(), key=lambda line: not line.startswith("import "))
    )


def new_object(name: str, **words: str) -> JavaObject:
    """Compile the class `name`, with other `words` in its text, and return an object of it. Needs a
    JVM that runs.
    """
    text = java_text(__package__, name)
    for word, other in words.items():
        text = text.replace(f"{word}.", f"{other}.")
    jvm = running_jvm()
    return jvm.org.apache.flink.table.runtime.generated.CompileUtils.compile(
        jvm.Thread.currentThread().getContextClassLoader(), name, text
    ).newInstance()
