"""Rows of a script that came behind the watermark of its output: what the result of a job says of them, for the user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

_MARK = "akdl-late-rows"


def late_counter(operator: str, script: str, column: str, carries: bool) -> str:
    """Return the name of the accumulator that counts them."""
    return json.dumps([_MARK, operator, script, column, carries])


def late_rows(accumulators: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each operator with rows that were late."""
    for name, count in accumulators.items():
        if not name.startswith(f'["{_MARK}"') or not count:
            continue
        _, operator, script, column, carries = json.loads(name)
        reason = (
            "the script wrote other times than it read, or had read on before it wrote them"
            if carries
            else f"WATERMARK FOR {column} AS SOURCE_WATERMARK() takes the watermarks of the input, which no row overtakes"
        )
        yield (
            f"{operator} ({script}): {count:,} rows came behind the watermark of {column!r}, and windows that had closed "
            f"before are without them: {reason}; see docs/streams.md"
        )
