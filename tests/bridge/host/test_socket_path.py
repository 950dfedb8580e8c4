"""Which paths can be those of unix sockets."""

from __future__ import annotations

import pytest

from bridge.host.socket_path import address_of


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/tmp/model.sock", "unix:/tmp/model.sock"),
        ("/" + 99 * "x", "unix:/" + 99 * "x"),
        ("/" + 100 * "x", None),
        ("/tmp/ü", None),
        ("/tmp/%41", None),
    ],
)
def test_address_of(path: str, address: str | None) -> None:
    assert address_of(path) == address
