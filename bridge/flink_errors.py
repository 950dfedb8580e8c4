"""A failed Flink job, told in one exception.

What reaches the driver is a py4j error with a chain of Java causes, around the text of the Python traceback that started
it. Our own errors are found in that text by their class name; of others, the innermost cause is kept.
"""
from __future__ import annotations

import re

from bridge import exceptions
from bridge.exceptions import BridgeError


class JobError(BridgeError):
    """A Flink job failed for a reason that is not ours; the message is the innermost cause."""


_OURS = {
    name: kind for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, BridgeError)
}
_RAISED = re.compile(r"^(?:bridge\.exceptions\.)?(%s): " % "|".join(_OURS), re.MULTILINE)
_JAVA_GOES_ON = re.compile(r"\n\s*(?:\tat |at org\.|at java\.|Caused by: |\.\.\. \d+ more|Suppressed: )|\n\Z")
_CAUSE = re.compile(r"^Caused by: (.*)$", re.MULTILINE)


def readable(error: Exception) -> Exception:
    """Return the one exception to show for a failed job; errors of our own come back as they are.

    Args:
        error: What running the job raised.
    """
    if isinstance(error, BridgeError):
        return error
    text = str(error)
    raised = _RAISED.search(text)
    if raised is not None:
        return _OURS[raised.group(1)](_JAVA_GOES_ON.split(text[raised.end() :], maxsplit=1)[0].strip())
    causes = _CAUSE.findall(text)
    if not causes:
        return error
    found = JobError(f"the Flink job failed: {_without_python_prefix(text, causes[-1])}")
    found.__cause__ = error
    return found


def _without_python_prefix(text: str, cause: str) -> str:
    """Return the last Java cause, or the Python traceback inside it when there is one."""
    start = text.rfind(cause)
    return _JAVA_GOES_ON.split(text[start:], maxsplit=1)[0].strip()
