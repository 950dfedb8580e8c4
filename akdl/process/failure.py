"""An exception as data that crosses a line between processes: any exception arrives, and its text has a limit."""

import traceback
from types import TracebackType
from typing import Optional

from akdl.wire import Failure

MESSAGE_CHARACTERS = 8_000
TRACEBACK_CHARACTERS = 20_000


def failure_of(error: BaseException, message: Optional[str] = None, trace: Optional[TracebackType] = None) -> Failure:
    """Return an exception as data.

    Args:
        error: The exception. Its text may be of any length, hold any characters, or raise itself.
        message: What to say instead of its text.
        trace: Where its traceback begins; by default its own.
    """
    lines = traceback.format_exception(type(error), error, trace or error.__traceback__)
    return Failure(
        type=_plain(type(error).__name__),
        message=_limited(_text(error) if message is None else message, MESSAGE_CHARACTERS),
        traceback=_limited("".join(lines), TRACEBACK_CHARACTERS),
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as inner:  # code of the user
        return f"(its text cannot be shown: __str__ raised {type(inner).__name__})"


def _limited(text: str, most: int) -> str:
    """Return the string without what UTF-8 does not have, and without its middle where it is too long."""
    if len(text) > most:
        begin = most * 2 // 5
        left_out = len(text) - most
        text = f"{text[:begin]}\n... ({left_out} characters left out) ...\n{text[left_out + begin :]}"
    return _plain(text)


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
