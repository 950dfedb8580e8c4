"""A file at any address, read once by this program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from akdl.storage.files import FileError, fetch
from bridge.exceptions import refused_at
from bridge.folders.program_folder import scratch_folder


@contextmanager
def fetched(operator: str, address: str) -> Iterator[str]:
    """Provide a local path of the file or folder that `filePath` names while the block runs.

    A remote one is fetched into a scratch folder, which is removed after the block, so the caller
    must have read the file by then.

    Raises:
        ConfigurationError: There is no such file, or the address cannot be reached.
    """
    with scratch_folder() as folder:
        with refused_at(f"{operator}: parameter 'filePath'", FileError):
            path = fetch(address, folder)
        yield path
