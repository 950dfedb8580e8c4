"""The import of TensorFlow in processes of ours, in which no code of users runs."""

import gc
import sys


def import_tensorflow() -> None:
    """Import TensorFlow, and let the garbage collector leave all alone that is there then.

    To look through its objects, which stay, takes a second of processor time, at the start and at the end of the process. A
    user's process cannot do it: a file that a script has open would not be written to the end.
    """
    if "tensorflow" in sys.modules:
        return
    gc.disable()
    try:
        import tensorflow  # noqa: F401
    finally:
        gc.enable()
    gc.freeze()
