"""A failed Flink job, told in one exception.

What reaches the driver is a py4j error with a chain of Java causes, around the text of the Python traceback that started
it. Our own errors are found in that text by their class name; of others, the innermost cause is kept. The exception has a short
form of that as its message, all of it as `details`, and Flink's log has all of it too.
"""

from __future__ import annotations

import logging
import os
import re

from akdl.masking import masked
from bridge import exceptions
from bridge.errors.summary import brief
from bridge.exceptions import BridgeError, JobError

logger = logging.getLogger(__name__)

_OURS = {name: kind for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, BridgeError)}
_RAISED = re.compile(rf"^(?:bridge\.exceptions\.)?({'|'.join(_OURS)}): ", re.MULTILINE)
_JAVA_GOES_ON = re.compile(r"\n\s*(?:\tat |at org\.|at java\.|Caused by: |\.\.\. \d+ more|Suppressed: )|\n\Z")
_IN_PYTHON = re.compile(r"^java\.lang\.RuntimeException: Error received from SDK harness for instruction \d+: ")
_ALONE = re.compile(r"\A(org\.apache\.flink\.\S+Exception: .*)$", re.MULTILINE)  # as Flink's planner raises it
_START = re.compile(r"RuntimeException: Failed to create stage bundle factory! (.*?)\n\s*\tat org\.", re.DOTALL)
_UNAVAILABLE = re.compile(r'StatusCode\.UNAVAILABLE\n\s*details = "(.*)"')
_CAUSE = re.compile(r"^(?:Caused by|): (.*)$", re.MULTILINE)  # py4j puts ': ' alone before the outermost


def readable(error: Exception) -> Exception:
    """Return the one exception to show for a failed job; errors of our own come back as they are."""
    if isinstance(error, BridgeError):
        return error
    text = str(error)
    raised = _RAISED.search(text)
    if raised is not None:
        return _brief(_OURS[raised.group(1)], _JAVA_GOES_ON.split(text[raised.end() :], maxsplit=1)[0].strip())
    reason = _reason(text)
    return error if reason is None else _brief(JobError, reason)


def is_a_failed_script(error: BaseException) -> bool:
    """Whether an exception of Py4J, as plain PyFlink raises it, is about an error of ours."""
    return type(error).__name__ == "Py4JJavaError" and _RAISED.search(str(error)) is not None


def wants_details() -> bool:
    """Whether errors are to be shown whole."""
    return os.environ.get("AKDL_TRACEBACK") == "full"


def _brief(kind: type[BridgeError], text: str) -> BridgeError:
    text = masked(text)
    error = kind(text if wants_details() else brief(text))
    error.details = text
    logger.debug("%s: %s", kind.__name__, text)
    return error


def _reason(text: str) -> str | None:
    """Return the innermost cause in the text of a Java exception, and what to do where Flink does not say it."""
    causes = _CAUSE.findall(text) or _ALONE.findall(text)
    if not causes:
        return None
    innermost = _JAVA_GOES_ON.split(text[text.rfind(causes[-1]) :], maxsplit=1)[0].strip()
    if innermost.startswith("java.io.IOException: error="):  # the cause around it names the program
        innermost = causes[-2]
    in_python = _IN_PYTHON.search(innermost)
    if in_python is not None:
        return f"Flink: a Python function of the job failed:\n{innermost[in_python.end() :]}"
    if innermost.startswith("java.lang.IllegalStateException: Process died with exit code"):
        return _start_of_python(text, innermost)
    if "OutOfMemoryError: Metaspace" in innermost:
        return (
            "Flink: java.lang.OutOfMemoryError: Metaspace. A TaskManager has loaded Flink's Python library for each job anew, "
            "and never unloads it: put opt/flink-python-*.jar into the lib folder of the cluster"
        )
    if innermost == "java.lang.StackOverflowError":
        innermost += (
            ". A CSV file of a thousand columns, or a very long expression, needs more stack than Flink's threads have. "
            "Start a program with a local job with JVM_ARGS=-Xss16m; on a cluster set env.java.opts.all: -Xss16m"
        )
    if "doesn't support consuming" in innermost:
        innermost += (
            ". The table changes, as GROUP BY and JOIN of streams make it: it sends updates of earlier rows. Write it into a "
            "table with a primary key, such as one of upsert-kafka or jdbc, or group in windows, such as those of TUMBLE"
        )
    if "Cannot map checkpoint/savepoint state" in innermost:
        innermost += (
            ". The savepoint is of a job with other operators, parallelism, numWorkers or numPSs: take those of that job, or "
            "start without the savepoint"
        )
    # Flink's client gives up: it has waited, or nobody takes the connection. Connectors of a job know no RetryException.
    is_refused = innermost.startswith("java.net.ConnectException") and "FutureUtils$RetryException" in text
    if innermost == "java.util.concurrent.TimeoutException" or is_refused:
        innermost += (
            ". The Flink cluster no longer answers: see whether its JobManager runs, and whether the job goes on. Where it may "
            "be away for longer, raise rest.retry.max-attempts and rest.retry.delay in config"
        )
    if "Exceeded checkpoint tolerable failure threshold" in innermost:
        innermost += (
            " They wait until scripts take the rows before them: is a script too slow for execution.checkpointing.timeout?"
            if "expired" in innermost
            else " Is there room at execution.checkpointing.dir, and may this user write there?"
        )
        innermost += " execution.checkpointing.tolerable-failed-checkpoints sets how many may fail"
    if "heartbeat of TaskManager" in innermost:
        innermost += " Has its host or its network failed, or was it stopped? heartbeat.timeout sets how long Flink waits"
    if innermost.endswith("RuntimeException: Job restarted"):
        innermost += (
            ". A program that collects the rows of a job cannot go on when Flink restarts it, as rows could come twice: write "
            "them to a table instead (insertInto(...)); why it restarted stands in Flink's log"
        )
    return f"Flink: {innermost}"


def _start_of_python(text: str, innermost: str) -> str:
    """Return why a Python worker of Flink did not start, by its output: its exit status is that of a shell's pipe."""
    found = _START.search(text)
    if found is None:
        return f"Flink: {innermost}"
    printed = "\n".join(line for line in found.group(1).splitlines() if not line.startswith("INFO:"))
    refused = _UNAVAILABLE.search(printed)
    if refused is None:
        return f"Flink: a Python worker did not start on a host of the cluster:\n{printed}"
    return (
        f"Flink: a Python worker did not start: it cannot reach its TaskManager on the same host: {refused.group(1)}. Is "
        "http_proxy or https_proxy set there? gRPC sends calls to the proxy: set no_proxy=localhost,127.0.0.1 in the "
        "environment of the TaskManagers, and start them again"
    )
