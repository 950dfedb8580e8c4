"""A line that breaks is a ChannelError, whatever else is gone."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest

from akdl.process.channel import Channel, ChannelError


class Closed:
    """An output that nobody reads any more."""

    def write(self, text: Any) -> None:
        raise BrokenPipeError("nobody reads this")

    def flush(self) -> None:
        raise BrokenPipeError("nobody reads this")


@pytest.mark.parametrize("output", [None, Closed()], ids=["somebody reads", "nobody reads"])
def test_broken_channel_is_an_error_that_names_the_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, output: Closed | None
) -> None:
    channel = Channel(f"unix:{tmp_path}/nobody.sock", "token")
    monkeypatch.setattr(sys, "stderr", output or sys.stderr)
    with pytest.raises(ChannelError, match="the channel to the Flink task broke in Read"):
        next(channel.read())
    channel.close()
