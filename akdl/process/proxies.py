"""Hosts that are reached without a proxy. TensorFlow's servers and most HTTP clients read these variables."""

import json
from typing import Dict, List, MutableMapping

# Programs read the first of these that is set. gRPC reads only the lower case, Python prefers it, Java reads neither.
_READ = {
    "no_proxy": ("no_proxy", "NO_PROXY"),
    "NO_PROXY": ("NO_PROXY", "no_proxy"),
    "no_grpc_proxy": ("no_grpc_proxy", "no_proxy", "NO_PROXY"),
}
_LOOPBACK = ["localhost", "127.0.0.1", "::1"]


def bypass_proxies(environment: MutableMapping[str, str], tf_config: str) -> None:
    hosts = [*_LOOPBACK, *_hosts(tf_config)]
    values = {}
    for name, read in _READ.items():
        value = next((environment[each] for each in read if each in environment), "")
        known = [entry.strip() for entry in value.split(",") if entry.strip()]
        if name != "no_grpc_proxy" and known == ["*"]:  # all hosts for Python, if alone; not for gRPC
            values[name] = value
        else:
            values[name] = ",".join(dict.fromkeys([*known, *hosts]))
    environment.update(values)


def _hosts(tf_config: str) -> List[str]:
    cluster: Dict[str, List[str]] = json.loads(tf_config)["cluster"]
    return [address.rpartition(":")[0].strip("[]") for addresses in cluster.values() for address in addresses]
