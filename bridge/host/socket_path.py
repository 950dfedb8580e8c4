"""Unix sockets, where the path allows one."""

from __future__ import annotations

_LONGEST = 100  # bytes; Linux has 107, macOS 103


def address_of(path: str) -> str | None:
    """Return the gRPC address of a unix socket at a path; None where the path is too long for one, or gRPC could not read it.

    Batch systems and macOS have folders for temporary files with long paths.
    """
    # gRPC takes what follows "unix:" for a URI.
    return f"unix:{path}" if path.isascii() and "%" not in path and len(path) <= _LONGEST else None
