"""Methods of batch and stream operators that derive tables with Flink's SQL and Table API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from akdl.wire.column_type import parse_type
from bridge.exceptions import ConfigurationError
from bridge.schema import quoted, schema_text
from bridge.table_env import planning
from operators.alink.tensor_text import numbers_of_text, tensor_type
from operators.base.operator import Operator, reason_of

_Family = TypeVar("_Family", bound="Operator[Any]")


class ShapingOperator(Operator[_Family]):
    """A table, and the tables that can be derived from it without a script."""

    # `sqlQuery` finds the operators of its tables here, so that its job starts their processes. The
    # keys are the environment's identity and the name.
    _named: ClassVar[dict[tuple[int, str], Operator[Any]]] = {}

    def getSchemaStr(self) -> str:
        """Return the columns as "name type, name type", the format of sources: special names in
        back-quotes, no NOT NULL.
        """
        return schema_text(self.getColNames(), self.getColTypes())

    @planning()
    def alias(self, fields: str | Sequence[str]) -> _Family:
        """Rename the first columns: a list of names, or names separated by commas."""
        names = (
            [name.strip().strip("`") for name in fields.split(",")]
            if isinstance(fields, str)
            else list(fields)
        )
        if len(names) > len(self.getColNames()):
            raise ConfigurationError(
                f"alias: got {len(names)} names for the {len(self.getColNames())} columns"
                f" {self.getColNames()}"
            )
        return self._followed_by(self.getOutputTable().alias(*names))

    def sample(self, ratio: float, withReplacement: bool = False) -> _Family:
        """Draw each row at most once, with the probability `ratio`, 0 to 1: different rows in each
        job.
        """
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
            raise ConfigurationError(f"sample: expected a ratio from 0 to 1, got {ratio!r}")
        refuse_replacement("sample", withReplacement)
        # The literal is cast, because 0.1 alone would be a DECIMAL in Flink's SQL.
        return self.filter(f"RAND() < CAST({float(ratio)!r} AS DOUBLE)")

    def unionAll(self, *others: Any) -> _Family:
        """Combine the rows of tables with the same columns."""
        return self._query(
            "unionAll",
            "UNION ALL",
            lambda *views: " UNION ALL ".join(f"SELECT * FROM {view}" for view in views),
            *others,
        )

    def join(
        self, other: Any, joinPredicate: str, selectClause: str = "*", type: str = "JOIN"
    ) -> _Family:
        """Join two tables.

        Args:
            other: Right table, named `b` in SQL; this table is named `a`.
            joinPredicate: Condition, such as "a.id = b.id".
            selectClause: Columns of the result, such as "a.id, b.score".
            type: JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN, optionally with OUTER before JOIN.
        """
        # The type becomes a part of the SQL text, so only these words are accepted.
        if not re.fullmatch(r"(INNER |(LEFT|RIGHT|FULL)( OUTER)? )?JOIN", type.upper()):
            raise ConfigurationError(
                f"join: expected type JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN, got {type!r}"
            )
        return self._query(
            "join",
            f"{selectClause} ... ON {joinPredicate}",
            lambda a, b: f"SELECT {selectClause}\nFROM {a} AS a {type} {b} AS b ON {joinPredicate}",
            other,
        )

    @planning()
    def udf(
        self,
        func: Any,
        selectedCols: str | Sequence[str],
        outputCol: str,
        reservedCols: Sequence[str] | None = None,
    ) -> _Family:
        """Add a column computed by a function.

        Args:
            func: Result of `udf(function, result_type=...)`.
            selectedCols: Arguments of the function.
            outputCol: Name of the result; a column of this name is replaced.
            reservedCols: Columns to keep; all by default.
        """
        from pyflink.table.expressions import col

        called = _called("udf", func, selectedCols)
        names = self._reserved("udf", reservedCols)
        if outputCol in (reservedCols or ()):
            raise ConfigurationError(
                f"udf: reservedCols and outputCol both name {outputCol!r}: rename outputCol, or"
                " remove the column from reservedCols to replace it with the result"
            )
        # A column that is replaced keeps its place.
        columns = [called.alias(name) if name == outputCol else col(name) for name in names]
        if outputCol not in names:
            columns.append(called.alias(outputCol))
        return self._followed_by(self.getOutputTable().select(*columns))

    @planning()
    def udtf(
        self,
        func: Any,
        selectedCols: str | Sequence[str],
        outputCols: Sequence[str],
        reservedCols: Sequence[str] | None = None,
    ) -> _Family:
        """Expand each row to the rows that a function yields for it.

        Args:
            func: Result of `udtf(function, result_types=...)`.
            selectedCols: Arguments of the function.
            outputCols: Names of the yielded columns; they must not name existing columns.
            reservedCols: Columns to keep; all by default.
        """
        from pyflink.table.expressions import col

        known = set(outputCols) & set(self.getColNames())
        if known:
            raise ConfigurationError(
                f"udtf: outputCols: the input already has {', '.join(sorted(known))}: choose other"
                " names"
            )
        names = [*self._reserved("udtf", reservedCols), *outputCols]
        joined = self.getOutputTable().join_lateral(
            _called("udtf", func, selectedCols).alias(*outputCols)
        )
        return self._followed_by(joined.select(*map(col, names)))

    def toTensor(
        self,
        selectedCol: str,
        tensorDataType: str = "FLOAT",
        outputCol: str | None = None,
        size: int | None = None,
    ) -> _Family:
        """Convert a text column to an ARRAY column, the type of tensors for scripts and models.

        Args:
            selectedCol: A column of vectors or tensors as text, such as "0.5 1.0", "$4$0:0.5 2:1.0"
                or "FLOAT#2,1#0.5 1.0".
            tensorDataType: FLOAT, DOUBLE, INT or LONG.
            outputCol: Name of the result; `selectedCol` by default.
            size: Length of each ARRAY; required for sparse vectors without a size.
        """
        return self.udf(
            numbers_of_text(tensor_type(tensorDataType), size),
            [selectedCol],
            outputCol or selectedCol,
        )

    def toVector(self, selectedCol: str, outputCol: str | None = None) -> _Family:
        """Convert an ARRAY column to dense vectors in text, such as "0.5 1.0"; null elements become
        NaN.
        """
        text = f"ARRAY_JOIN(CAST({quoted(selectedCol)} AS ARRAY<STRING>), ' ', 'NaN')"
        return self._with_cells("toVector", {outputCol or selectedCol: text})

    def convertTypes(self, selectedCols: str | Sequence[str], targetType: str) -> _Family:
        """Cast some columns to another type, such as "DOUBLE"."""
        names = [selectedCols] if isinstance(selectedCols, str) else list(selectedCols)
        try:
            sql = parse_type(targetType).cast_sql
        except ValueError as error:
            raise ConfigurationError(f"convertTypes: targetType is {error}") from None
        return self._with_cells(
            "convertTypes", {name: f"CAST({quoted(name)} AS {sql})" for name in names}
        )

    def registerTableName(self, name: str) -> None:
        """Name this table for `sqlQuery`, replacing an earlier table of that name."""
        table_env = self._table_env
        if name in table_env.list_temporary_views():
            table_env.drop_temporary_view(quoted(name))
        table_env.create_temporary_view(quoted(name), self.getOutputTable())
        ShapingOperator._named[id(table_env), name] = self

    @classmethod
    def sqlQuery(cls, query: str) -> Any:
        """Query named tables with SQL, see `registerTableName`."""
        table_env = cls._own_environment()
        result = cls._family()
        try:
            result._table = table_env.sql_query(query)
        except Exception as error:
            raise ConfigurationError(
                f"sqlQuery: {query!r} is not valid SQL: {reason_of(error)}"
            ) from None
        # The query is not parsed. A name counts wherever no letter or digit stands next to it, so
        # that names in quotes, such as `my-table`, are found too.
        named = [
            op
            for (env, name), op in cls._named.items()
            if env == id(table_env)
            and re.search(rf"(?<!\w){re.escape(quoted(name)[1:-1])}(?!\w)", query)
        ]
        result._include(*named)
        return result

    @classmethod
    def registerFunction(cls, name: str, func: Any) -> None:
        """Name a function, the result of `udf` or `udtf`, for SQL."""
        table_env = cls._own_environment()
        table_env.drop_temporary_function(name)
        table_env.create_temporary_function(name, func)

    def _with_cells(self, method: str, cells: dict[str, str]) -> _Family:
        names = self.getColNames()
        columns = [
            f"{cells[name]} AS {quoted(name)}" if name in cells else quoted(name) for name in names
        ]
        columns += [f"{sql} AS {quoted(name)}" for name, sql in cells.items() if name not in names]
        return self._query(
            method, ", ".join(cells), lambda view: f"SELECT {', '.join(columns)} FROM {view}"
        )

    def _reserved(self, method: str, names: Sequence[str] | None) -> list[str]:
        known = self.getColNames()
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise ConfigurationError(
                f"{method}: reservedCols names {', '.join(unknown)}; the input has"
                f" {', '.join(known)}"
            )
        return known if names is None else list(names)


def _called(method: str, func: Any, selected_cols: str | Sequence[str]) -> Any:
    from pyflink.table.expressions import col
    from pyflink.table.udf import UserDefinedFunctionWrapper

    # A plain function has no declared result type, without which PyFlink cannot plan it.
    if not isinstance(func, UserDefinedFunctionWrapper):
        raise ConfigurationError(
            f"{method}: expected the result of {method}(...), got a {type(func).__name__}: declare"
            f" the result type with {method}(function,"
            f" {'result_type' if method == 'udf' else 'result_types'}=...)"
        )
    return func(*map(col, [selected_cols] if isinstance(selected_cols, str) else selected_cols))


def refuse_replacement(method: str, with_replacement: bool) -> None:
    if with_replacement:
        raise ConfigurationError(
            f"{method}: withReplacement=True is not supported: use collectToDataframe().sample(...,"
            " replace=True)"
        )
