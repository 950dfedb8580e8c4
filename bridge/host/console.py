"""Text for this program's console and for log files.

A failure to write never fails a job: the console may be closed, or a disk full, while the job can
go on without its text.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Literal, TextIO

logger = logging.getLogger(__name__)


def say(text: str) -> None:
    print_line(sys.stdout, text)


def warn(text: str, level: int = logging.WARNING) -> None:
    """Print to stderr and to Flink's log: in a local run a function's log is not on the console."""
    logger.log(level, "%s", text)
    tell(text)


def tell(text: str) -> None:
    """Print to stderr, for the user alone."""
    print_line(sys.stderr, f"akdl: {text}")


def print_line(stream: TextIO, text: str) -> None:
    """Write and flush; characters that the stream's encoding lacks, as in the locale C, become
    escapes. The stream may be closed, replaced or None.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


class LogFile(RotatingFileHandler):
    """A log file of lines, renamed to `PATH.1` and so on when it is full; an existing one goes on.

    It is for this user only, and on YARN for the NodeManager. It is abandoned at the first error,
    with one warning in Flink's log.
    """

    def __init__(self, path: str, most_bytes: int = 100 << 20, most_files: int = 10) -> None:
        self._is_open = True
        self._has_begun = False
        # The file is created with its first line, so a process that prints nothing leaves no file.
        # Of `most_files`, one is the file in use, and the others are its backups.
        super().__init__(
            path, "a", most_bytes, most_files - 1, "utf-8", delay=True, errors="backslashreplace"
        )

    def write(self, line: str) -> None:
        if self._is_open:
            self.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        self._is_open = False
        # A network file system may report only now that it is full.
        with contextlib.suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        logger.warning(
            "cannot write the log file %s, so the job continues without it: %s",
            self.baseFilename,
            sys.exc_info()[1],
        )
        # After the first error nothing is written any more, so a full disk costs one warning and
        # not one for each line.
        self.close()

    def _open(self) -> TextIOWrapper:
        # The first file may have lines of an earlier process of this name, whose job failed. A full
        # file without backups is not renamed, and is replaced.
        mode: Literal["a", "w"] = "w" if self._has_begun else "a"
        self._has_begun = True
        return open(
            self.baseFilename, mode, encoding=self.encoding, errors=self.errors, opener=_open_own
        )


def _open_own(path: str, flags: int) -> int:
    # YARN's NodeManager, which collects the logs of containers, is another user on a cluster with
    # Kerberos. It reads them by the group that it has given to their folder.
    mode = 0o640 if "CONTAINER_ID" in os.environ else 0o600
    # Another user may have planted a link in a folder that both can write to.
    return os.open(path, flags | os.O_NOFOLLOW, mode)
