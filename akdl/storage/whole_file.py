"""Files that appear once they are complete, also in folders that other users may write to.

Processes of a host read each other's files (addresses, statuses, stalled rows) at any moment, so a
file that grows in its place would be read in part.
"""

from __future__ import annotations

import os
import secrets
from typing import IO, Callable

ENDING = ".incomplete"


class WholeFile:
    """Replaces a file once the new content is complete; after an error the old content stays.

    Until then the file has a random name, which must be new: another user could have prepared a
    link of a fixed name, through which the content would overwrite another file.
    """

    def __init__(self, path: str, opener: Callable[[str, int], int] | None = None) -> None:
        self._path = path
        self.file = open(f"{path}.{secrets.token_hex(8)}{ENDING}", "xb", opener=opener)

    def finish(self) -> None:
        self.file.close()
        # `replace` is atomic, so a reader finds either the old content or the new one.
        os.replace(self.file.name, self._path)

    def abandon(self) -> None:
        self.file.close()
        os.unlink(self.file.name)

    def __enter__(self) -> IO[bytes]:
        return self.file

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()
