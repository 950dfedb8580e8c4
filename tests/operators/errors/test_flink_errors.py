"""One exception from the text of a failed job; that real jobs fail with such texts is shown in
tests/e2e/test_errors.py.
"""

from __future__ import annotations

import pathlib

import pytest

from bridge import exceptions
from bridge.exceptions import BridgeError, JobError, RowError, TaskError
from operators.errors.flink_errors import readable, script_failure
from operators.errors.summary import LINES

# of a real cluster
BEHIND_PROXY = pathlib.Path(__file__).with_name("python_worker_behind_proxy.txt").read_text()
PYTHON = """An error occurred while calling o1.execute.
: org.apache.flink.runtime.client.JobExecutionException: Job execution failed.
\tat org.apache.flink.runtime.jobmaster.JobResult.toJobExecutionResult(JobResult.java:144)
Caused by: java.lang.RuntimeException: Error received from SDK harness for instruction 3: Traceback (most recent call last):
  File "exchange.py", line 9, in on_timer
    raise error
{error}

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.onNext(FnApiControlClient.java:180)
\t... 7 more
"""
JAVA = """An error occurred while calling o1.execute.
: org.apache.flink.runtime.client.JobExecutionException: Job execution failed.
\tat org.apache.flink.runtime.jobmaster.JobResult.toJobExecutionResult(JobResult.java:144)
Caused by: org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy
\tat org.apache.flink.runtime.executiongraph.failover.Handler.handle(Handler.java:180)
Caused by: {error}
\tat StreamExecCalc$19.processElement(Unknown Source)
\t... 12 more
"""


def test_bridge_error_is_returned_unchanged() -> None:
    error = RowError("column 'x'")
    assert readable(error) is error


@pytest.mark.parametrize(
    "name", ["BridgeError", "SchemaError", "RowError", "ConfigurationError", "TaskError"]
)
@pytest.mark.parametrize("module", ["bridge.exceptions.", ""])
def test_an_error_of_ours_is_found_in_the_traceback(name: str, module: str) -> None:
    found = readable(Exception(PYTHON.format(error=f"{module}{name}: what is wrong")))
    assert type(found) is getattr(exceptions, name) and str(found) == "what is wrong"


def test_all_lines_of_a_message_are_kept_and_none_of_java() -> None:
    message = "Op, chief 0 (s.py): the script failed: ValueError: x\nTraceback:\n  File s.py\n\n--- last lines ---\nat last"
    found = readable(Exception(PYTHON.format(error=f"bridge.exceptions.TaskError: {message}")))
    assert (
        type(found) is TaskError
        and found.details == message
        and str(found).endswith("last lines:\n  at last")
    )


def test_the_message_is_short_unless_all_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    message = (
        "Op, chief 0 (s.py): the script failed: ValueError: x\n"
        + "".join(f"more {number}\n" for number in range(99))
        + "end"
    )
    error = Exception(PYTHON.format(error=f"bridge.exceptions.TaskError: {message}"))
    monkeypatch.delenv("AKDL_TRACEBACK", raising=False)
    assert len(str(readable(error)).splitlines()) <= LINES and readable(error).details == message
    monkeypatch.setenv("AKDL_TRACEBACK", "full")
    assert str(readable(error)) == readable(error).details == message


def test_failed_python_function_of_the_user_is_named() -> None:
    found = readable(Exception(PYTHON.format(error="ValueError: bad value 1")))
    assert type(found) is JobError and str(found).startswith(
        "Flink: a Python function of the job failed: ValueError: bad value 1"
    )
    assert (
        "Error received from SDK harness" not in found.details and "org.apache" not in found.details
    )


def test_script_failures_are_told_apart_from_other_java_exceptions() -> None:
    found = script_failure(PYTHON.format(error="bridge.exceptions.TaskError: what is wrong"))
    assert type(found) is TaskError and str(found) == "what is wrong"
    assert script_failure(JAVA.format(error="java.lang.ArithmeticException: / by zero")) is None


def test_a_function_of_constants_alone_is_explained() -> None:
    text = JAVA.format(
        error="java.lang.ArrayIndexOutOfBoundsException: Index 0 out of bounds for length 0\n"
        "\tat org.apache.flink.table.runtime.arrow.ArrowWriter.finish(ArrowWriter.java:62)"
    )
    found = script_failure(text)
    assert (
        type(found) is JobError
        and "has constants alone as arguments" in str(found)
        and "cast outside" in str(found)
    )
    assert script_failure(text.replace("ArrowWriter.finish", "Other.finish")) is None


def test_error_that_only_mentions_ours_is_not_taken_for_one() -> None:
    found = readable(
        Exception(PYTHON.format(error="ValueError: not a bridge.exceptions.TaskError: at all"))
    )
    assert isinstance(found, JobError)


def test_timeout_is_reported_as_a_cluster_that_does_not_answer() -> None:
    found = readable(Exception(JAVA.format(error="java.util.concurrent.TimeoutException")))
    assert (
        isinstance(found, JobError)
        and "no longer answers" in str(found)
        and "rest.retry" in str(found)
    )
    found = readable(
        Exception(
            JAVA.format(
                error="java.util.concurrent.TimeoutException: Timeout has occurred: 300000 ms"
            )
        )
    )
    assert (
        str(found)
        == "Flink: java.util.concurrent.TimeoutException: Timeout has occurred: 300000 ms"
    )


def test_a_cluster_whose_port_is_closed_is_one_that_does_not_answer() -> None:
    retries = "org.apache.flink.util.concurrent.FutureUtils$RetryException: Could not complete the operation"
    refused = "java.net.ConnectException: Connection refused"
    found = readable(
        Exception(
            f"An error occurred while calling o1.x.\n: {retries}\n\tat org.a.B(C.java:1)\nCaused by: {refused}\n"
        )
    )
    assert str(found).startswith(f"Flink: {refused}. The Flink cluster no longer answers")
    # That of a connector of the job is told as it is.
    assert str(readable(Exception(JAVA.format(error=refused)))) == f"Flink: {refused}"


def test_innermost_cause_of_other_errors_is_shown() -> None:
    found = readable(Exception(JAVA.format(error="java.lang.ArithmeticException: / by zero")))
    assert (
        type(found) is JobError and str(found) == "Flink: java.lang.ArithmeticException: / by zero"
    )


def test_single_cause_of_a_call_is_shown() -> None:
    text = "An error occurred while calling o1.x.\n: org.apache.flink.table.api.ValidationException: no table\n\tat org.a.B(C.java:1)\n"
    found = readable(Exception(text))
    assert (
        isinstance(found, BridgeError)
        and str(found) == "Flink: org.apache.flink.table.api.ValidationException: no table"
    )


def test_an_error_without_a_java_cause_stays() -> None:
    error = ValueError("of the program itself")
    assert readable(error) is error


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            "/usr/bin/python: No module named pyflink",
            "Flink: a Python worker did not start on a host of the cluster: /usr/bin/python: No module named pyflink",
        ),
        (
            BEHIND_PROXY,
            "Flink: a Python worker did not start: it cannot reach its TaskManager on the same host: failed to connect",
        ),
    ],
    ids=["no PyFlink", "proxy"],
)
@pytest.mark.fault("network", "A Python worker that does not start is an error with the reason")
def test_python_worker_that_does_not_start_is_explained(printed: str, told: str) -> None:
    """Flink's own last cause is "Process died with exit code 0"."""
    begin = f"java.lang.RuntimeException: Failed to create stage bundle factory! {printed}\n\n\tat org.a.B(C.java:1)\n\t... 7 more\n"
    found = readable(
        Exception(
            JAVA.format(
                error=f"{begin}Caused by: java.lang.IllegalStateException: Process died with exit code 0"
            )
        )
    )
    assert type(found) is JobError and str(found).startswith(told) and "exit code" not in str(found)
    assert ("set no_proxy=localhost" in str(found)) == (printed == BEHIND_PROXY) and len(
        str(found).splitlines()
    ) <= 2


def test_missing_program_is_named() -> None:
    cause = (
        'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory'
    )
    inner = "\n\tat org.a.B(C.java:1)\nCaused by: java.io.IOException: error=2, No such file or directory"
    assert str(readable(Exception(JAVA.format(error=cause + inner)))) == f"Flink: {cause}"
    assert str(readable(Exception(cause + inner))) == f"Flink: {cause}"


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        (
            "java.lang.OutOfMemoryError: Metaspace. Some more advice of Flink's",
            ": put opt/flink-python-*.jar into the lib folder of the cluster",
        ),
        ("java.lang.StackOverflowError", "Start a program with a local job with JVM_ARGS=-Xss16m"),
        (
            "IllegalStateException: Cannot map checkpoint/savepoint state for operator 1",
            "numWorkers or numPSs",
        ),
        (
            "java.lang.RuntimeException: Job restarted",
            "write them to a table instead (insertInto(...))",
        ),
        (
            "FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold. It failed due to Checkpoint expired before.",
            "is a script too slow for execution.checkpointing.timeout?",
        ),
        (
            "FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold. Asynchronous task checkpoint failed.",
            "Is the disk of execution.checkpointing.dir full",
        ),
        (
            "org.apache.flink.runtime.operators.coordination.TaskNotRunningException: Task is not running, but in state FAILED",
            "Run the job again",
        ),
        (
            "java.util.concurrent.TimeoutException: The heartbeat of TaskManager with id 1 timed out.",
            "its network failed",
        ),
        (
            "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum required "
            "resources.",
            "a TaskManager has ended, as its log says",
        ),
    ],
)
def test_remedies_are_added_to_errors_of_flink(cause: str, advice: str) -> None:
    found = readable(Exception(JAVA.format(error=cause)))
    assert (
        type(found) is JobError
        and str(found).startswith(f"Flink: {cause.split('. ')[0].rstrip('.')}. ")
        and advice in str(found)
    )
    assert "Some more" not in str(found)


def test_an_error_of_the_planner_alone_is_one_line() -> None:
    planner = (
        "org.apache.flink.table.api.TableException: Table sink 's' doesn't support consuming update changes which is produced by "
        "node GroupAggregate(groupBy=[k])\n\tat org.apache.flink.table.planner.X.createNewNode(X.scala:545)\n\tat scala.Y.map(Y.scala)"
    )
    found = readable(Exception(planner))
    assert type(found) is JobError and "\n" not in str(found)
    assert str(found).startswith("Flink: org.apache.flink.table.api.TableException: Table sink 's'")
    assert "Write it into a table with a primary key" in str(found)
