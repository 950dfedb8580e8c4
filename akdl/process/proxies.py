"""Hosts that are reached without a proxy, in the variables that gRPC and HTTP clients read.

TensorFlow's servers send the calls of a group through `http_proxy` where that is set. The calls
then wait at the proxy until the group is declared stuck.
"""

import itertools
import json
from typing import MutableMapping

# Programs read the first of these that is set. gRPC reads only the lower case, Python prefers it,
# Java reads neither.
_READ = {
    "no_proxy": ("no_proxy", "NO_PROXY"),
    "NO_PROXY": ("NO_PROXY", "no_proxy"),
    "no_grpc_proxy": ("no_grpc_proxy", "no_proxy", "NO_PROXY"),
}
_LOOPBACK = ["localhost", "127.0.0.1", "::1"]


def bypass_proxies(environment: MutableMapping[str, str], tf_config: str) -> None:
    """Add the hosts of the group to the variables, before TensorFlow reads them.

    Values of the user stay in front. All names are set, because a program that finds one of them
    ignores the others.
    """
    addresses = itertools.chain.from_iterable(json.loads(tf_config)["cluster"].values())
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
