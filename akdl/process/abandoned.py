"""Abort of TensorFlow operations that wait for a worker that has returned.

A chief in a collective operation otherwise waits for TensorFlow's heartbeat timeout, 13 s, and gets
an error without the cause. A process that makes no progress receives the names of the workers that
have returned with the answer to its report, and ends its own collectives within seconds.
"""

import sys

# TensorFlow's own code for a lost worker, which becomes a tf.errors.UnavailableError.
UNAVAILABLE = 14


def abort_collectives(returned: str) -> bool:
    """Fail collective operations of this process; False without such operations.

    Other operations go on, so a script that needs no worker is not disturbed. Called by the thread
    `akdl-progress` while the main thread waits inside TensorFlow.
    """
    # The module is looked up and not imported: a script without TensorFlow has no collectives, and
    # importing it here would take seconds.
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "context_safe", lambda: None)()
    # TensorFlow has the method since 2.2. Without a server for collectives, no collective operation
    # can wait for another worker.
    abort = getattr(context, "abort_collective_ops", None)
    if abort is None or getattr(context, "_collective_ops_server_def", None) is None:
        return False
    abort(UNAVAILABLE, f"{returned} has returned and does not take part in further operations")
    return True
