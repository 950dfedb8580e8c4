"""Hosts of a group are reached without a proxy."""

from __future__ import annotations

import json
import urllib.request

import pytest

from akdl.process.ranks import bypass_proxies

TF_CONFIG = json.dumps(
    {"cluster": {"chief": ["10.1.2.3:4001"], "worker": ["10.1.2.3:4002", "[2001:db8::7]:4003"]}}
)
HOSTS = "localhost,127.0.0.1,::1,10.1.2.3,2001:db8::7"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"no_proxy": HOSTS, "NO_PROXY": HOSTS, "no_grpc_proxy": HOSTS}),
        (
            {"no_proxy": "corp.example, .lan", "no_grpc_proxy": "10.1.2.3"},
            {
                "no_proxy": f"corp.example,.lan,{HOSTS}",
                "NO_PROXY": f"corp.example,.lan,{HOSTS}",
                "no_grpc_proxy": "10.1.2.3,localhost,127.0.0.1,::1,2001:db8::7",
            },
        ),
        (
            {"NO_PROXY": "corp.example"},
            dict.fromkeys(["no_proxy", "NO_PROXY", "no_grpc_proxy"], f"corp.example,{HOSTS}"),
        ),
        ({"no_proxy": "*"}, {"no_proxy": "*", "NO_PROXY": "*", "no_grpc_proxy": f"*,{HOSTS}"}),
        (
            {"no_proxy": "", "NO_PROXY": "b"},
            {"no_proxy": HOSTS, "NO_PROXY": f"b,{HOSTS}", "no_grpc_proxy": HOSTS},
        ),
    ],
)
def test_the_hosts_of_the_group_are_added(own: dict[str, str], expected: dict[str, str]) -> None:
    environment = {"http_proxy": "http://proxy.example:3128", **own}
    bypass_proxies(environment, TF_CONFIG)
    assert environment == {"http_proxy": "http://proxy.example:3128", **expected}
    bypass_proxies(environment, TF_CONFIG)
    assert {name: environment[name] for name in expected} == expected, "twice is once"


def test_python_honours_the_list_of_hosts_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"no_proxy": "corp.example"}
    bypass_proxies(environment, TF_CONFIG)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hosts = ["10.1.2.3:4001", "localhost:1", "a.corp.example", "10.1.2.4:4001"]
    assert [bool(urllib.request.proxy_bypass(host)) for host in hosts] == [True, True, True, False]
