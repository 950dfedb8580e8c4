"""Where the user's files lie: errors name these places, and not the copies in work folders, which are gone by then."""

from __future__ import annotations

_origins: dict[str, str] = {}


def note_origin(path: str, origin: str) -> None:
    """Note where a file of the user's lies."""
    if _origins.setdefault(path, origin) != origin:
        _origins[path] = path  # two jobs of this program have different files there


def origin_of(path: str) -> str:
    """Return where a file lies; the path itself where that is not known, or where there are several."""
    return _origins.get(path, path)
