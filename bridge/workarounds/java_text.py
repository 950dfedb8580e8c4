"""Java classes that Flink compiles from their text, which is stored next to the modules of
a room.
"""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


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
    from pyflink.java_gateway import get_gateway

    text = java_text(__package__, name)
    for word, other in words.items():
        text = text.replace(f"{word}.", f"{other}.")
    jvm = get_gateway().jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    return jvm.org.apache.flink.table.runtime.generated.CompileUtils.compile(
        loader, name, text
    ).newInstance()
