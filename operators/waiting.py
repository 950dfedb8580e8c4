"""Waiting for jobs that a program has started by itself, with errors that are written for the user."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Union

from bridge.exceptions import ConfigurationError
from bridge.flink.errors import readable
from bridge.table_env import planning
from bridge.workarounds import log_handlers_kept

if TYPE_CHECKING:
    from pyflink.table import StatementSet, TableResult

    Job = Union[StatementSet, TableResult]


def waitForJob(job: Job) -> None:
    """Wait until a job of plain PyFlink has ended; Ctrl-C cancels it.

        waitForJob(table_env.execute_sql("INSERT INTO sink SELECT * FROM scored"))
        waitForJob(table.execute_insert("sink"))
        waitForJob(statement_set)

    Args:
        job: What `execute_sql` or `execute_insert` returned, or a StatementSet, which is executed.

    Raises:
        ConfigurationError: It is something else, or a result without a job, such as that of CREATE TABLE.
        BridgeError: The job failed, or could not be started.
    """
    name = type(job).__name__
    if name not in ("StatementSet", "StreamStatementSet", "TableResult"):
        raise ConfigurationError(f"waitForJob: expected a TableResult or a StatementSet of PyFlink, got a {name}")
    with log_handlers_kept():
        try:
            wait_for(_started(job) if name != "TableResult" else job)
        except Exception as error:
            raise readable(error) from None


def wait_for(result: TableResult) -> None:
    """Wait until a job has ended, and cancel it where the wait is interrupted.

    The one place where a program waits for a job whose rows it does not read.
    """
    client = result.get_job_client()
    if client is None:
        raise ConfigurationError("waitForJob: the result has no job, as that of a statement that inserts nothing")
    try:
        result.wait()
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C
            with suppress(Exception):  # it may have ended just now
                client.cancel().result()
        raise


@planning()
def _started(statements: StatementSet) -> TableResult:
    return statements.execute()
