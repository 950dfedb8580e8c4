"""What a table environment is set to."""

from __future__ import annotations

from pyflink.table import StreamTableEnvironment


def has_checkpoints(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment take checkpoints."""
    enabled = table_env._j_tenv.execEnv().getCheckpointConfig().isCheckpointingEnabled()
    return bool(enabled or table_env.get_config().get("execution.checkpointing.interval", "") != "")


def is_streaming(table_env: StreamTableEnvironment) -> bool:
    """Whether jobs of this environment run in streaming mode."""
    return bool(table_env.get_config().get("execution.runtime-mode", "STREAMING").upper() != "BATCH")
