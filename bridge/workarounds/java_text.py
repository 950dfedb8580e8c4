"""Java classes that Flink compiles from their text, which lies next to the modules of this room."""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


def new_object(name: str, **words: str) -> JavaObject:
    """Compile the class `name`, with other `words` in its text, and return an object of it. Needs a JVM that runs."""
    from pyflink.java_gateway import get_gateway

    text = (importlib.resources.files(__package__) / f"{name}.java").read_text(encoding="utf-8")
    for word, other in words.items():
        text = text.replace(f"{word}.", f"{other}.")
    jvm = get_gateway().jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    return jvm.org.apache.flink.table.runtime.generated.CompileUtils.compile(loader, name, text).newInstance()
