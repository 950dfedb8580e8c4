"""Text for this program's console and for log files; failures to write never fail a job."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TextIO

logger = logging.getLogger(__name__)


def say(text: str) -> None:
    print_line(sys.stdout, text)


def warn(text: str) -> None:
    """Print to stderr and to Flink's log: in a local run a function's log is not on the console."""
    logger.warning("%s", text)
    tell(text)


def tell(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced
        print_line(sys.stderr, f"akdl: {text}")


def print_line(stream: TextIO, text: str) -> None:
    """Write and flush; characters that the stream's encoding lacks, as in the locale C, become escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


class LogFile:
    """A log file of lines, for this user only, renamed to `PATH.1` and so on when full; abandoned when it cannot be written."""

    def __init__(self, path: str, most_bytes: int = 100 << 20, most_files: int = 10) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._fd: int | None = None
        self._size = 0
        self._open()

    def write(self, line: str) -> None:
        rest = f"{line}\n".encode("utf-8", "backslashreplace")
        if self._size and self._size + len(rest) > self._most_bytes:
            self._roll()
        self._size += len(rest)
        while self._fd is not None and rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # a network file system may report only now that it is full
                os.close(fd)

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self._give_up(error)

    def _roll(self) -> None:
        if self._fd is None:
            return
        self.close()
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._most_files))]
        try:
            for older, newer in zip(names[:0:-1], names[-2::-1]):
                if os.path.exists(newer):
                    os.replace(newer, older)
        except OSError as error:
            self._give_up(error)
            return
        self._size = 0
        self._open()

    def _give_up(self, error: OSError) -> None:
        logger.warning("cannot write the log file %s, so the job continues without it: %s", self._path, error.strerror)
        self.close()
