"""The place of a process among the members of its group: the variables of PyTorch, and its share of
a host.

They are derived from TF_CONFIG, so both say the same. `torch.distributed` reads them with its
default `init_method`, and the arguments of `jax.distributed.initialize` are among them.
"""

from __future__ import annotations

import json
import os
from typing import Mapping


def read_cluster(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the `cluster` of TF_CONFIG: role to the "host:port" of each process.

    Empty without TF_CONFIG.
    """
    return dict(json.loads(environment.get("TF_CONFIG") or "{}").get("cluster", {}))


def read_task(environment: Mapping[str, str]) -> tuple[str | None, int]:
    """Return this process's role and number in TF_CONFIG, such as ("chief", 0).

    The role is None without TF_CONFIG.
    """
    task = json.loads(environment.get("TF_CONFIG") or "{}").get("task", {})
    return task.get("type"), int(task.get("index", 0))


def worker_variables(tf_config: str, gpus: str | None) -> dict[str, str]:
    """Return MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK; none of them for a
    parameter server.

    The chief is rank 0. MASTER_PORT is its port of TF_CONFIG: a script uses either TensorFlow's
    server or the store of another framework, and both find the port held until they bind it.

    Args:
        tf_config: TF_CONFIG of the process.
        gpus: CUDA_VISIBLE_DEVICES. A process that sees its own GPUs only counts them from 0, so
            LOCAL_RANK stays below their number.
    """
    config = json.loads(tf_config)
    kind, index = config["task"]["type"], config["task"]["index"]
    if kind == "ps":
        return {}
    workers = [*config["cluster"]["chief"], *config["cluster"].get("worker", [])]
    # Both the chief and the first worker have the index 0 of their kind, and the chief is rank 0.
    rank = index + (kind == "worker")
    hosts = [address.rpartition(":")[0] for address in workers]
    local = hosts[:rank].count(hosts[rank])
    return {
        "MASTER_ADDR": hosts[0].strip("[]"),
        "MASTER_PORT": workers[0].rpartition(":")[2],
        "RANK": str(rank),
        "WORLD_SIZE": str(len(workers)),
        "LOCAL_RANK": str(local % len(gpus.split(",")) if gpus else local),
    }


def share_of_cores(environment: Mapping[str, str]) -> int:
    """Cores for this process among the members of its group on this host, at most
    `intraOpParallelism`.
    """
    hosts = {
        kind: [address.rpartition(":")[0] for address in addresses]
        for kind, addresses in read_cluster(environment).items()
    }
    kind, index = read_task(environment)
    own = hosts.get(kind or "", [])[index:][:1]
    members = sum(of_kind.count(host) for host in own for of_kind in hosts.values())
    # The affinity and not the number of processors, because a container or `taskset` may allow some
    # of them only. macOS has no affinity.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = (usable or 1) // max(1, members)
    return max(1, min(cores, int(environment.get("TF_NUM_INTRAOP_THREADS") or cores)))
