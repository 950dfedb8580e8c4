"""Descriptions of process failures, and recognition of consequences of other failures. Pure.

When one process of a group ends, TensorFlow fails in all others with errors about connections. Such
an error is held back for some seconds, so that the job reports the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from akdl.process.parent import CHANNEL_CLOSED, REFUSED_ROWS
from akdl.process.preflight import UNUSABLE
from akdl.wire import Failure
from bridge.host.process import describe_exit

# All versions of TensorFlow raise these when the process at the other end of a connection has ended
# or given up.
_TYPES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
_WORDS = re.compile(
    r"connection (reset|refused)|socket closed|failed to connect|recvmsg|broken pipe|coordination"
    r" service|"
    r"peer|remote (task|worker)|worker .* (is down|may be)|collective ops? (is )?aborted",
    re.IGNORECASE,
)


def comes_from_a_peer(failure: Failure | None, last_lines: Sequence[str]) -> bool:
    """Return True when a failure, None for a death without a report, may be the consequence of
    another process's failure.
    """
    # TensorFlow may end the process itself, and then only its last lines have the reason.
    if failure is None:
        return any(_WORDS.search(line) for line in last_lines[-20:])
    return failure.type in _TYPES or (
        failure.type.endswith("Error") and bool(_WORDS.search(failure.message))
    )


def describe_failure(failure: Failure) -> str:
    """Words for an exception of a script. Messages of a ScriptError are ours, and need no type."""
    what = (
        failure.message if failure.type == "ScriptError" else f"{failure.type}: {failure.message}"
    )
    return f"the script failed: {what}"


def describe_desertion(returned: Sequence[str]) -> str:
    """Return the likely cause of a TensorFlow error when other workers had returned; "" without
    such workers.
    """
    if not returned:
        return ""
    return (
        f"Before this error, the script had returned in {', '.join(returned)}. With"
        " MultiWorkerMirroredStrategy, a training step, an evaluation and model.save need a call"
        " in each worker: make the same calls in all workers. Workers other than the chief save to"
        " a folder in task_config.work_dir"
    )


def describe_death(status: int, connected: bool, lines_before: str = "") -> str:
    """Words for a process that has ended without an outcome.

    Args:
        status: Exit status, negative for a signal. Some have a meaning of ours.
        connected: The process had reached its bridge, so its script may have begun.
        lines_before: Sentence about lines that its Python runs before all other code.
    """
    if status == UNUSABLE:
        return "its Python environment cannot be used; the last line of its output has the reason"
    if status == REFUSED_ROWS:
        return (
            "the script wrote rows after its main had returned, in a thread or an exit handler."
            " Wait in main until all rows are written, for example with thread.join()"
        )
    if status == CHANNEL_CLOSED:
        return (
            "the script has closed file descriptors that it did not open, and with them its"
            " connection to Flink. Close only the script's own descriptors: os.closerange(3, n)"
            " closes all of them"
        )
    if connected:
        return f"the process {describe_exit(status)} before the script had ended"
    lines_before = lines_before or ". Is its Python environment complete?"
    return f"the process {describe_exit(status)} before it could start the script{lines_before}"


def paragraphs(*parts: str) -> str:
    """Join the parts of an error that are not blank, a line of its own for each."""
    return "\n".join(part.strip("\n") for part in parts if part.strip())
