"""Names by which Flink finds the state of our operators in a savepoint of an earlier form of the program.

Without names Flink counts the operators of a graph, and one more anywhere moves the state of all others out of reach. A name
here is made of the operator's class, its script and its place among those of equal class and script in the environment.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

_counts: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


def uids(table_env: Any, *identity: str) -> Callable[[str], str]:
    """Return a function that gives each part of one more operator its name.

    Args:
        identity: What tells the operator from others, such as its class and its script.
    """
    words = "-".join(re.sub(r"[^\w.]+", "_", word) for word in identity)
    count = _counts.setdefault(table_env, Counter())
    count[words] += 1
    base = f"akdl-{words}-{count[words]}"
    return lambda part: f"{base}-{part}"
