"""Warnings about rows of a script that arrived behind the watermark of its output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

_MARK = "akdl-late-rows"


def late_counter(operator: str, script: str, column: str, carries: bool) -> str:
    """Name of the accumulator of late rows."""
    return json.dumps([_MARK, operator, script, column, carries])


def late_rows(accumulators: Mapping[str, object]) -> Iterator[str]:
    """Yield a warning for each operator with late rows."""
    for name, count in accumulators.items():
        if not name.startswith(f'["{_MARK}"') or not count:
            continue
        _, operator, script, column, carries = json.loads(name)
        reason = (
            "the script wrote other times than it read, or read further rows before it wrote them"
            if carries
            else f"WATERMARK FOR {column} AS SOURCE_WATERMARK() uses the watermarks of the input, which no row overtakes"
        )
        yield (
            f"{operator} ({script}): {count:,} rows arrived behind the watermark of {column!r}, so windows that had closed "
            f"before lack them: {reason}; see docs/streams.md"
        )
