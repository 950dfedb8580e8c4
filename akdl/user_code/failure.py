"""Exceptions as data for the channel between processes: any exception, with a limited text.

The first step of an error's path. The message `Failure` crosses the channel, and the bridge raises
it in the job (`bridge/member/script_process.py`). Pickled exceptions would need the classes of
the user's environment on the Flink side, and nothing that crosses a channel is unpickled.
"""

import os
import re
import traceback
from typing import Optional

from akdl.tf_version import missing_keras
from akdl.user_code.remedies import OWN_FOLDER, missing_file, missing_tensorflow
from akdl.wire import Failure

# Bounds of the texts, since a message may contain a whole tensor. `_limited` cuts the middle.
MESSAGE_CHARACTERS = 8_000
TRACEBACK_CHARACTERS = 20_000
# TensorFlow puts the node of its graph in front of a message.
_NODE = re.compile(r"\{\{function_node [^{}]*\}\} *")


def failure_of(error: BaseException, message: Optional[str] = None) -> Failure:
    """Convert an exception to data; its text may be of any length, hold any characters, or raise.

    The traceback begins and ends outside akdl, because the frames of akdl around a script say
    nothing about the script. It omits TensorFlow's graph nodes. AKDL_TRACEBACK=full keeps
    everything.
    """
    # TracebackException holds texts and no frames, so it does not keep the script's variables
    # alive.
    captured = traceback.TracebackException.from_exception(error)
    text = (_text(error) if message is None else message) + missing_keras(error, os.environ)
    trace_text = ""
    if os.environ.get("AKDL_TRACEBACK") == "full":
        trace_text = "".join(captured.format())
    else:
        # Frames of akdl between two frames of the user stay, for example where the script's
        # function is called by a runner of akdl.
        foreign = [
            index
            for index, frame in enumerate(captured.stack)
            if not frame.filename.startswith((OWN_FOLDER, "<frozen importlib"))
        ]
        if foreign:
            captured.stack[:] = captured.stack[foreign[0] : foreign[-1] + 1]
        text, trace_text = _NODE.sub("", text), _NODE.sub("", "".join(captured.format()))
    return Failure(
        type=_plain(type(error).__name__),
        message=_limited(text, MESSAGE_CHARACTERS),
        traceback=_limited(trace_text, TRACEBACK_CHARACTERS),
    )


def _text(error: BaseException) -> str:
    try:
        return str(error) + missing_file(error) + missing_tensorflow(error)
    # `__str__` is code of the user, which may raise anything.
    except BaseException as inner:
        return f"(its text cannot be shown: __str__ raised {type(inner).__name__})"


def _limited(text: str, most: int) -> str:
    """Cut the middle of a text that is longer, and replace characters that UTF-8 cannot encode."""
    if len(text) > most:
        # The larger part is left for the end, where a traceback has its innermost call.
        begin = most * 2 // 5
        left_out = len(text) - most
        text = (
            f"{text[:begin]}\n... ({left_out} characters left out) ...\n{text[left_out + begin :]}"
        )
    return _plain(text)


def _plain(text: str) -> str:
    """Escape half surrogates, which a str can hold and a protobuf string cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
