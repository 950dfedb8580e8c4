"""Jobs that a program starts with plain PyFlink: waiting for them, with errors and progress.

PyFlink does not say which operators are in a job. So the operators of the program are noted when
they are linked, and an operator is shown once a status of it is found while the program waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Union

from bridge.exceptions import ConfigurationError
from bridge.flink.event_time import late_rows
from bridge.host.console import warn
from bridge.interrupts import interrupts_later, waited_for
from bridge.member.registry import forget_groups
from bridge.table_env import planning
from bridge.workarounds.pyflink_defects import log_handlers_kept
from operators.errors.flink_errors import readable
from operators.flink.env import shows_process_output
from operators.flink.rest import Rest
from operators.progress.display import shown
from operators.progress.state import Shown

if TYPE_CHECKING:
    from pyflink.table import StatementSet, TableResult

    Job = Union[StatementSet, TableResult]

# A program may link operators in a loop, so the oldest are forgotten.
_MOST = 1000
# The operators of this program by group, each with the cluster that runs it, in the order in which
# they were linked.
_linked: dict[str, tuple[Shown, Rest | None]] = {}
# Groups whose last job was shown already. Without this set the next job would show them again, with
# the numbers of their end.
_told: set[str] = set()


def waitForJob(job: Job) -> None:
    """Wait until a job of plain PyFlink has ended, and show the progress of its scripts and models;
    Ctrl-C cancels it.

        waitForJob(table_env.execute_sql("INSERT INTO sink SELECT * FROM scored"))
        waitForJob(table.execute_insert("sink"))
        waitForJob(statement_set)

    Args:
        job: What `execute_sql` or `execute_insert` returned, or a StatementSet, which is executed.

    Raises:
        ConfigurationError: It is something else, or a result without a job, such as that of CREATE
            TABLE.
        BridgeError: The job failed, or could not be started.
    """
    name = type(job).__name__
    if name not in ("StatementSet", "StreamStatementSet", "TableResult"):
        raise ConfigurationError(
            f"waitForJob: expected a TableResult or a StatementSet of PyFlink, got a {name}"
        )
    with interrupts_later(), log_handlers_kept():
        try:
            with shown_if_seen(shows_process_output()):
                # A TableResult belongs to a job that runs already, while a StatementSet is planned
                # and started now.
                run_and_wait((lambda: job) if name == "TableResult" else planning()(job.execute))
        except Exception as error:
            raise readable(error) from None


def run_and_wait(start: Callable[[], TableResult]) -> None:
    """Start a job and wait until it has ended; cancel it on an interrupt.

    Called while interrupts are deferred: an interrupt inside PyFlink could be lost in a callback of
    py4j, so `waited_for` raises it where that is safe.
    """
    result = None
    try:
        result = start()
        if result.get_job_client() is None:
            raise ConfigurationError(
                "waitForJob: the result has no job, as that of a statement that inserts nothing"
            )
        waited_for(result.wait)
        tell_late_rows(result)
    except BaseException as error:
        # Only an interrupt, such as Ctrl-C, leaves a job that still runs.
        if result is not None and not isinstance(error, Exception):
            # The job may have ended just now.
            with suppress(Exception):
                result.get_job_client().cancel().result()
        raise


def tell_late_rows(result: TableResult) -> None:
    """Warn of rows that came after their watermark, which Flink drops silently."""
    # The cluster may have forgotten the job, and a report must not fail it.
    with suppress(Exception):
        for text in late_rows(
            result.get_job_client()
            .get_job_execution_result()
            .result()
            .get_all_accumulator_results()
        ):
            warn(text)


def note_linked(operators: Mapping[str, Shown], rest: Rest | None) -> None:
    """Note operators whose progress may be shown, and the cluster that runs them."""
    _linked.update((group, (each, rest)) for group, each in operators.items())
    while len(_linked) > _MOST:
        _told.discard(next(iter(_linked)))
        del _linked[next(iter(_linked))]


def note_told(groups: Mapping[str, Shown]) -> None:
    """Note groups whose job was shown to its end."""
    _told.update(group for group in groups if group in _linked)


@contextmanager
def shown_if_seen(says: bool = False) -> Iterator[None]:
    """Show the progress of linked operators that run while the block runs, or ran without being
    shown.
    """
    if not _linked:
        yield
        return
    # A program may use several clusters. The job that it waits for most probably runs where its
    # last operator was linked.
    _, rest = _linked[next(reversed(_linked))]
    # Each operator has its own object for the same cluster, so their addresses are compared.
    place = repr(rest)
    operators = {group: each for group, (each, where) in _linked.items() if repr(where) == place}
    seen = set()
    try:
        with shown(operators, rest, says, told=frozenset(_told)) as seen:
            yield
    finally:
        _told.update(seen)
        forget_groups(seen)
