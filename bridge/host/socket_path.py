"""Unix sockets, where the path allows one."""

from __future__ import annotations

_LONGEST = 100  # bytes; Linux has 107, macOS 103


def address_of(path: str) -> str | None:
    """Address for gRPC of a unix socket; None for a path too long for one, as batch systems have, or that gRPC misreads."""
    # gRPC parses the text after "unix:" as a URI.
    return f"unix:{path}" if path.isascii() and "%" not in path and len(path) <= _LONGEST else None
