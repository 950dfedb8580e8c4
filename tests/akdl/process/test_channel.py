"""A line that breaks is a ChannelError, whatever else is gone."""

import sys

import pytest

from akdl.process.channel import Channel, ChannelError


class Closed:
    """An output that nobody reads any more."""

    def write(self, text):
        raise BrokenPipeError("nobody reads this")

    def flush(self):
        raise BrokenPipeError("nobody reads this")


@pytest.mark.parametrize("output", [None, Closed()], ids=["somebody reads", "nobody reads"])
def test_a_broken_line(monkeypatch, tmp_path, output):
    channel = Channel(f"unix:{tmp_path}/nobody.sock", "token")
    monkeypatch.setattr(sys, "stderr", output or sys.stderr)
    with pytest.raises(ChannelError, match="the line to the Flink task broke in Read"):
        next(channel.read())
    channel.close()
