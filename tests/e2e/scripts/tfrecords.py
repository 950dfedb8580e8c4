"""Reads a TFRecord file without TensorFlow; a second user file of the test scripts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from akdl.wire import Example


def examples(path: Any) -> Iterator[Any]:
    with open(path, "rb") as file:
        while True:
            head = file.read(12)
            if not head:
                return
            (length,) = struct.unpack("<Q", head[:8])
            record = file.read(length)
            file.read(4)
            yield Example.FromString(record).features.feature
