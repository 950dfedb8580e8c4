"""A spare process, seen from the process itself: it imports TensorFlow, then waits for a script.

Of 3.8 s of a further job in one program, the import of TensorFlow took 1.6 s.
`bridge/member/spare.py` starts and chooses the process; only local runs have one.

The end of a Python that has imported TensorFlow takes 0.6 s, since two garbage collections look
through its 300,000 objects. They are frozen here, before the script's module exists, and the
process ends in 0.1 s. Frozen later, or left by `os._exit`, it would lose what the script has not
flushed to its files.
"""

import contextlib
import importlib
import json
import os
import re
import select
import sys
from typing import Dict

from akdl.process.preflight import SPARE_FD
from akdl.tf_version import import_tensorflow

# A spare ends after this time. Usually its parent ends it earlier by closing the pipe, but a fork
# of the parent may hold the other end open.
LONGEST_S = 600.0

# Words of scripts that may set variables, which TensorFlow reads while it is imported.
_SETS_VARIABLES = re.compile(rb"environ|putenv|setenv|dotenv|\bexec\b")


def wait_for_script(environment: "os._Environ[str]") -> None:
    """Import TensorFlow, wait for the script's variables, and return to the start of a process.

    The process executes Python again where the script might find something else in a new process,
    for example a module of its own with the name of one that is loaded. It ends without a script.
    """
    pipe = int(environment.pop(SPARE_FD))
    # An environment whose TensorFlow cannot be imported may still run scripts without it. The
    # script's own import raises the error again.
    with contextlib.suppress(Exception):
        import_tensorflow()
    sent = _sent(pipe)
    # The parent has ended, or has no script for this process. os._exit, because no script has run
    # that may have something to flush.
    if not sent:
        os._exit(0)
    environment.update(sent)
    # The import system caches the listing of folders, and the script's files came after the import.
    importlib.invalidate_caches()
    # The new Python has the variables from its start, and its environment has no SPARE_FD any more,
    # so it does not wait again.
    if _is_affected(os.getcwd()):
        os.execv(sys.executable, [sys.executable, "-m", "akdl.process.preflight", "akdl.entry"])


def _sent(pipe: int) -> Dict[str, str]:
    """Wait for the variables of a script, in one line; an empty dict without one."""
    with os.fdopen(pipe, "rb") as file:
        # A fork of the parent may hold the other end open, so the end of the pipe may not come.
        content = file.readline() if select.select([file], [], [], LONGEST_S)[0] else b""
    return dict(json.loads(content or b"{}"))


def _is_affected(folder: str) -> bool:
    """True where files of the user's have names of modules that are loaded, or may set variables
    before an import.
    """
    loaded = {name.partition(".")[0] for name in sys.modules}
    for parent, folders, names in os.walk(folder):
        # The private folder has a copy of akdl, whose modules are loaded here anyway.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in [*folders, *names]:
            if name.partition(".")[0] in loaded:
                return True
            if name.endswith(".py"):
                # A link that leads nowhere sets no variables.
                with contextlib.suppress(OSError), open(os.path.join(parent, name), "rb") as file:
                    if _SETS_VARIABLES.search(file.read()):
                        return True
    return False
