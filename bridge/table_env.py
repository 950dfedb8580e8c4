"""What a table environment is set to."""

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
    """Surround, also as a decorator, what makes tables or starts jobs: Flink's environments are not safe for several threads.

    Nobody waits for a job in here, so jobs of several threads run at once, and an interrupt can wait for the end.
    """
    with interrupts_later(), _planning:
        yield


def has_checkpoints(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment take checkpoints."""
    enabled = table_env._j_tenv.execEnv().getCheckpointConfig().isCheckpointingEnabled()
    return bool(enabled or table_env.get_config().get("execution.checkpointing.interval", "") != "")


def is_streaming(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment run in streaming mode."""
    return bool(table_env.get_config().get("execution.runtime-mode", "STREAMING").upper() != "BATCH")
