"""A table environment: its lock, its settings, and the names of our operators in it."""

from __future__ import annotations

import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bridge.interrupts import interrupts_later

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment

_planning = threading.RLock()
_counts: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


@contextmanager
def planning() -> Iterator[None]:
    """Context (or decorator) for making tables or starting jobs: Flink's environments are not thread-safe."""
    with interrupts_later(), _planning:
        yield


def has_checkpoints(table_env: StreamTableEnvironment) -> bool:
    enabled = table_env._j_tenv.execEnv().getCheckpointConfig().isCheckpointingEnabled()
    return bool(enabled or table_env.get_config().get("execution.checkpointing.interval", "") != "")


def is_streaming(table_env: StreamTableEnvironment) -> bool:
    return bool(table_env.get_config().get("execution.runtime-mode", "STREAMING").upper() != "BATCH")


def uids(table_env: Any, *identity: str) -> Callable[[str], str]:
    """Return a function that names the parts of one more operator, by which Flink finds their state in a savepoint.

    Without names Flink numbers the operators of a graph, so that one more operator makes the state of the others unreachable. A
    name consists of `identity`, such as the operator's class and script, and a number among operators of the same identity.
    """
    words = "-".join(re.sub(r"[^\w.]+", "_", word) for word in identity)
    count = _counts.setdefault(table_env, Counter())
    count[words] += 1
    base = f"akdl-{words}-{count[words]}"
    return lambda part: f"{base}-{part}"
