"""A table environment: its lock, its settings, and the names of our operators in it."""

from __future__ import annotations

import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bridge.interrupts import interrupts_later

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment

# Flink takes the name of earlier versions too.
SAVEPOINT_PATHS = ("execution.state-recovery.path", "execution.savepoint.path")
# The lock can be taken again by its owner, because planning functions call each other: for example,
# `Resumption.split` calls `table_of_files`.
_planning = threading.RLock()
# The keys are environments. They are weak, so that a program can free an environment.
_counts: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


@contextmanager
def planning() -> Iterator[None]:
    """Context (or decorator) for making tables or starting jobs, one thread at a time.

    Flink's environments are not thread-safe. Interrupts are deferred in it, since one during a call
    of the JVM would leave a job running that cannot be cancelled.
    """
    with interrupts_later(), _planning:
        yield


def has_checkpoints(table_env: StreamTableEnvironment) -> bool:
    """Return True if checkpoints are enabled, by a call or by a setting of the environment."""
    enabled = table_env._j_tenv.execEnv().getCheckpointConfig().isCheckpointingEnabled()
    return bool(enabled or table_env.get_config().get("execution.checkpointing.interval", "") != "")


def starts_from_savepoint(table_env: StreamTableEnvironment) -> bool:
    """Look for a savepoint in the settings of the program and of `flink run`."""
    settings = table_env._j_tenv.execEnv().getConfiguration().toMap()
    return any(
        settings.get(name) or table_env.get_config().get(name, "") for name in SAVEPOINT_PATHS
    )


def is_streaming(table_env: StreamTableEnvironment) -> bool:
    return bool(
        table_env.get_config().get("execution.runtime-mode", "STREAMING").upper() != "BATCH"
    )


def parallelism_of(table_env: StreamTableEnvironment) -> int:
    return int(table_env._j_tenv.execEnv().getParallelism())


def uids(table_env: object, *identity: str) -> Callable[[str], str]:
    """Return a function that names the parts of one more operator, by which savepoints find them.

    Flink's own names are made from numbers, which would change with each further operator. Equal
    operators of a program are counted in the order in which they are linked.

    Args:
        identity: Words that stay the same between two versions of a program.
    """
    words = "-".join(re.sub(r"[^\w.]+", "_", word) for word in identity)
    count = _counts.setdefault(table_env, Counter())
    count[words] += 1
    base = f"akdl-{words}-{count[words]}"
    return lambda part: f"{base}-{part}"


def described(name: str, group: str) -> str:
    """Description of an operator in the plan of its job, for `groups_in`.

    A session cluster may run several jobs, and `akdl top` finds the processes of one by its plan.
    """
    return f"{name}, group {group}"


def groups_in(plan: Mapping[str, Sequence[Mapping[str, str]]]) -> set[str]:
    """Groups of processes that belong to a job; `plan` is that in the answer of Flink's REST to
    /jobs/ID.
    """
    # There are no nodes while the job is initialized.
    nodes = plan.get("nodes", ())
    return {group for node in nodes for group in re.findall(r", group (\w+)", node["description"])}
