"""The place of a process among the members of its group: the variables of PyTorch, its share of a
host, and the hosts of the group that gRPC and HTTP clients reach without a proxy.

They are derived from TF_CONFIG, so both say the same. `torch.distributed` reads them with its
default `init_method`, and the arguments of `jax.distributed.initialize` are among them.
"""

from __future__ import annotations

import json
import os
from typing import Mapping, MutableMapping

# Programs read the first of these that is set. gRPC reads only the lower case, Python prefers it,
# Java reads neither.
_READ = {
    "no_proxy": ("no_proxy", "NO_PROXY"),
    "NO_PROXY": ("NO_PROXY", "no_proxy"),
    "no_grpc_proxy": ("no_grpc_proxy", "no_proxy", "NO_PROXY"),
}
_LOOPBACK = ["localhost", "127.0.0.1", "::1"]


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


def bypass_proxies(environment: MutableMapping[str, str], tf_config: str) -> None:
    """Add the hosts of the group to the variables, before TensorFlow reads them.

    Values of the user stay in front. All names are set, because a program that finds one of them
    ignores the others.
    """
    addresses = [each for of_role in json.loads(tf_config)["cluster"].values() for each in of_role]
    # IPv6 addresses have brackets in TF_CONFIG, and no brackets in these variables.
    hosts = [*_LOOPBACK, *(address.rpartition(":")[0].strip("[]") for address in addresses)]
    values = {}
    for name, read in _READ.items():
        # A name that is not set gets the value of the name that programs read in its place, because
        # setting it makes them ignore the other one.
        value = next((environment[each] for each in read if each in environment), "")
        known = [entry.strip() for entry in value.split(",") if entry.strip()]
        # For Python a star means all hosts, but only if it stands alone. gRPC ignores it.
        if name != "no_grpc_proxy" and known == ["*"]:
            values[name] = value
        else:
            values[name] = ",".join(dict.fromkeys([*known, *hosts]))
    environment.update(values)
