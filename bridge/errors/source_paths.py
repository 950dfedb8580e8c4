"""Paths of the user's own files, by their paths in work folders.

A traceback names the copy in a work folder, which is removed when a person reads the error.
Summaries name the original instead.
"""

from __future__ import annotations

_sources: dict[str, str] = {}


def note_source_path(path: str, source: str) -> None:
    """Note the original of a user file, whose `path` is relative to each work folder."""
    # Two jobs of this program may have different files at this path. The path then stands for
    # itself, because either original could be the wrong one.
    if _sources.setdefault(path, source) != source:
        _sources[path] = path


def source_path(path: str) -> str:
    """Return the original of a user file, or `path` itself if it is unknown or ambiguous."""
    return _sources.get(path, path)
