"""Jobs of operators and the environments that they run in.

`running` surrounds every job that an operator starts. Jobs that a program starts with plain PyFlink
have their counterpart in `operators/progress/waiting.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.host.process_folder import release
from bridge.host.shipped import runs_elsewhere
from bridge.interrupts import waited_for
from bridge.member.registry import begin_groups, forget_groups, stop_groups
from bridge.schema import Schema
from bridge.table_env import parallelism_of
from bridge.workarounds.pyflink_defects import (
    columns_of,
    forget_ended_clusters,
    know_zone,
    log_handlers_kept,
)
from operators.alink.java_times import zone_of
from operators.errors.flink_errors import readable
from operators.flink.env import shows_process_output
from operators.flink.slots import Need, check_slots, rest_of
from operators.progress.display import shown
from operators.progress.state import Shown
from operators.progress.waiting import note_told

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_JOB_NAME = "pipeline.name"


class Elastic(NamedTuple):
    """A group that trains with `least` to `most` workers; `resize` sets their number for the next
    job.
    """

    name: str
    least: int
    most: int
    servers: int
    wait_s: float
    checkpoint_dir: str
    resize: Callable[[int], None]

    def workers_in(self, slots: int | None) -> int:
        """Number of workers for this many free slots; None stands for slots on demand."""
        return self.most if slots is None else max(self.least, min(self.most, slots - self.servers))


class JobTable:
    """A table, and what a job of it starts.

    It inherits the groups and models of all tables before it (`_include`), because a job has to
    start, show and stop the processes of its whole graph.
    """

    def __init__(self) -> None:
        self._table: Table | None = None
        # Groups of processes that a job of this table starts, with the slots that each needs.
        self._groups: dict[str, Need] = {}
        # Operators whose progress is shown while a job runs, by group.
        self._shown: dict[str, Shown] = {}
        # Groups that train with any number of workers within a range.
        self._elastic: dict[str, Elastic] = {}
        # Model processes that a job of this table starts.
        self._models: frozenset[str] = frozenset()

    def getOutputTable(self) -> Table:
        """Return the plain PyFlink table, for use in SQL or the Table API."""
        if self._table is None:
            raise ConfigurationError(
                f"{type(self).__name__} has no table yet: link it to its input first"
            )
        return self._table

    @property
    def _table_env(self) -> StreamTableEnvironment:
        """The environment of this operator's table, in which its jobs run. PyFlink keeps it in a
        private attribute.
        """
        table_env: StreamTableEnvironment = self.getOutputTable()._t_env
        return table_env

    def _include(self, *ops: JobTable) -> None:
        """Register that a job of this table starts the processes of these operators too."""
        for op in ops:
            self._groups.update(op._groups)
            self._shown.update(op._shown)
            self._elastic.update(op._elastic)
            self._models |= op._models


@contextmanager
def running(op: JobTable) -> Iterator[None]:
    """Surround a job with its progress display and readable errors.

    Called from the thread of the user, while interrupts are deferred. All processes of the job are
    stopped afterwards, also after success: PyFlink does not interrupt a blocked Python function of
    a local job, so a cancelled job would leave its scripts running.
    """
    groups = op._groups.keys() | op._models
    with log_handlers_kept():
        try:
            # Two threads may run jobs of one table. The registry counts them, so that the first
            # job that ends does not stop the processes of the other.
            begin_groups(groups)
            if op._groups:
                table_env = op._table_env
                waited_for(
                    lambda: check_slots(table_env.get_config(), needs_of(table_env, op._groups))
                )
            with _shown(op):
                yield
        except Exception as error:
            # The Java exceptions behind the error fill pages, so the short error stands alone.
            raise readable(error) from None
        finally:
            # The processes end before the registry forgets them, since it could not find them
            # later.
            ended = stop_groups(groups)
            forget_groups(groups)
            # `waitForJob` would otherwise show the end of this job again, as the progress of the
            # next one.
            note_told(op._shown)
            release(op._models & ended)
            # Without this line each local job leaves hooks and threads in the program, which a soak
            # test found.
            forget_ended_clusters()


def needs_of(table_env: StreamTableEnvironment, groups: Mapping[str, Need]) -> list[Need]:
    """Slots that a job needs for its parallelism and for each of its groups."""
    return [Need.of_parallelism(parallelism_of(table_env)), *groups.values()]


def _shown(op: JobTable) -> AbstractContextManager[object]:
    """Progress display of a job; no display where its statuses cannot be read."""
    if not op._shown:
        return nullcontext()
    table_env = op._table_env
    rest = rest_of(table_env.get_config())
    # The job runs on hosts whose REST endpoint is not known, for example where Flink started this
    # program.
    if rest is None and runs_elsewhere(table_env):
        return nullcontext()
    return shown(op._shown, rest, shows_process_output())


@contextmanager
def job_named(
    table_env: StreamTableEnvironment, name: str | None, first: bool = False
) -> Iterator[None]:
    """Name the jobs that a block starts.

    A name that the user has set as `pipeline.name` wins, except with `first`: then `name` is the
    argument of a call, which is more specific than the configuration. The configuration is restored
    afterwards, because the environment may belong to the user.
    """
    config = table_env.get_config().get_configuration()
    before = config.get_string(_JOB_NAME, "")
    if name is None or (before and not first):
        yield
        return
    config.set_string(_JOB_NAME, name)
    try:
        yield
    finally:
        config.remove_config(_JOB_NAME)
        if before:
            config.set_string(_JOB_NAME, before)


def schema_of(where: str, table: Table) -> Schema:
    """Columns of a table as a schema; a SchemaError begins with `where`."""
    try:
        return Schema.of_table(*columns_of(table))
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None


def session_zone(name: str | None, table_env: StreamTableEnvironment) -> tzinfo:
    """Time zone of a given name, or else of the session."""
    know_zone(table_env)
    return zone_of(name or table_env.get_config().get_local_timezone())
