"""Abort of TensorFlow operations that wait for a worker that has returned."""

import sys
from typing import Any

UNAVAILABLE = 14  # TensorFlow's own code for a lost worker


def abort_collectives(returned: str) -> bool:
    """Fail collective operations of this process, which would wait for a heartbeat; False without such operations."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "context_safe", lambda: None)()
    abort = getattr(context, "abort_collective_ops", None)  # since TensorFlow 2.2
    if abort is None or getattr(context, "_collective_ops_server_def", None) is None:
        return False
    abort(UNAVAILABLE, f"{returned} has returned and does not take part in further operations")
    return True
