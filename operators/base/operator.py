"""What all operators share: a table with methods to link and shape it, and what is done around its job."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from bridge.errors.flink_errors import readable
from bridge.exceptions import ConfigurationError
from bridge.host.shipped import runs_elsewhere
from bridge.interrupts import interrupts_later
from bridge.schema import quoted
from bridge.table_env import planning
from bridge.workarounds.pyflink_defects import column_names
from operators.base.job import environment_of, job_named, running
from operators.flink.slots import Need, rest_of
from operators.params.rendering import Description, Rendered
from operators.progress.linked import note_linked
from operators.progress.state import Shown
from operators.progress.waiting import run_and_wait

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table, TableResult

_numbers = itertools.count()
_Family = TypeVar("_Family", bound="Operator[Any]")  # BatchOperator or StreamOperator: what shaping leads to
_Op = TypeVar("_Op", bound="Operator[Any]")


class Operator(Rendered, Generic[_Family]):
    """A table and the operators that can follow it. Nothing runs before a result is asked for."""

    _family: ClassVar[type[Any]]

    def __init__(self) -> None:
        self._table: Table | None = None
        self._groups: dict[str, Need] = {}  # groups of processes that a job with this table starts
        self._shown: dict[str, Shown] = {}  # those of the groups whose progress is shown
        self._models: frozenset[str] = frozenset()  # model processes that it starts

    def _description(self) -> Description:
        columns = self._known_columns()
        note = "no table before it is linked or used" if columns is None else "collectToDataframe() or print() gives its rows"
        return replace(super()._description(), columns=columns, note=note)

    def _known_columns(self) -> list[tuple[str, str]] | None:
        """Return names and types of the columns where they are known without making the table."""
        if self._table is not None:
            with suppress(Exception):  # such as a JVM that has ended: showing an operator never fails
                return list(zip(self.getColNames(), self.getColTypes()))
        return None

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        """Return the environment in which sources of this family make their tables."""
        raise NotImplementedError

    def _also_starts_what(self, *ops: Operator[Any]) -> None:
        """Note that a job with this table starts all that jobs with those tables start."""
        for op in ops:
            self._groups.update(op._groups)
            self._shown.update(op._shown)
            self._models |= op._models

    def _show(self, operators: dict[str, Shown]) -> None:
        """Let jobs with this table show what its processes do, also jobs that the program starts by itself."""
        self._shown = operators
        table_env = environment_of(self.getOutputTable())
        rest = rest_of(table_env.get_config())
        if rest is not None or not runs_elsewhere(table_env):
            note_linked(operators, rest)

    def getOutputTable(self) -> Table:
        """Return the table as plain PyFlink, to go on in SQL or the Table API."""
        if self._table is None:
            raise ConfigurationError(f"{type(self).__name__} has no table yet: link it to its input first")
        return self._table

    def insertInto(self: _Op, table: str) -> _Op:
        """Run the job, write all rows into a table of Flink, and wait until they are written; Ctrl-C cancels the job.

        In place of `getOutputTable().execute_insert(table).wait()`, whose errors are those of Java. A stream without end is
        waited for until it fails or is cancelled.

        Args:
            table: Name of the table, with its catalog and database where these are not the current ones.

        Raises:
            BridgeError: There is no such table, its columns are others, or the job failed.
        """
        with interrupts_later(), running(self):
            run_and_wait(lambda: self._insert(table))
        return self

    @planning()
    def _insert(self, table: str) -> TableResult:
        with job_named(environment_of(self.getOutputTable()), self._job_name(table)):
            return self.getOutputTable().execute_insert(table)

    def _job_name(self, *into: str) -> str | None:
        """Name of a job with this table: its scripts, and the tables of Flink that it writes; None without any."""
        scripts = ", ".join(dict.fromkeys(each.name for each in self._shown.values()))
        return f"{scripts or 'insert'} into {', '.join(dict.fromkeys(into))}" if into else scripts or None

    def getColNames(self) -> list[str]:
        """Return the names of the columns."""
        return column_names(self.getOutputTable())

    def getColTypes(self) -> list[str]:
        """Return the types of the columns as Flink SQL texts."""
        resolved = self.getOutputTable()._j_table.getResolvedSchema()
        return [str(data_type.getLogicalType().asSummaryString()) for data_type in resolved.getColumnDataTypes()]

    def select(self, fields: str | Sequence[str]) -> _Family:
        """Return the columns of a SQL select list, such as "*, a + b AS c", or of a list of column names.

        Text in back-quotes that is no column is a regular expression, such as "`x.*`" for all columns whose names begin so.
        """
        clause = _expanded(fields, self.getColNames()) if isinstance(fields, str) else ", ".join(map(quoted, fields))
        return self._query("select", clause, lambda view: f"SELECT {clause}\nFROM {view}")

    def filter(self, predicate: str) -> _Family:
        """Return the rows for which a SQL condition holds."""
        return self._query("filter", predicate, lambda view: f"SELECT * FROM {view} WHERE {predicate}")

    def where(self, predicate: str) -> _Family:
        """Return the rows for which a SQL condition holds."""
        return self.filter(predicate)

    def link(self, op: _Op) -> _Op:
        """Feed `op` with this table and return `op`."""
        if not isinstance(op, Operator):
            raise ConfigurationError(f"link: expected a {self._family.__name__}, got a {type(op).__name__}")
        op.linkFrom(self)
        return op

    def linkTo(self, op: _Op) -> _Op:
        """Feed `op` with this table and return `op`."""
        return self.link(op)

    def linkFrom(self, *ops: Any) -> _Family:
        """Feed this operator and return it."""
        raise ConfigurationError(f"{type(self).__name__} takes no input")

    @planning()
    def _query(self, method: str, sql: str, query: Callable[..., str], *others: Operator[Any]) -> _Family:
        """Return what a query makes of this table, and of others of the same environment.

        Raises:
            ConfigurationError: The SQL is wrong, or another input is no operator of the same family and environment.
        """
        table_env = environment_of(self.getOutputTable())
        views = []
        try:
            for op in (self, *others):
                if not isinstance(op, self._family):
                    raise ConfigurationError(f"{method}: expected a {self._family.__name__}, got a {type(op).__name__}")
                if environment_of(op.getOutputTable()) is not table_env:
                    raise ConfigurationError(f"{method}: all inputs must belong to one environment")
                views.append(f"akdl_view_{next(_numbers)}")
                table_env.create_temporary_view(views[-1], op.getOutputTable())
            result = self._followed_by(table_env.sql_query(query(*views)))
            result._also_starts_what(*others)
            return result
        except ConfigurationError:
            raise
        except Exception as error:
            reason = str(readable(error)).split("\nWas expecting", 1)[0]  # the parser lists all of SQL's words
            raise ConfigurationError(
                f"{method}: {sql!r} is no valid SQL for the columns {self.getColNames()}: {reason}"
                f"{_about_names(sql, reason, self.getColNames())}"
            ) from None
        finally:
            for view in views:
                table_env.drop_temporary_view(view)  # the query holds the table itself

    def _followed_by(self, table: Table) -> _Family:
        result: _Family = self._family()
        result._table = table
        result._also_starts_what(self)
        return result


def inputs_of(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs that `linkFrom` was given: one by one, or as one list."""
    return tuple(ops[0]) if len(ops) == 1 and isinstance(ops[0], (list, tuple)) else ops


_IN_QUOTES = re.compile(r"'(?:[^']|'')*'|(\bAS\s+|\.)?`((?:[^`]|``)+)`(?!\s*\.)", re.IGNORECASE)


def _expanded(clause: str, columns: Sequence[str]) -> str:
    """Return a select list with the columns in place of regular expressions in back-quotes, as Alink has them."""

    def columns_for(found: re.Match[str]) -> str:
        if found[2] is None or found[1] is not None or found[2].replace("``", "`") in columns:
            return found[0]  # a string, the name of a result, a field of a ROW, a column
        with suppress(re.error):
            return ", ".join(quoted(name) for name in columns if re.fullmatch(found[2], name)) or found[0]
        return found[0]

    return _IN_QUOTES.sub(columns_for, clause)


def _about_names(sql: str, reason: str, columns: Sequence[str]) -> str:
    """Return which names in wrong SQL need back-quotes: names that are no plain word, and words of SQL."""
    words = set(re.findall(r"\w+", sql))
    odd = [name for name in columns if not re.fullmatch(r"[A-Za-z_]\w*", name)]
    meant = [name for name in odd if quoted(name) not in sql and words & set(re.findall(r"\w+", name))]
    meant += [word for word in re.findall(r'Encountered "(\w+)"', reason)[:1] if word in words]
    return f"; as a name, this stands in back-quotes: {', '.join(map(quoted, meant))}" if meant else ""
