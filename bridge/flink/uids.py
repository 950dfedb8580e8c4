"""Names by which Flink finds the state of our operators in a savepoint of an earlier version of the program.

Without names Flink numbers the operators of a graph, so that one more operator makes the state of the others unreachable. A
name consists of the operator's class, its script, and a number among operators of equal class and script in the environment.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

_counts: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


def uids(table_env: Any, *identity: str) -> Callable[[str], str]:
    """Return a function that names the parts of one more operator; `identity` is, for example, its class and its script."""
    words = "-".join(re.sub(r"[^\w.]+", "_", word) for word in identity)
    count = _counts.setdefault(table_env, Counter())
    count[words] += 1
    base = f"akdl-{words}-{count[words]}"
    return lambda part: f"{base}-{part}"
