"""Base class of all operators: a table, and methods to link it, query it and insert it into Flink
tables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from bridge.exceptions import ConfigurationError
from bridge.host.shipped import runs_elsewhere
from bridge.schema import quoted
from bridge.table_env import has_checkpoints, is_streaming, planning
from bridge.workarounds.pyflink_defects import column_names
from operators.base.elastic import run
from operators.base.job import JobTable, job_named
from operators.errors.flink_errors import readable
from operators.flink.slots import rest_of
from operators.params.rendering import Description, Rendered
from operators.progress.state import Shown
from operators.progress.waiting import note_linked, run_and_wait

if TYPE_CHECKING:
    import pandas as pd
    from pyflink.table import StreamTableEnvironment, Table, TableResult

    from bridge.files.reading import FileTable

# Views need names that no other view of the environment has, also in programs that make tables in
# several threads.
_numbers = itertools.count()
# The family is BatchOperator or StreamOperator, whose operators cannot be mixed.
_Family = TypeVar("_Family", bound="Operator[Any]")
_Op = TypeVar("_Op", bound="Operator[Any]")


class Operator(JobTable, Rendered, Generic[_Family]):
    """A table and the operators that can follow it. No job runs until a result is requested.

    `_table` is None until the operator is linked, or for a source until its first use.
    """

    _family: ClassVar[type[Any]]
    _table_source: ClassVar[type[Any]]
    _memory_source: ClassVar[type[Any]]
    _written_to = ""  # by a sink

    def _description(self) -> Description:
        columns = self._known_columns()
        note = (
            "no table until it is linked or used"
            if columns is None
            else "collectToDataframe() or print() returns its rows"
        )
        return super()._description()._replace(columns=columns, note=note)

    def _known_columns(self) -> list[tuple[str, str]] | None:
        """Names and types of the columns, if they are known without creating the table."""
        if self._table is not None:
            # The JVM may have ended, and a repr must not fail.
            with suppress(Exception):
                return list(zip(self.getColNames(), self.getColTypes()))
        return None

    @classmethod
    def fromTable(cls, table: Table) -> _Family:
        """Wrap a plain PyFlink table; jobs run in that table's environment."""
        op: _Family = cls._table_source(table)
        return op

    @classmethod
    def fromDataframe(cls, df: pd.DataFrame, schemaStr: str | None = None) -> _Family:
        """Create a table from a pandas DataFrame.

        Args:
            df: Columns are matched by name. NaN and other missing values are null.
            schemaStr: "name type, name type"; by default, the types that fit the cells.
        """
        op: _Family = cls._memory_source(df, schemaStr, "fromDataframe")
        return op

    @classmethod
    def fromArrow(cls, data: object, schemaStr: str | None = None) -> _Family:
        """Create a table from a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame,
        or a duckdb result.

        A cell is stored exactly, or refused with its column and row. A reader is read once, when
        the table is first needed.

        Args:
            data: An object with `__arrow_c_stream__`.
            schemaStr: Names and types, matched by name; by default, the types that fit Arrow's.

        Example:
            import pyarrow

            source = BatchOperator.fromArrow(pyarrow.table({"id": [1, 2], "x": [0.5, None]}))

        Raises:
            ConfigurationError: SQL lacks the type of a column.
        """
        op: _Family = cls._memory_source(data, schemaStr, "fromArrow")
        return op

    def _fix(self) -> None:
        """Refuse further changes of parameters, where the operator has any."""

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        raise NotImplementedError

    def _show(self, operators: dict[str, Shown]) -> None:
        """Display the progress of this table's jobs, also of jobs that the program starts with
        plain PyFlink.
        """
        self._shown = operators
        table_env = self._table_env
        rest = rest_of(table_env.get_config())
        if rest is not None or not runs_elsewhere(table_env):
            note_linked(operators, rest)

    def _readable_files(self) -> FileTable | None:
        """Files behind this table, for a reader in its place; None if rows have to travel.

        An exchange reads its share of files inside one timer, and no checkpoint passes during that.
        So a streaming job with checkpoints sends rows.
        """
        from bridge.flink.elements import origin_of

        table_env = self._table_env
        origin = origin_of(self.getOutputTable())
        if origin is None or (is_streaming(table_env) and has_checkpoints(table_env)):
            return None
        return origin.files

    def insertInto(self: _Op, table: str) -> _Op:
        """Insert all rows into a Flink table and wait for the job; Ctrl-C cancels it.

        Unlike `getOutputTable().execute_insert(table).wait()`, failures raise akdl's short errors
        instead of Java's. With an unbounded stream the call returns only when the job fails or is
        cancelled.

        Args:
            table: Name of the table, with catalog and database unless they are the current ones.

        Raises:
            BridgeError: The table does not exist, its columns differ, or the job failed.
        """
        run(self, lambda: run_and_wait(lambda: self._insert(table)))
        return self

    @planning()
    def _insert(self, table: str) -> TableResult:
        with job_named(self._table_env, self._job_name(table)):
            return self.getOutputTable().execute_insert(table)

    def _job_name(self, *into: str) -> str | None:
        """Name of a job in Flink's web UI; None if only Flink's own name is known."""
        scripts = ", ".join(dict.fromkeys(each.name for each in self._shown.values()))
        if into:
            return f"{scripts or 'insert'} into {', '.join(dict.fromkeys(into))}"
        return scripts or None

    def getColNames(self) -> list[str]:
        """Return the names of the columns."""
        return column_names(self.getOutputTable())

    def getColTypes(self) -> list[str]:
        """Return the types of the columns in Flink SQL."""
        resolved = self.getOutputTable()._j_table.getResolvedSchema()
        return [
            str(data_type.getLogicalType().asSummaryString())
            for data_type in resolved.getColumnDataTypes()
        ]

    def select(self, fields: str | Sequence[str]) -> _Family:
        """Select the columns of a SQL select list, such as "*, a + b AS c", or of a list of column
        names.

        A name in back-quotes that is not a column is a regular expression: "`x.*`" selects all
        columns that begin with x.
        """
        from bridge.flink.elements import origin_of, with_origin

        origin = origin_of(self.getOutputTable())
        clause = (
            _expanded(fields, self.getColNames())
            if isinstance(fields, str)
            else ", ".join(map(quoted, fields))
        )
        # The result is an ordinary query in any case. It keeps the origin as well only if the
        # columns are plain, so that a reader of files can leave out the other columns.
        result = self._query("select", clause, lambda view: f"SELECT {clause}\nFROM {view}")
        names = None if origin is None else _plain_columns(clause, self.getColNames())
        if origin is not None and names is not None and names == result.getColNames():
            with_origin(result.getOutputTable(), origin.selected(names))
        return result

    def filter(self, predicate: str) -> _Family:
        """Select the rows that satisfy a SQL condition."""
        return self._query(
            "filter", predicate, lambda view: f"SELECT * FROM {view} WHERE {predicate}"
        )

    where = filter

    def link(self, op: _Op) -> _Op:
        """Feed `op` with this table and return `op`."""
        if not isinstance(op, Operator):
            raise ConfigurationError(
                f"link: expected a {self._family.__name__}, got a {type(op).__name__}"
            )
        op.linkFrom(self)
        return op

    linkTo = link

    def linkFrom(self, *ops: Any) -> _Family:
        """Feed this operator and return it."""
        raise ConfigurationError(f"{self._name} takes no input")

    def _inputs(
        self, ops: tuple[Any, ...], expected: str, least: int = 1, most: float = 1
    ) -> tuple[Any, ...]:
        """Check the inputs of `linkFrom`, which Alink's programs also pass as one list."""
        ops = tuple(ops[0]) if len(ops) == 1 and isinstance(ops[0], (list, tuple)) else ops
        if not least <= len(ops) <= most or not all(isinstance(op, self._family) for op in ops):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            hint = f"{self._family.__name__}.fromTable(table) wraps a PyFlink Table"
            raise ConfigurationError(f"{self._name} takes {expected}, got {got}; {hint}")
        return ops

    @planning()
    def _query(
        self, method: str, sql: str, query: Callable[..., str], *others: Operator[Any]
    ) -> _Family:
        """Run a query over views of this table and others, which exist only while it is planned.

        Flink's planner error for wrong SQL has pages of keywords, so it becomes a
        ConfigurationError with the columns.
        """
        table_env = self._table_env
        views = []
        try:
            for op in (self, *others):
                if not isinstance(op, self._family):
                    raise ConfigurationError(
                        f"{method}: expected a {self._family.__name__}, got a {type(op).__name__}"
                    )
                # A view exists in one environment only.
                if op._table_env is not table_env:
                    raise ConfigurationError(f"{method}: all inputs must belong to one environment")
                views.append(f"akdl_view_{next(_numbers)}")
                table_env.create_temporary_view(views[-1], op.getOutputTable())
            result = self._followed_by(table_env.sql_query(query(*views)))
            result._include(*others)
            return result
        except ConfigurationError:
            raise
        except Exception as error:
            reason = reason_of(error)
            raise ConfigurationError(
                f"{method}: {sql!r} is not valid SQL for the columns {self.getColNames()}: {reason}"
                f"{_quoting_hint(sql, reason, self.getColNames())}"
            ) from None
        finally:
            for view in views:
                # Flink has resolved the views when it planned the query, so the table doesn't need
                # them afterwards.
                table_env.drop_temporary_view(view)

    def _followed_by(self, table: Table) -> _Family:
        """Wrap a table that was made from this one, with its processes."""
        result: _Family = self._family()
        result._table = table
        result._include(self)
        return result


def reason_of(error: Exception) -> str:
    """Message of an error about SQL, without the parser's list of all SQL keywords.

    That list takes a page, and the reason stands in front of it.
    """
    return str(readable(error)).split("\nWas expecting", 1)[0]


# The pattern matches a text in single quotes, or a name in back-quotes. Group 1 is what precedes a
# name that cannot be a regular expression: AS for an alias, and a dot for a field of a ROW.
_IN_QUOTES = re.compile(r"'(?:[^']|'')*'|(\bAS\s+|\.)?`((?:[^`]|``)+)`(?!\s*\.)", re.IGNORECASE)


def _expanded(clause: str, columns: Sequence[str]) -> str:
    """Replace Alink's regular expressions in back-quotes with the columns that match."""

    # Back-quotes inside of single quotes are part of a text and enclose no names. The pattern
    # matches whole texts, so that they are skipped.
    def columns_for(match: re.Match[str]) -> str:
        if match[2] is None or match[1] is not None or match[2].replace("``", "`") in columns:
            # This is a text, an alias, a field of a ROW, or the name of a column as it is.
            return match[0]
        # A name that is not a valid regular expression stays, and Flink reports that there is no
        # such column.
        with suppress(re.error):
            return (
                ", ".join(quoted(name) for name in columns if re.fullmatch(match[2], name))
                or match[0]
            )
        return match[0]

    return _IN_QUOTES.sub(columns_for, clause)


# The excluded words are functions without parentheses, such as CURRENT_DATE and USER, which look
# like columns.
_NAME = r"`(?:[^`]|``)+`|(?!(?i:current|local|session|system|user))[A-Za-z_]\w*"


def _plain_columns(clause: str, columns: Sequence[str]) -> list[str] | None:
    """The columns of which a select list consists; None if it has anything else, such as
    CURRENT_DATE.
    """
    if clause.strip() == "*":
        return list(columns)
    if not re.fullmatch(rf"\s*(?:{_NAME})\s*(?:,\s*(?:{_NAME})\s*)*", clause):
        return None
    return [
        name[1:-1].replace("``", "`") if name[0] == "`" else name
        for name in re.findall(_NAME, clause)
    ]


def _quoting_hint(sql: str, reason: str, columns: Sequence[str]) -> str:
    """Hint for wrong SQL in which a column is a keyword or not a plain identifier."""
    words = set(re.findall(r"\w+", sql))
    odd = [name for name in columns if not re.fullmatch(r"[A-Za-z_]\w*", name)]
    meant = [
        name for name in odd if quoted(name) not in sql and words & set(re.findall(r"\w+", name))
    ]
    # The parser stops at a keyword that is used as a name, and quotes it in this form.
    meant += [word for word in re.findall(r'Encountered "(\w+)"', reason)[:1] if word in words]
    if meant:
        return f"; quote column names such as {', '.join(map(quoted, meant))} with back-quotes"
    return ""
