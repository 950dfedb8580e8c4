"""Names that were perhaps meant: the one place that guesses them, for messages about names that are unknown."""

import difflib
from typing import Dict, Iterable, List

_LIKENESS = 0.7


def near(name: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> List[str]:
    """Return known names that look like a name, the nearest first; case, "-" and "_" do not count."""
    plain: Dict[str, str] = {}
    for each in known:
        plain.setdefault(_plain(each), each)
    return [plain[found] for found in difflib.get_close_matches(_plain(name), list(plain), most, likeness)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest known name, to be put behind it; "" where none is near."""
    found = near(name, known)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
