"""Settings of a table environment, and its lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.interrupts import interrupts_later

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment

_planning = threading.RLock()


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
