"""Paths of the user's own files, which errors name instead of the copies in work folders, which are removed by then."""

from __future__ import annotations

_sources: dict[str, str] = {}


def note_source_path(path: str, source: str) -> None:
    if _sources.setdefault(path, source) != source:
        _sources[path] = path  # two jobs of this program have different files at this path


def source_path(path: str) -> str:
    return _sources.get(path, path)
