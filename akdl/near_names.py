"""Names and values in messages: lists, short forms, and suggestions for unknown names.

All errors about names use it, on both sides, so that they read alike.
"""

import difflib
import numbers
from typing import Dict, Iterable, List

# The least ratio of `difflib` at which a name is suggested; its own default is 0.6.
_LIKENESS = 0.7


def listed(names: Iterable[str]) -> str:
    """Quoted names, separated by commas; "none" without any."""
    return ", ".join(map(repr, names)) or "none"


def short(value: object, most: int = 80) -> str:
    """Representation of a value, at most so many characters of it."""
    # The repr of a number of numpy 2 is "np.float64(0.5)", which says more than a reader needs.
    text = str(value) if isinstance(value, numbers.Real) else repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def near(name: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> List[str]:
    """Known names similar to a name, best match first; case, "-" and "_" are ignored."""
    plain: Dict[str, str] = {}
    for each in known:
        # Of several names that differ in case or signs only, the first one is suggested.
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
