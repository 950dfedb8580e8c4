"""End-of-script warnings: errors raised in the script's threads, and files left in the work folder.

Both mistakes leave a script that ends well without what it was meant to do: Python only prints the
error of a thread, and the work folder is removed with its files. The warnings travel with the
outcome and appear in the user's program.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from typing import Any, Sequence

_SHOWN = 5
# Number of source files that `_mentions` reads at most, since a script may bring a whole package.
_LOOKED_AT = 100


class ScriptWarnings:
    """Records errors of the script's threads from now on, and new files after `watch_files`.

    Python 3.7 has no hook for errors in threads, so there only files are found.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: set[str] | None = None
        self._raised: list[str] = []
        # The hook is new in Python 3.8.
        show = getattr(threading, "excepthook", None)
        if show is not None:

            def hook(arguments: Any) -> None:
                # SystemExit ends a thread without an error, and Python prints nothing for it
                # either.
                if arguments.exc_type is not SystemExit:
                    self._raised.append(_described(arguments))
                show(arguments)

            threading.excepthook = hook

    def watch_files(self, kept: Sequence[str] = ()) -> None:
        """Take the present files, and the names `kept` that akdl collects itself, as known."""
        self._known = {*os.listdir(self._folder), *kept}

    def sentences(self) -> list[str]:
        result = [
            f"an error in a thread of the script did not reach main: {text}"
            for text in self._raised[:_SHOWN]
        ]
        if len(self._raised) > _SHOWN:
            result.append(f"{len(self._raised) - _SHOWN} more threads of the script failed")
        left = self._left()
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            result.append(
                f"the script wrote {', '.join(left[:_SHOWN])}{more} to a relative path in its work"
                " folder, which is removed now: use an absolute path to keep files, and"
                " saved_model_dir for models"
            )
        return result

    def _left(self) -> list[str]:
        """New entries of the work folder, unless the script mentions that folder or uses our
        models, which write there.
        """
        # The script may have removed its work folder.
        if self._known is None or not os.path.isdir(self._folder):
            return []
        new = sorted(
            name
            for name in set(os.listdir(self._folder)) - self._known
            if not name.startswith((".", "__"))
        )
        # A script that names its work folder has written there on purpose.
        if not new or self._mentions("work_dir", "akdl.models"):
            return []
        return [
            name + "/" if os.path.isdir(os.path.join(self._folder, name)) else name for name in new
        ]

    def _mentions(self, *words: str) -> bool:
        looked_at = 0
        for place, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(".py") and "/." not in place and looked_at < _LOOKED_AT:
                    looked_at += 1
                    # A warning must not fail a script over a link that leads nowhere.
                    with contextlib.suppress(OSError), open(
                        os.path.join(place, name), encoding="utf-8", errors="replace"
                    ) as file:
                        text = file.read()
                        if any(word in text for word in words):
                            return True
        return False


def _described(arguments: Any) -> str:
    frames = traceback.extract_tb(arguments.exc_traceback)
    where = (
        f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    )
    name = arguments.thread.name if arguments.thread is not None else "unknown"
    text = str(arguments.exc_value)[:300]
    return f"{name}: {arguments.exc_type.__name__}: {text}{where}"
