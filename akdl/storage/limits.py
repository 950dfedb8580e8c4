"""Limits on external data that is read into memory or written to disk. Environment variables raise
them.
"""

from __future__ import annotations

import os
from typing import IO, NamedTuple


class LimitError(ValueError):
    """More bytes than a limit allows; the message names the variable that raises it."""


class Limit(NamedTuple):
    """A bound in units of a variable, which is read at each use."""

    variable: str
    default: int
    unit: str

    def most(self) -> int:
        text = os.environ.get(self.variable, str(self.default))
        try:
            return int(float(text) * {"MB": 1 << 20, "GB": 1 << 30}[self.unit])
        except (ValueError, OverflowError):
            raise LimitError(
                f"{self.variable}: expected a number of {self.unit}, got {text[:40]!r}"
            ) from None

    def check(self, count: int) -> None:
        most = self.most()
        if count > most:
            raise LimitError(
                f"it has more than {most} bytes; if you trust it, set {self.variable} to a higher"
                f" number of {self.unit}"
            )

    def read(self, file: IO[bytes]) -> bytes:
        """Read a file whole; one byte above the limit is requested, to see if there is more."""
        data = file.read(self.most() + 1)
        self.check(len(data))
        return data


DOWNLOAD = Limit("AKDL_DOWNLOAD_GB", 100, "GB")
# Descriptions of pipelines, manifests, statuses, and answers of Flink's REST.
TEXT = Limit("AKDL_TEXT_MB", 64, "MB")
# CSV files that the program itself reads.
TABLE = Limit("AKDL_CSV_MB", 2048, "MB")
# A row group of a Parquet, Arrow or ORC file that decodes to more than 200 times the file.
GROUP = Limit("AKDL_GROUP_MB", 4096, "MB")
# Records of runs.
RECORD = Limit("AKDL_RECORD_MB", 1024, "MB")
