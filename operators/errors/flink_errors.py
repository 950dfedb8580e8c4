"""One exception for a failed Flink job.

Flink reports a failure as a chain of Java exceptions, in whose text the exception of a Python
worker stands as text too. The exception that a program gets has the error of our own that it finds
there, else the innermost cause with advice; its `details` have the whole text. Errors stay text on
this way, because failures of a user's own Python functions reach the program as text alone, and
their parser is needed in any case.
"""

from __future__ import annotations

import logging
import os
import re

from akdl.masking import masked
from bridge import exceptions
from bridge.exceptions import BridgeError, JobError
from operators.errors.summary import summary_of

logger = logging.getLogger(__name__)

_OURS = {
    name: kind
    for name, kind in vars(exceptions).items()
    if isinstance(kind, type) and issubclass(kind, BridgeError)
}
_RAISED = re.compile(rf"^(?:bridge\.exceptions\.)?({'|'.join(_OURS)}): ", re.MULTILINE)
# Python's text stands inside of Java's, and ends where one of these lines begins.
_JAVA_GOES_ON = re.compile(
    r"\n\s*(?:\tat |at org\.|at java\.|Caused by: |\.\.\. \d+ more|Suppressed: )|\n\Z"
)
_IN_PYTHON = re.compile(
    r"^java\.lang\.RuntimeException: Error received from SDK harness for instruction \d+: "
)
# Flink's planner raises exceptions without a cause.
_ALONE = re.compile(r"\A(org\.apache\.flink\.\S+Exception: .*)$", re.MULTILINE)
_START = re.compile(
    r"RuntimeException: Failed to create stage bundle factory! (.*?)\n\s*\tat org\.", re.DOTALL
)
_UNAVAILABLE = re.compile(r'StatusCode\.UNAVAILABLE\n\s*details = "(.*)"')
# PyFlink leaves constants out of the columns for a vectorized function. With constants alone, its
# ArrowWriter has no column at all, and fails at the first.
_CONSTANTS = re.compile(
    r"ArrayIndexOutOfBoundsException: Index 0 out of bounds for length 0\n\s*\tat"
    r" [\w.]+\.ArrowWriter\.finish\("
)
# py4j writes only ': ' in front of the outermost exception.
_CAUSE = re.compile(r"^(?:Caused by|): (.*)$", re.MULTILINE)

_NO_ANSWER = (
    "The Flink cluster no longer answers: check that its JobManager runs, and whether the job is"
    " still running. If it may be unreachable for longer, raise rest.retry.max-attempts and"
    " rest.retry.delay in config"
)
_NO_COLUMN = (
    "Flink: a vectorized Python function of a query, such as a model_function, has constants alone"
    " as arguments, which PyFlink cannot run. Rows of VALUES with a CAST or another expression"
    " become constants too: write plain literals and cast outside, as in SELECT id, CAST(x AS"
    " FLOAT) AS x FROM (VALUES (1, 1.0)) AS t (id, x), or take the rows from a table"
)
_TOLERABLE = (
    "execution.checkpointing.tolerable-failed-checkpoints sets how many checkpoints may fail"
)
# The first pattern that is found decides, so a special one stands before a general one.
_ADVICE = {
    r"^java.lang.StackOverflowError$": (
        "A very long expression needs more stack than Flink's threads have. Start a program"
        " with a local job with JVM_ARGS=-Xss16m; on a cluster set env.java.opts.all: -Xss16m"
    ),
    r"doesn't support consuming": (
        "The table sends updates of earlier rows, as GROUP BY and JOIN of streams do. Write it"
        " into a table with a primary key, for example of upsert-kafka or jdbc, or group in"
        " windows such as TUMBLE"
    ),
    r"Cannot map checkpoint/savepoint state": (
        "The savepoint is from a job with other operators. Some sinks of SQL are among them"
        " when parallelism, numWorkers or numPSs change from or to 1: use the values of that"
        " job, or see docs/savepoints.md"
    ),
    r"^java\.util\.concurrent\.TimeoutException$": _NO_ANSWER,
    # The JobManager could not send an event to a task that had just failed, and gives this as the
    # job's failure.
    r"TaskNotRunningException": (
        "A task failed so soon after its start that its reason did not reach the JobManager:"
        " the TaskManager's log has it. Run the job again to have the reason here"
    ),
    r"(?s)Exceeded checkpoint tolerable failure threshold.*expired": (
        "A checkpoint waits until scripts have taken the rows before it: is a script too slow"
        f" for execution.checkpointing.timeout? {_TOLERABLE}"
    ),
    r"Exceeded checkpoint tolerable failure threshold": (
        "Is the disk of execution.checkpointing.dir full, or not writable for this user?"
        f" {_TOLERABLE}"
    ),
    r"NoResourceAvailableException": (
        "The job needs more slots than are free, or a TaskManager has ended, as its log says"
    ),
    r"heartbeat of TaskManager": (
        "Has its host or its network failed, or was it stopped? heartbeat.timeout sets how long"
        " Flink waits"
    ),
    r"Async function call has timed out": (
        "A model of ML_PREDICT has not answered in time: is it slow, or does it wait for something?"
        " table.exec.async-ml-predict.timeout sets the limit, '3 min' if unset"
    ),
    r"RuntimeException: Job restarted$": (
        "A program that collects the rows of a job cannot continue when Flink restarts the job,"
        " because rows could arrive twice: write them to a table instead (insertInto(...))."
        " Flink's log has the reason of the restart"
    ),
}


def readable(error: Exception) -> Exception:
    """Return the exception that a program should see in place of one of py4j or Flink.

    Without a cause of Java in its text, the exception itself is returned.
    """
    if isinstance(error, BridgeError):
        return error
    text = str(error)
    # Our own errors are recognized by the line with which Python's traceback ends.
    raised = _RAISED.search(text)
    if raised is not None:
        return _summarized(
            _OURS[raised.group(1)], _JAVA_GOES_ON.split(text[raised.end() :], maxsplit=1)[0].strip()
        )
    reason = _reason(text)
    return error if reason is None else _summarized(JobError, reason)


def script_failure(text: str) -> Exception | None:
    """Translate the text of an exception of Java about a script, or a function of constants; None
    for other exceptions.
    """
    return readable(Exception(text)) if _RAISED.search(text) or _CONSTANTS.search(text) else None


def wants_details() -> bool:
    """Return True if the user wants whole texts in place of summaries."""
    return os.environ.get("AKDL_TRACEBACK") == "full"


def _summarized(kind: type[BridgeError], text: str) -> BridgeError:
    # Passwords are masked before the summary, so that they are not in `details` and the log either.
    text = masked(text)
    error = kind(text if wants_details() else summary_of(text))
    error.details = text
    logger.debug("%s: %s", kind.__name__, text)
    return error


def _reason(text: str) -> str | None:
    """Return the innermost cause of a failure that is not ours, with advice if there is any."""
    causes = _CAUSE.findall(text) or _ALONE.findall(text)
    if not causes:
        return None
    # Java writes the innermost cause last.
    innermost = _JAVA_GOES_ON.split(text[text.rfind(causes[-1]) :], maxsplit=1)[0].strip()
    # The innermost cause has only the error number of the system. The exception around it names the
    # program that could not be run. In a text without the prefix of py4j that may be the first
    # line, which is not among the causes.
    if innermost.startswith("java.io.IOException: error="):
        innermost = [text.split("\n", 1)[0], *causes][-2]
    if _CONSTANTS.search(text):
        return _NO_COLUMN
    in_python = _IN_PYTHON.search(innermost)
    if in_python is not None:
        return f"Flink: a Python function of the job failed:\n{innermost[in_python.end() :]}"
    if innermost.startswith("java.lang.IllegalStateException: Process died with exit code"):
        return _start_of_python(text, innermost)
    if "OutOfMemoryError: Metaspace" in innermost:
        return (
            "Flink: java.lang.OutOfMemoryError: Metaspace. A TaskManager has loaded Flink's Python"
            " library again for each job, and never unloads it: put opt/flink-python-*.jar into the"
            " lib folder of the cluster"
        )
    # Flink's own client has tried several times. A connector of the job raises ConnectException
    # without RetryException, and then the cluster is not at fault.
    if innermost.startswith("java.net.ConnectException") and "FutureUtils$RetryException" in text:
        return f"Flink: {innermost}. {_NO_ANSWER}"
    advice = next(
        (f". {words}" for form, words in _ADVICE.items() if re.search(form, innermost)), ""
    )
    return f"Flink: {innermost.rstrip('.') if advice else innermost}{advice}"


def _start_of_python(text: str, innermost: str) -> str:
    """Return why a Python worker of Flink did not start, from its output: the exit status is that
    of a shell's pipe.
    """
    found = _START.search(text)
    if found is None:
        return f"Flink: {innermost}"
    printed = "\n".join(
        line for line in found.group(1).splitlines() if not line.startswith("INFO:")
    )
    refused = _UNAVAILABLE.search(printed)
    if refused is None:
        return f"Flink: a Python worker did not start on a host of the cluster:\n{printed}"
    return (
        "Flink: a Python worker did not start: it cannot reach its TaskManager on the same host:"
        f" {refused.group(1)}. Is http_proxy or https_proxy set there? gRPC sends calls to the"
        " proxy: set no_proxy=localhost,127.0.0.1 in the environment of the TaskManagers, and"
        " restart them"
    )
