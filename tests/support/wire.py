"""A wire between two network interfaces of this machine, which loses, delays and cuts what it
carries. Linux and root only.

Frames go through this program, because kernels without netem (NET_SCH_NETEM) cannot do that to
them.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import select
import socket
import threading
import time
from contextlib import suppress

_ALL_PROTOCOLS = 3  # ETH_P_ALL
# with what the kernel has left to do: checksums, and cutting large frames
_SOL_PACKET, _VNET_HEADER = 263, 15
_LARGEST = 1 << 18
_OUTGOING = 4  # the kind of a frame that was sent here


class Wire:
    """Carries frames from one interface to the other, in both directions, until it is closed.

    Args:
        one: Name of an interface.
        other: Name of the other.
        seed: Of the choice which frames are lost.

    Attributes:
        loss: Share of the frames that are lost.
        delay_s: How long each frame takes.
        is_cut: Nothing passes.
        carried: Frames that have passed.
        lost: Frames that have not.
    """

    def __init__(self, one: str, other: str, seed: int = 0) -> None:
        self.loss, self.delay_s, self.is_cut = 0.0, 0.0, False
        self.carried = self.lost = 0
        self._random = random.Random(seed)
        self._ends = [self._end(name) for name in (one, other)]
        self._wakes, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        os.close(self._wake)
        self._thread.join()
        os.close(self._wakes)
        for end in self._ends:
            end.close()

    def _end(self, name: str) -> socket.socket:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        end.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
        end.setblocking(False)
        end.bind((name, _ALL_PROTOCOLS))
        return end

    def _run(self) -> None:
        underway: list[tuple[float, int, socket.socket, bytes]] = []
        numbers = itertools.count()
        while True:
            wait_s = max(0.0, underway[0][0] - time.monotonic()) if underway else None
            readable, _, _ = select.select([*self._ends, self._wakes], [], [], wait_s)
            if self._wakes in readable:
                return
            for end in readable:
                (target,) = (each for each in self._ends if each is not end)
                for frame in self._frames(end):
                    if self.is_cut or self._random.random() < self.loss:
                        self.lost += 1
                    else:
                        heapq.heappush(
                            underway,
                            (time.monotonic() + self.delay_s, next(numbers), target, frame),
                        )
            while underway and underway[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(underway)
                with suppress(OSError):  # as where the interface is down
                    target.send(frame)
                    self.carried += 1

    def _frames(self, end: socket.socket) -> list[bytes]:
        found = []
        with suppress(OSError):  # there are no more
            while True:
                frame, (_, _, kind, *_) = end.recvfrom(_LARGEST)
                if kind != _OUTGOING:
                    found.append(frame)
        return found
