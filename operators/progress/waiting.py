"""Waiting for jobs that a program has started, with readable errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Union

from bridge.errors.flink_errors import readable
from bridge.exceptions import ConfigurationError
from bridge.flink.event_time import late_rows
from bridge.host.console import warn
from bridge.interrupts import interrupts_later, waited_for
from bridge.table_env import planning
from bridge.workarounds.pyflink_defects import log_handlers_kept
from operators.flink.env import shows_process_output
from operators.progress.linked import shown_if_seen

if TYPE_CHECKING:
    from pyflink.table import StatementSet, TableResult

    Job = Union[StatementSet, TableResult]


def waitForJob(job: Job) -> None:
    """Wait until a job of plain PyFlink has ended, and show the progress of its scripts and models; Ctrl-C cancels it.

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
    with interrupts_later(), log_handlers_kept():
        try:
            with shown_if_seen(shows_process_output()):
                run_and_wait((lambda: job) if name == "TableResult" else planning()(job.execute))
        except Exception as error:
            raise readable(error) from None


def run_and_wait(start: Callable[[], TableResult]) -> None:
    """Start a job and wait until it has ended; cancel it on an interrupt. Called where interrupts are kept."""
    result: TableResult | None = None
    try:
        result = start()
        if result.get_job_client() is None:
            raise ConfigurationError("waitForJob: the result has no job, as that of a statement that inserts nothing")
        waited_for(result.wait)
        tell_late_rows(result)
    except BaseException as error:
        if result is not None and not isinstance(error, Exception):  # Ctrl-C
            with suppress(Exception):  # it may have ended just now
                result.get_job_client().cancel().result()
        raise


def tell_late_rows(result: TableResult) -> None:
    with suppress(Exception):  # the cluster may have forgotten the job; a report must not fail it
        for text in late_rows(result.get_job_client().get_job_execution_result().result().get_all_accumulator_results()):
            warn(text)
