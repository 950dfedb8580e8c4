"""Files that appear when they are whole, also in folders that other users may write to."""

import os
import secrets
from typing import IO, Any, Callable, Optional

ENDING = ".incomplete"


class WholeFile:
    """A file that takes the place of another one when it is whole.

    Until then it has a random name in the same folder: nobody can have made a file or a link of that name before, through which
    something else would be overwritten.

    Attributes:
        file: The open file, for bytes. Its name is that of the unfinished file.
    """

    def __init__(self, path: str, opener: Optional[Callable[[str, int], int]] = None) -> None:
        self._path = path
        self.file: IO[bytes] = open(f"{path}.{secrets.token_hex(8)}{ENDING}", "xb", opener=opener)

    def finish(self) -> None:
        """Close the file and give it its name."""
        self.file.close()
        os.replace(self.file.name, self._path)

    def abandon(self) -> None:
        """Close the file and remove it."""
        self.file.close()
        os.unlink(self.file.name)

    def __enter__(self) -> IO[bytes]:
        return self.file

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()
