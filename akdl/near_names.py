"""Names and values in messages: lists, short forms, and suggestions for unknown names.

All errors about names use it, on both sides, so that they read alike.
"""

import difflib
import numbers
from typing import Dict, Iterable, List

_LIKENESS = 0.7


def listed(names: Iterable[str]) -> str:
    """Quoted names, separated by commas; "none" without any."""
    return ", ".join(map(repr, names)) or "none"


def short(value: object, most: int = 80) -> str:
    """Representation of a value, at most so many characters of it."""
    # not np.float64(0.5), as since numpy 2
    text = str(value) if isinstance(value, numbers.Real) else repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def near(name: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> List[str]:
    """Known names similar to a name, best match first; case, "-" and "_" are ignored."""
    plain: Dict[str, str] = {}
    for each in known:
        plain.setdefault(_plain(each), each)
    return [
        plain[found]
        for found in difflib.get_close_matches(_plain(name), list(plain), most, likeness)
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suffix " (did you mean 'x'?)" for the most similar known name; "" without one."""
    found = near(name, known)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
