"""Why a process failed, in words; and whether the reason is rather to be found in another process of its group. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from akdl.process.parent import CHANNEL_CLOSED, REFUSED_ROWS
from akdl.process.preflight import UNUSABLE
from akdl.wire import Failure
from bridge.host.process import describe_exit

# What TensorFlow raises, in every version, when a process that it talks to is gone or gives up.
_TYPES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
_WORDS = re.compile(
    r"connection (reset|refused)|socket closed|failed to connect|recvmsg|broken pipe|coordination service|"
    r"peer|remote (task|worker)|worker .* (is down|may be)|collective ops? (is )?aborted",
    re.IGNORECASE,
)


def comes_from_a_peer(failure: Failure | None, last_lines: Sequence[str]) -> bool:
    """Whether a failure may be the echo of another process's failure.

    Args:
        failure: The failure that the script reported; None when its process died without a report.
    """
    if failure is None:
        return any(_WORDS.search(line) for line in last_lines[-20:])
    return failure.type in _TYPES or (failure.type.endswith("Error") and bool(_WORDS.search(failure.message)))


def describe_failure(failure: Failure) -> str:
    """Return what a script reported, without its traceback."""
    what = failure.message if failure.type == "ScriptError" else f"{failure.type}: {failure.message}"
    return f"the script failed: {what}"


def describe_desertion(returned: Sequence[str]) -> str:
    """Return the likely cause of an error that TensorFlow raised because another process was gone; "" where none has ended."""
    if not returned:
        return ""
    return (
        f"Before this error, the script had returned in {', '.join(returned)}. Operations of all workers, such as a step, an "
        "evaluation or model.save with MultiWorkerMirroredStrategy, need a call in each worker: make the same calls in all of "
        "them; workers other than the chief save into a folder in task_config.work_dir"
    )


def describe_death(status: int, connected: bool) -> str:
    """Return how a process ended that reported nothing."""
    if status == UNUSABLE:
        return "its Python environment cannot be used, see the last line"
    if status == REFUSED_ROWS:
        return (
            "the script wrote rows after its main had returned, in a thread or an exit handler: main has to wait for whoever "
            "writes, for example with thread.join()"
        )
    if status == CHANNEL_CLOSED:
        return (
            "the script has closed file descriptors that it did not open, and with them the line to Flink: it may close its "
            "own, but not all, as os.closerange(3, n) does"
        )
    if connected:
        return f"the process {describe_exit(status)} before the script had ended"
    return f"the process {describe_exit(status)} before it could start the script; is its environment complete?"


def paragraphs(*parts: str) -> str:
    """Join what is not empty."""
    return "\n".join(part.strip("\n") for part in parts if part.strip())
