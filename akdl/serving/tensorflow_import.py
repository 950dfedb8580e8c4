"""Import of TensorFlow in processes that do not run user code."""

import gc
import sys


def import_tensorflow() -> None:
    """Import TensorFlow, and exclude the objects that exist then from garbage collection.

    Scanning these permanent objects takes a second of processor time at the start and at the end of the process. A user's
    process cannot do this: a file that a script leaves open would not be flushed.
    """
    if "tensorflow" in sys.modules:
        return
    gc.disable()
    try:
        import tensorflow  # noqa: F401
    finally:
        gc.enable()
    gc.freeze()
