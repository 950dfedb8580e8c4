"""Whether TaskManagers have the network buffers that a group of many processes needs, reckoned before a job starts.

Each of P subtasks that gather rows has a channel to each of W members, and each member announces itself to all others. Flink
gives a buffer to each channel that leaves a slot, and two to each that comes from another TaskManager. Where they do not
suffice, the job fails with "Insufficient number of network buffers". This is a reckoning, so it warns and refuses nothing.
"""

from __future__ import annotations

import http.client
import logging
import math
from dataclasses import dataclass

from operators.flink.rest import Rest
from operators.flink.slots import FlinkConfiguration, rest_of

logger = logging.getLogger(__name__)

BUFFER_BYTES = 32 << 10  # taskmanager.memory.segment-size
LOCAL_BYTES = 64 << 20  # of the mini cluster
_EXCLUSIVE = 2  # buffers of a channel from another TaskManager
_SETTINGS = ("taskmanager.memory.network.min", "taskmanager.memory.network.max")


@dataclass(frozen=True)
class Manager:
    """A TaskManager."""

    slots: int
    network_bytes: int


def buffer_bytes(members: int, parallelism: int, slots: int, managers: int) -> int:
    """Return how many bytes of network buffers a group takes on one TaskManager."""
    # Chunks and two streams of starts go from P subtasks to W members, addresses from W to W, results from W to P.
    leaving = 3 * (members + 1) + (members + 1) + (parallelism + 1)
    arriving = 3 * parallelism + members
    from_others = math.ceil(arriving * (managers - 1) / managers)
    return slots * (leaving + _EXCLUSIVE * from_others) * BUFFER_BYTES


def shortage(members: int, parallelism: int, managers: list[Manager]) -> str | None:
    """Return what is missing and what to set; None where the buffers suffice.

    Args:
        managers: The TaskManagers; a job is spread over all of them.
    """
    for manager in managers:
        slots = min(manager.slots, max(members, parallelism))
        needed = buffer_bytes(members, parallelism, slots, len(managers))
        if needed > manager.network_bytes:
            size = f"{math.ceil(needed / (1 << 20))}m"
            return (
                f"{members} processes fed by {parallelism} subtasks need about {size} of network buffers on a TaskManager with "
                f"{manager.slots} slots, which has {manager.network_bytes >> 20}m: set {_SETTINGS[0]} and {_SETTINGS[1]} to "
                f"{size} or more"
            )
    return None


def warn_of_shortage(config: FlinkConfiguration, members: int, parallelism: int) -> None:
    """Log a warning where the network buffers of a job's TaskManagers will hardly suffice."""
    rest = rest_of(config)
    if rest is not None:
        try:
            managers = managers_of(rest)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            logger.info("the network buffers of the cluster are not checked: %s: %s", type(error).__name__, error)
            return
    elif config.get("execution.target", "") == "local" and not any(config.get(key, "") for key in _SETTINGS):
        managers = [Manager(max(members, parallelism), LOCAL_BYTES)]
    else:
        return
    found = shortage(members, parallelism, managers)
    if found is not None:
        logger.warning("%s", found)


def managers_of(rest: Rest) -> list[Manager]:
    """Return the TaskManagers of a cluster, as its REST endpoint says."""
    found = rest.get("/taskmanagers")["taskmanagers"]
    return [Manager(int(each["slotsNumber"]), int(each["memoryConfiguration"]["networkMemory"])) for each in found]
